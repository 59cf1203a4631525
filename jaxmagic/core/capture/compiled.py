"""Entries of a recording → `Compiled` records, grouped by function."""

from collections.abc import Iterable
from typing import Any

from jaxmagic.core.capture.entries import Entry
from jaxmagic.core.capture.ownership import IsUser
from jaxmagic.core.limits import Limits
from jaxmagic.core.programs.costs import constants, cost
from jaxmagic.core.programs.listings import hlo_listing, stablehlo_listing
from jaxmagic.core.programs.programs import program
from jaxmagic.records import Compiled, Program, Trace

LARGE = 4_000
"""Equations of a program whose StableHLO and HLO are only kept when asked for: they take longer than a retrace."""


def compiled_functions(
    entries: Iterable[Entry], is_user: IsUser, limits: Limits, *, hlo: bool | None
) -> tuple[Compiled, ...]:
    """One record per function, in the order they were first seen; nothing of JAX is referred to afterwards."""
    groups: dict[tuple, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.group, []).append(entry)
    numbers = {group: number for number, group in enumerate(groups)}
    texts = _Texts(is_user, limits, hlo)
    return tuple(_function(numbers, members, texts) for members in groups.values())


def _function(numbers: dict[tuple, int], members: list[Entry], texts: "_Texts") -> Compiled:
    first = members[0]
    parents = [each.parent.group for each in members if each.parent is not None]
    inside = all(each.nested for each in members)
    traces = tuple(texts.trace(entry) for entry in members)
    return Compiled(
        id=numbers[first.group],
        name=first.subject.name,
        kind=first.kind_in_the_end,
        span=first.span,
        parent=numbers.get(parents[0]) if inside and parents else None,
        library=first.subject.owner != "user" and not any(map(_holds_user_code, traces)),
        traces=traces,
    )


def _holds_user_code(trace: Trace) -> bool:
    """Whether the user's own lines are in the program, as a model is in that of a sampler."""
    return trace.program is not None and bool(trace.program.frames)


class _Texts:
    """Turns entries into `Trace` records; a part that fails is left out, with a line in the limits."""

    def __init__(self, is_user: IsUser, limits: Limits, hlo: bool | None) -> None:
        self._is_user = is_user
        self._limits = limits
        self._hlo = hlo

    def trace(self, entry: Entry) -> Trace:
        name = entry.subject.name
        jaxpr = entry.jaxpr if entry.shown is None else entry.shown
        found: dict[str, Any] = {}
        shown = entry.subject.owner == "user" or not entry.nested
        if jaxpr is not None and shown:
            with self._limits.guard(f"the jaxpr of {name}"):
                found["program"] = program(jaxpr, is_user=self._is_user, name=name, kind=entry.kind)
            with self._limits.guard(f"the constants of {name}"):
                found["constants"] = constants(entry.jaxpr, entry.names)
        if entry.executable is not None:
            with self._limits.guard(f"the cost of {name}"):
                found["cost"] = cost(entry.executable)
        if shown and self._wants_listings(found.get("program"), name):
            found |= self._listings(entry, name)
        return Trace(
            reason=entry.reason,
            inputs=entry.inputs,
            outputs=entry.outputs,
            calls=entry.calls,
            calls_exact=entry.calls_exact,
            cached=entry.cached,
            span=entry.call,
            trace_s=entry.trace_s,
            lower_s=entry.seconds.lower,
            compile_s=entry.seconds.compile,
            run_s=entry.run_s,
            persistent_cache=entry.seconds.persistent,
            **found,
        )

    def _wants_listings(self, jaxpr: Program | None, name: str) -> bool:
        if self._hlo is not None or jaxpr is None or jaxpr.equations <= LARGE:
            return self._hlo is not False
        self._limits.add(f"StableHLO and HLO of {name} ({jaxpr.equations:,} equations): left out; `--hlo` keeps them")
        return False

    def _listings(self, entry: Entry, name: str) -> dict[str, Any]:
        found = {}
        if entry.lowered is not None:
            with self._limits.guard(f"the StableHLO of {name}"):
                found["stablehlo"] = stablehlo_listing(entry.lowered, self._is_user)
        if entry.executable is not None:
            with self._limits.guard(f"the HLO of {name}"):
                found["hlo"] = hlo_listing(entry.executable.as_text(), self._is_user)
        return found
