"""Why JAX traced a function: what differs from its nearest earlier trace, across all cells of a session."""

import re
import sys
import threading
import weakref
from types import CodeType
from typing import Any, NamedTuple

from jaxmagic.core.capture.ownership import Subject
from jaxmagic.core.capture.signatures import Signature
from jaxmagic.core.jax_internals import UNNAMED
from jaxmagic.core.lines.attributes import instance_dict
from jaxmagic.records import Aval, Change, Reason


class History:
    """All signatures seen of each function object, and all function objects seen of each definition.

    One for the whole session. Functions are held weakly; of definitions only a fingerprint is kept.
    """

    def __init__(self) -> None:
        self._signatures: weakref.WeakKeyDictionary[Any, list[Signature]] = weakref.WeakKeyDictionary()
        self._definitions: dict[tuple, _Place] = {}
        self._given: weakref.WeakKeyDictionary[Any, list[tuple[Signature, Reason]]] = weakref.WeakKeyDictionary()
        """By the program: of two recordings at once, each asks."""
        self._namespaces = _Namespaces()
        self._lock = threading.Lock()

    def reason(self, fun: Any, subject: Subject, new: Signature, past: list[Signature], program: Any) -> Reason:
        """Why `fun` was traced with this signature just now, and notes that it was.

        Args:
            fun: The function object that JAX traced; the cache goes by its identity.
            subject: What it is about.
            new: The signature it was traced with.
            past: Other signatures for which JAX holds a trace; they count where nothing was noted before.
            program: The jaxpr that came of it.
        """
        with self._lock:
            given = self._given.setdefault(program, [])
            for signature, reason in given:
                if signature == new:
                    return reason
            earlier = list(self._signatures.get(fun, past))
            reason = compare(earlier, new) if earlier else self._first(subject)
            given.append((new, reason))
            self._remember(fun, subject, [*earlier, new])
            return reason

    def note(self, fun: Any, subject: Subject, signature: Signature, past: list[Signature]) -> None:
        """Notes a trace that JAX already had."""
        with self._lock:
            known = self._signatures.get(fun, past)
            if signature not in known:
                self._remember(fun, subject, [*known, signature])

    def of(self, fun: Any) -> list[Signature]:
        """The signatures noted of a function, oldest first."""
        with self._lock:
            return list(self._signatures.get(fun, ()))

    def _remember(self, fun: Any, subject: Subject, signatures: list[Signature]) -> None:
        self._signatures[fun] = signatures[-100:]
        if subject.code is not None:
            self._definitions[self._definition(subject, subject.code)] = _Place.of(subject.code)

    def _first(self, subject: Subject) -> Reason:
        code, before = subject.code, None
        if code is not None:
            before = self._definitions.get(self._definition(subject, code))
        if code is None or before is None or before.is_elsewhere(code):
            return Reason("first call", text="first call")
        if before.code == id(code):
            return Reason(
                "new function object",
                text=f"a new function object made from the same definition of {subject.name}: JAX's cache goes by "
                "the object, so nothing traced before is used again",
            )
        return Reason(
            "cell run again",
            text=f"the code that defines {subject.name} was run again, unchanged: that made a new function",
        )

    def _definition(self, subject: Subject, code: CodeType) -> tuple:
        return (subject.form, fingerprint(code), self._namespaces.of(subject.reference()))


class _Namespaces:
    """Tells where a function was defined: text that is run in another namespace is no cell run again."""

    def __init__(self) -> None:
        self._last: dict[str, Any] = {}
        """Of no module: what `exec` was given, for one. Only the last is kept, as it may hold large arrays."""
        self._count = 0

    def of(self, function: Any) -> str | int:
        variables = getattr(function, "__globals__", None)
        module = getattr(function, "__module__", None) or ""
        if type(variables) is not dict or instance_dict(sys.modules.get(module)) is variables:
            return str(module)
        if variables is not self._last:
            self._last, self._count = variables, self._count + 1
        return self._count


class _Place(NamedTuple):
    """Where a definition was last met."""

    code: int
    """`id` of the code object: running a cell again makes another one, running a loop does not."""
    file: str
    line: int

    @classmethod
    def of(cls, code: CodeType) -> "_Place":
        return cls(id(code), _EXECUTION_COUNT.sub("<ipython-input-", code.co_filename), code.co_firstlineno)

    def is_elsewhere(self, code: CodeType) -> bool:
        """Whether `code` is a second definition that only reads the same."""
        place = _Place.of(code)
        if place.file == self.file:
            return place.line != self.line
        return code.co_name == "<lambda>"


_EXECUTION_COUNT = re.compile(r"^<ipython-input-\d+-")
"""Plain IPython counts executions in the name of a cell, whose rest depends on its text alone."""


history = History()


def compare(earlier: list[Signature], new: Signature) -> Reason:
    """What differs from the nearest of the earlier signatures."""
    nearest = min((changes_between(old, new) for old in reversed(earlier)), key=_distance)
    if nearest:
        return Reason("changed", nearest, "; ".join(map(str, nearest[:4])) + ("; …" if len(nearest) > 4 else ""))
    unspelled = next((name for name, text in new.statics.items() if text.startswith("<")), None)
    if new in earlier and unspelled is not None:
        text = new.statics[unspelled]
        change = Change("static value", unspelled, text, f"another {text}")
        return Reason("changed", (change,), f"{change}, unequal to that of before, or JAX's caches were cleared")
    if new in earlier:
        return Reason(
            "cache cleared",
            text="traced before with the same arguments and options, but JAX no longer had it: its caches were "
            "cleared, or the entry was dropped for newer ones",
        )
    return Reason("unknown", text="nothing that jaxmagic compares has changed")


_FAR = {"structure": 9, "shape": 3, "dtype": 3}


def _distance(changes: tuple[Change, ...]) -> int:
    return sum(_FAR.get(change.what, 1) for change in changes)


def changes_between(old: Signature, new: Signature) -> tuple[Change, ...]:
    if old.arrays.keys() != new.arrays.keys():
        return (_structure(old, new), *_texts("static value", old.statics, new.statics))
    changes = [change for name in new.arrays for change in _aval_changes(name, old.arrays[name], new.arrays[name])]
    changes += _texts("static value", old.statics, new.statics)
    if not changes:
        changes += _spelling(old, new)
    if not changes:
        changes += _tree_changes(old, new)
    changes += _texts("option", old.jit, new.jit)
    # An option that one side doesn't know of was not compared, rather than changed.
    shared = old.options.keys() & new.options.keys()
    options = _texts("option", {k: old.options[k] for k in shared}, {k: new.options[k] for k in shared})
    named = [change for change in options if not change.name.startswith(UNNAMED)]
    return (*changes, *(named or options))


def _aval_changes(name: str, old: Aval, new: Aval) -> list[Change]:
    changes = []
    if old.shape != new.shape:
        changes.append(Change("shape", name, str(old), str(new)))
    if old.dtype != new.dtype:
        changes.append(Change("dtype", name, str(old), str(new)))
    if old.weak != new.weak:
        words = {True: "weak", False: "strong"}
        changes.append(Change("weak type", name, f"{old} ({words[old.weak]})", f"{new} ({words[new.weak]})"))
    if old.sharding != new.sharding:
        changes.append(Change("sharding", name, old.sharding or "one device", new.sharding or "one device"))
    return changes


def _texts(what: Any, old: dict[str, str], new: dict[str, str]) -> list[Change]:
    names = [*new, *(name for name in old if name not in new)]
    return [
        Change(what, name, old.get(name, "absent"), new.get(name, "absent"))
        for name in names
        if old.get(name) != new.get(name)
    ]


def _tree_changes(old: Signature, new: Signature) -> list[Change]:
    pairs = zip(old.trees, new.trees, strict=False)
    return [
        Change("structure", "arguments", before.text, after.text if after.text != before.text else _OTHER_STATICS)
        for before, after in pairs
        if before != after
    ]


_OTHER_STATICS = "the same with other static data in it"


def _structure(old: Signature, new: Signature) -> Change:
    gone = [name for name in old.arrays if name not in new.arrays]
    come = [name for name in new.arrays if name not in old.arrays]
    before = _names(gone) if gone else f"without {_names(come)}"
    after = _names(come) if come else f"without {_names(gone)}"
    return Change("structure", "arguments", before, after if gone else f"with {after}")


def _names(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _spelling(old: Signature, new: Signature) -> list[Change]:
    words = {True: "by keyword", False: "by position"}
    return [
        Change("spelling", name, words[name in old.keywords], words[name in new.keywords])
        for name in sorted(old.keywords ^ new.keywords)
    ]


def fingerprint(code: CodeType) -> int:
    """Equal for code compiled from the same text, wherever in the file it stands."""
    constants = tuple(
        fingerprint(each) if isinstance(each, CodeType) else (type(each).__name__, repr(each))
        for each in code.co_consts
    )
    return hash((code.co_name, code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars))
