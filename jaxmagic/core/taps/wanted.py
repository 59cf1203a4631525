"""Which variables were asked for: `y`, `f.y`, `model.*`, `*.loss`, `params['w1']` or `params.w1`."""

import difflib
import re
from collections.abc import Sequence
from functools import lru_cache

RETURN = "return"
_MOST_SEEN = 20_000
_WORD = re.compile(r"\w+")
_STEP = re.compile(r"""\[(['"]?)([^\]]*?)\1\]""")


class Wanted:
    """Matches variables against the names that a user gave, and remembers what there was for want of a match.

    Args:
        names: Patterns; `*` and `?` stand for any text. A pattern names a variable, or a path into one, in any user
            function, or in one when it begins with the function's name. It also matches everything inside of what it
            names. A function's name alone means what the function returns. No names: every variable.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._patterns = {name: _Pattern(name) for name in names}
        self._matched: set[str] = set()
        self._seen: set[str] = set()

    @property
    def everything(self) -> bool:
        return not self._patterns

    def may_match(self, function: str, variable: str) -> bool:
        """Whether the variable, or something inside of it, can be wanted; cheap, and remembers the name."""
        if len(self._seen) < _MOST_SEEN:
            self._seen.update((variable, f"{function}.{variable}"))
        if self.everything:
            return not variable.startswith("_") and variable != RETURN
        base = variable.partition(".")[0]
        return any(pattern.mentions(base, function) for pattern in self._patterns.values())

    def matches(self, function: str, path: str) -> bool:
        """Whether `path`, as in `params['w1']`, of a function is wanted."""
        if self.everything:
            return True
        found = [name for name, pattern in self._patterns.items() if pattern.matches(function, path)]
        self._matched.update(found)
        return bool(found)

    def names_exactly(self, function: str, path: str) -> bool:
        """Whether `path` of a function is what one of the names says, and not one of many that a glob stands for."""
        return any(not each.is_glob and each.matches(function, path) for each in self._patterns.values())

    def __str__(self) -> str:
        return " ".join(self._patterns)

    def unknown(self) -> dict[str, tuple[str, ...]]:
        """The names that matched nothing, each with those most like it that there were."""
        return {
            name: tuple(difflib.get_close_matches(name, sorted(self._seen), n=3, cutoff=0.5))
            for name in self._patterns
            if name not in self._matched
        }


class _Pattern:
    def __init__(self, text: str) -> None:
        self._text = _canonical(text)
        self._regex = re.compile(_translate(self._text) + r"(\..*)?", re.DOTALL)
        self._words = set(_WORD.findall(self._text))
        self.is_glob = "*" in text or "?" in text

    def mentions(self, variable: str, function: str) -> bool:
        return self.is_glob or variable in self._words or (variable == RETURN and self._text == function)

    def matches(self, function: str, path: str) -> bool:
        if path.startswith(RETURN) and self._text == function:
            return True
        path = _canonical(path)
        if self._regex.fullmatch(path):
            return True
        # A pattern without a dot names no function, so that `loss` is not everything inside of a function `loss`.
        qualified = any(self._regex.fullmatch(f"{each}.{path}") for each in _names_of(function))
        return qualified and ("." in self._text or "*" in self._text)


@lru_cache(4096)
def _canonical(path: str) -> str:
    """`params['w1'][0]` as `params.w1.0`: keys, indices and attributes may all be asked for either way."""
    return _STEP.sub(r".\2", path)


def _translate(text: str) -> str:
    return "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in text)


@lru_cache(4096)
def _names_of(function: str) -> tuple[str, ...]:
    """`Model.__call__` is also `__call__`."""
    return tuple(dict.fromkeys((function, function.rpartition(".")[2])))
