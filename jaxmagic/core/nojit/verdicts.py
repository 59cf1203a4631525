"""What a comparison means, in words."""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from jaxmagic.core.nojit.clocks import VERDICT
from jaxmagic.core.nojit.numbers import AGREEING, ORDER, ULPS, worse
from jaxmagic.core.nojit.outcome import Outcome
from jaxmagic.core.nojit.trail import Event, Parting
from jaxmagic.records import Difference, Finding

FROZEN = ("frozen-random", "frozen-read")
"""Rules that find Python in a compiled function which gives something else at each call."""


class Runs(NamedTuple):
    """Everything that is known of the two runs."""

    jit: Outcome
    plain: Outcome
    differences: tuple[Difference, ...]
    findings: tuple[Finding, ...] = ()
    """In the compiled run."""
    parting: Parting | None = None
    rounding: Parting | None = None
    """Where they part by no more than rounding, before that."""
    strange: Event | None = None
    """The first array with a NaN or an infinity without jit."""
    traced_afresh_agrees: bool = False
    """Functions traced anew gave what the run without jit gave, and what was cached did not."""
    stopped: str = ""
    """What ended the run without jit before its end: the budget, an interrupt."""


def worst_of(differences: Sequence[Difference]) -> str:
    return reduce(worse, (each.verdict for each in differences if each.verdict != VERDICT), "equal")


def verdict(runs: Runs) -> str:
    """One to three sentences: equal, or in what way not, and why."""
    if runs.stopped:
        return _of_stopped(runs)
    if runs.jit.error or runs.plain.error:
        return _of_errors(runs.jit.error, runs.plain.error)
    worst = worst_of(runs.differences)
    if worst in ("equal", "type differs"):
        return _of_equal(runs, worst)
    if worst in ("rounding", "within tolerance", "re-association"):
        return _of_rounding(runs, worst)
    side_effect = _side_effect(runs)
    if side_effect:
        return side_effect
    if runs.traced_afresh_agrees:
        return (
            "A stale program: traced afresh, the code gives with jit what it gives without. What ran was compiled "
            f"earlier, and something that it read then (a global, an attribute) has changed since.{_where(runs)}"
        )
    if runs.strange is not None and _is_strange_only_without_jit(runs, worst):
        return _of_strange(runs, runs.strange)
    return _of_difference(runs, worst)


def _of_difference(runs: Runs, worst: str) -> str:
    parting = runs.parting
    if parting is not None and parting.is_noise:
        return (
            f"Rounding that the code amplifies: {_event(parting.event)} differs by {parting.gap:.2g}, which is "
            f"rounding beside values of up to {parting.scale:.3g}, and what follows makes much of it: "
            f"{_names(runs, worst)}."
        )
    if parting is not None and runs.rounding is not None and runs.rounding.event is not parting.event:
        return (
            f"A real difference, or rounding that has grown: {_names(runs, worst)}. The runs part by rounding at "
            f"{_event(runs.rounding.event)}{_step(runs.rounding)}, and by more at "
            f"{_event(parting.event)}{_step(parting)}."
        )
    return (
        f"A real difference: {_names(runs, worst)}, more than rounding or another order of operations explains."
        f"{_where(runs)}"
    )


def _of_stopped(runs: Runs) -> str:
    text = f"Not compared to the end: {runs.stopped} ended the run without jit."
    if runs.jit.error:
        return f"{text} With jit the cell raises {runs.jit.error}"
    if runs.parting is None:
        return f"{text} Up to there, no value that both runs show differs."
    if runs.parting.verdict in AGREEING:
        return f"{text}{_where(runs)} Up to the end of that run it is no more than rounding."
    return f"{text}{_where(runs)} By {runs.parting.gap:.2g} there: {runs.parting.verdict}."


def _of_errors(jit: str, plain: str) -> str:
    if jit and plain:
        same = jit.split(":")[0] == plain.split(":")[0]
        return f"Both runs raise: {plain}" if same else f"Both runs raise: with jit {jit}; without jit {plain}"
    if jit:
        return f"This code only works without jit; with jit it raises {jit}"
    return f"This code only works with jit; without jit it raises {plain}"


def _of_equal(runs: Runs, worst: str) -> str:
    arrays = sum(each.left is not None for each in runs.differences)
    text = f"Equal to the last bit: {arrays} {'array' if arrays == 1 else 'arrays'} compared."
    if worst == "type differs":
        text = (
            f"Equal values, but another type: {_names(runs, worst)} (a Python number is not made an array without jit)."
        )
    if runs.strange is not None and not _results_are_strange(runs):
        what = "A NaN" if np.isnan(runs.strange.value).any() else "An infinity"
        text += f" {what} is in {_event(runs.strange)} and in no result: it is masked on the way."
    return text


def _of_rounding(runs: Runs, worst: str) -> str:
    ulps = max((each.max_ulp or 0.0 for each in runs.differences if each.verdict == worst), default=0.0)
    relative = max((each.max_rel or 0.0 for each in runs.differences), default=0.0)
    if worst == "rounding":
        by = f"{ulps:g} ulp (the last bits)" if ulps <= ULPS else f"{relative:.2g} of the largest element"
        return f"Equal to rounding: {_names(runs, worst)} by at most {by}.{_where(runs)}"
    if worst == "within tolerance":
        return f"Equal within the tolerance given: {_names(runs, worst)}, by {relative:.2g} of the largest element."
    return (
        "Equal to re-association: compiled code adds and multiplies in another order, or fuses operations; "
        f"{_names(runs, worst)}, by {relative:.2g} of the largest element.{_where(runs)}"
    )


def _side_effect(runs: Runs) -> str:
    frozen = next((each for each in runs.findings if each.rule in FROZEN), None)
    if frozen is not None:
        where = f" (line {frozen.span.line})" if frozen.span else ""
        return f"A Python side effect: {frozen.title}{where}. Compiled code runs Python only while it is traced."
    python = [each for each in runs.differences if each.left is None and each.right is None]
    python = [each for each in python if each.verdict not in (*ORDER, VERDICT)]
    if not python:
        return ""
    told = "; ".join(f"{each.name}: {each.verdict}" for each in python[:3])
    return f"A Python side effect: {told}. Compiled code runs Python only while it is traced, not at each call."


def _is_strange_only_without_jit(runs: Runs, worst: str) -> bool:
    return worst in ("infinite without jit", "NaN without jit") or (
        runs.parting is not None and not np.isfinite(runs.parting.event.value).all()
    )


def _of_strange(runs: Runs, strange: Event) -> str:
    if np.isnan(strange.value).any():
        return (
            f"A NaN that jit hides: {_event(strange)} is NaN without jit, and the compiled program does not "
            f"need that value, or simplifies it away.{_where(runs)}"
        )
    return (
        f"Fused evaluation: {_event(strange)} is infinite without jit, and the compiled program simplifies the "
        f"expression so that it never needs that value.{_where(runs)}"
    )


def _results_are_strange(runs: Runs) -> bool:
    values = [item.value for item in runs.plain.items.values() if item.aval is not None and item.value is not None]
    return any(value.dtype.kind in "fc" and not np.isfinite(value).all() for value in values)


def _names(runs: Runs, worst: str) -> str:
    names = [f"`{each.name}`" for each in runs.differences if each.verdict == worst]
    names = names or [f"`{each.name}`" for each in runs.differences if each.verdict not in (*ORDER, VERDICT)]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more} differ{'s' if len(names) == 1 else ''}"


def _where(runs: Runs) -> str:
    if runs.parting is None:
        return ""
    return f" They part at {_event(runs.parting.event)}{_step(runs.parting)}."


def _step(parting: Parting) -> str:
    return f", step {', '.join(str(at + 1) for at in parting.loop)} of the loop" if parting.loop else ""


def _event(event: Event) -> str:
    name = "the value returned" if event.name == "return" else f"`{event.name}`"
    function = "" if event.function == "<module>" else f" of {event.function}"
    return f"{name} on line {event.span.line}{function}"
