"""What a user should know of the taps and edits that they asked for, as findings."""

import threading
from collections.abc import Iterable, Mapping

from jaxmagic.core.source import spans as source
from jaxmagic.core.taps.batches import Name
from jaxmagic.core.taps.wanted import Wanted
from jaxmagic.records import Evidence, Finding


class Remarks:
    """Collects them while functions are traced, each once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], Finding] = {}
        self._functions: dict[Wanted, dict[str, Name]] = {}
        self._lock = threading.Lock()

    def findings(self) -> tuple[Finding, ...]:
        with self._lock:
            return (*self._found.values(), *_replaced_again(self._functions))

    def replaced(self, wanted: Wanted, name: Name) -> None:
        """A value of this name is replaced, as was asked for."""
        with self._lock:
            self._functions.setdefault(wanted, {}).setdefault(name.function, name)

    def cut_gradient(self, name: Name) -> None:
        """The program is differentiated through a value that goes to the host function."""
        self._add(
            name,
            Finding(
                rule="tap-call-cuts-gradient",
                severity="note",
                span=name.span,
                title=f"the gradient through `{name.name}` in `{name.function}()` is zero in this run",
                explanation="JAX can't look inside of the host function given with --call: to differentiation, what it "
                "returns is a constant. An expression in jnp given with --set is differentiated.",
            ),
        )

    def used_on_its_line(self, name: Name) -> None:
        """The line that stores an edited variable reads it again."""
        line = name.span.line if name.span else 0
        self._add(
            name,
            Finding(
                rule="tap-used-on-its-line",
                severity="wrong-result",
                span=name.span,
                title=f"the rest of line {line} of `{name.function}()` had `{name.name}` as it was",
                explanation="A variable gets its new value, and its gradient is watched, from the next line on. "
                f"Put what comes after `{name.name}` on a line of its own.",
            ),
        )

    def returned(self, name: Name, asked: str) -> None:
        """What a function returns was to be edited."""
        given = source.text_of(name.span) if name.span else ""
        value = given.removeprefix("return").strip()
        fix = "" if value.isidentifier() or not given.startswith("return") else f"out = {value}\nreturn out"
        variable = value if value.isidentifier() else "out"
        self._add(
            name,
            Finding(
                rule="tap-return-not-editable",
                severity="error",
                span=name.span,
                title=f"what `{name.function}()` returns was not {asked}: it is in no variable",
                explanation="Only a variable can be given another value, or be watched for its gradient. "
                + (f"Give the value a name, and ask for `{name.function}.{variable}`." if fix else "")
                + (f"Ask for `{name.function}.{variable}`, the variable that it returns." if not fix and value else ""),
                fix=fix,
                replaces=name.span if fix else None,
            ),
        )

    def _add(self, name: Name, finding: Finding) -> None:
        with self._lock:
            self._found.setdefault((finding.rule, name.function, name.name), finding)


def unknown_names(unknown: Mapping[str, tuple[str, ...]]) -> tuple[Finding, ...]:
    """Names that were asked for and found nowhere, with those like them."""
    return tuple(_unknown(name, near) for name, near in unknown.items())


def _unknown(name: str, near: tuple[str, ...]) -> Finding:
    title = f"no user function that was traced or run in this cell has a `{name}`"
    explanation = f"Did you mean {' or '.join(f'`{one}`' for one in near)}?" if near else "No name was like it."
    evidence = () if near else (Evidence("A name is a variable, `function.variable`, or a path: `params['w1']`."),)
    if name in near:
        title = f"`{name}` never held a JAX array at the end of a line"
        explanation = (
            "Python numbers and numpy arrays are not tapped; nor are the variables of a comprehension, which are gone "
            "when its line ends. A line of its own, as in a for-loop, can be tapped."
        )
    return Finding(
        rule="tap-name-unknown", severity="error", span=None, title=title, explanation=explanation, evidence=evidence
    )


def _replaced_again(functions: Mapping[Wanted, Mapping[str, Name]]) -> Iterable[Finding]:
    for wanted, names in functions.items():
        if len(names) > 1:
            first = next(iter(names.values()))
            yield Finding(
                rule="tap-set-in-several-functions",
                severity="note",
                span=first.span,
                title=f"`{wanted}` was replaced in {len(names)} functions, each time anew",
                explanation="A value that one of them hands to another is replaced in both. "
                f"`--set {first.function}.{first.name}=…` replaces it in one only.",
                evidence=tuple(Evidence(f"`{one.name}` in `{one.function}()`", one.span) for one in names.values()),
            )
