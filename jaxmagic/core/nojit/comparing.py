"""Runs the same code with jit and without, from equal inputs, and says how the results differ."""

import ast
import re
from collections.abc import Callable, MutableMapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax
import msgspec

from jaxmagic.core.limits import Limits
from jaxmagic.core.nojit.budget import OverBudget
from jaxmagic.core.nojit.clocks import VERDICT, unrepeatable
from jaxmagic.core.nojit.compare import differences
from jaxmagic.core.nojit.counted import operations_counted
from jaxmagic.core.nojit.inputs import Inputs
from jaxmagic.core.nojit.lasting import Lasting
from jaxmagic.core.nojit.ledger import Ledger
from jaxmagic.core.nojit.numbers import AGREEING, ORDER, Tolerance
from jaxmagic.core.nojit.outcome import Outcome, items_of
from jaxmagic.core.nojit.trail import Parting, Trail, first_parting, strange_before
from jaxmagic.core.nojit.verdicts import Runs, verdict, worst_of
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.taps.series import Series
from jaxmagic.core.taps.taps import TapOptions, Taps
from jaxmagic.records import Comparison, Difference, Finding, Report

VALUE = "the cell's value"
BUDGET = "the budget"


class Once(NamedTuple):
    """A run under jit."""

    outcome: Outcome
    findings: tuple[Finding, ...]
    operations: int
    failure: tuple[Finding, ...] = ()
    """What explains its exception."""


class Comparing:
    """One comparison: `run_compiled` before the user's own run, `comparison` after it.

    Args:
        tree: Of the cell.
        again: Runs it in the user's namespace, and returns its value.
        namespace: The user's variables.
        record: Runs a function under a recording of the compiled run; returns its report, result and error.
        tolerance: What counts as equal.
    """

    def __init__(
        self,
        tree: ast.Module,
        again: Callable[[], Any],
        namespace: MutableMapping[str, Any],
        record: Callable[[Callable[[], Any]], tuple[Report, Any, BaseException | None]],
        tolerance: Tolerance,
    ) -> None:
        self._again = again
        self._record = record
        self._tolerance = tolerance
        self._policy = Policy()
        self._namespace = namespace
        self._unrepeatable = unrepeatable(tree)
        self._inputs = Inputs(compile(tree, "<cell>", "exec"), namespace)
        self._given = self._inputs.copied()
        self._spare = self._inputs.copied()
        self._jit: Once | None = None

    @property
    def uncopied(self) -> tuple[str, ...]:
        """Variables that all runs share, because they can't be copied."""
        return self._inputs.uncopied

    def run_compiled(self) -> None:
        """The run under jit, on copies; afterwards the namespace is what it was."""
        ledger = Ledger(self._policy.is_user)
        self._inputs.put(self._given)
        try:
            with _jit_on(), operations_counted(ledger):
                report, value, error = self._record(self._again)
            seconds = _running(report)
            outcome = self._outcome(self._given, value, error, seconds)
            failure = report.failure.findings if report.failure is not None else ()
            self._jit = Once(outcome, report.findings, ledger.operations, failure)
        finally:
            self._given = {}
            self._inputs.restore()

    @property
    def failure(self) -> tuple[Finding, ...]:
        """Why the run under jit failed, where that is known."""
        return self._jit.failure if self._jit is not None else ()

    def comparison(
        self, report: Report, value: Any, error: BaseException | None, trail: Trail | None, limits: Limits
    ) -> Comparison:
        """Compares with the run without jit, which has just ended and left its results in the namespace."""
        assert self._jit is not None
        plain = self._outcome({}, value, error, _running(report))
        jit = self._jit.outcome
        stopped = _what_stopped(error)
        found = () if jit.error or plain.error else self._differences(jit, plain)
        parting, rounding, agrees = None, None, False
        events = trail.events if trail is not None else []
        if worst_of(found) not in ("equal", "type differs") or (stopped == BUDGET and not jit.error):
            with limits.guard("the line where the runs part"):
                parting, rounding, agrees = self._parting(events, plain, found, limits)
        strange = strange_before(events, parting)
        runs = Runs(jit, plain, found, self._jit.findings, parting, rounding, strange, agrees, stopped)
        return Comparison(
            left="with jit",
            right=f"without jit ({report.nojit.scope})" if report.nojit else "without jit",
            verdict=verdict(runs),
            differences=found,
            first=parting.event.span if parting else None,
            left_s=jit.seconds,
            right_s=plain.seconds,
            left_operations=self._jit.operations,
            right_operations=report.nojit.operations if report.nojit else 0,
        )

    def _parting(
        self, events: list, plain: Outcome, found: tuple[Difference, ...], limits: Limits
    ) -> tuple[Parting | None, Parting | None, bool]:
        """Runs a third time, with jit and taps.

        Returns:
            Where the values part as they do in the results, where they first do at all, and whether the results of
            this run agree with those without jit.
        """
        series, outcome = self._run_tapped(limits)
        again = self._differences(outcome, plain)
        agrees = worst_of(found) == "different" and worst_of(again) in AGREEING
        if agrees:
            return None, None, True
        worst = worst_of(found) if found else ORDER[len(AGREEING)]  # nothing found: the run was stopped before its end
        rounding = first_parting(events, series, self._tolerance, "rounding")
        parting = first_parting(events, series, self._tolerance, worst) if worst in ORDER else None
        return parting or rounding, rounding, False

    def _differences(self, jit: Outcome, plain: Outcome) -> tuple[Difference, ...]:
        """One for each name; what is never the same twice says so instead of how far it is apart."""
        return tuple(
            msgspec.structs.replace(each, verdict=VERDICT)
            if each.verdict != "equal" and _variable(each.name) in self._unrepeatable
            else each
            for each in differences(jit, plain, self._tolerance)
        )

    def _run_tapped(self, limits: Limits) -> tuple[tuple[Series, ...], Outcome]:
        after = dict(self._namespace)
        taps = Taps((), TapOptions(keep="values"), self._policy, limits)
        self._inputs.put(self._spare)
        value: Any = None
        try:
            with _jit_on():
                taps.start()
                try:
                    value = self._again()
                    jax.effects_barrier()
                finally:
                    taps.stop()
            return taps.series(), self._outcome(self._spare, value, None, 0.0)
        finally:
            self._spare = {}
            self._inputs.restore()
            self._namespace.update(after)

    def _outcome(self, given: dict[str, Any], value: Any, error: BaseException | None, seconds: float) -> Outcome:
        variables = self._inputs.results(given)
        if value is not None:
            variables[VALUE] = value
        items, hidden = items_of(variables, self._policy.owns)
        said = "" if error is None else f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return Outcome(items, said, seconds, hidden)


def _what_stopped(error: BaseException | None) -> str:
    if isinstance(error, OverBudget):
        return BUDGET
    return "an interrupt" if isinstance(error, KeyboardInterrupt) else ""


def _variable(path: str) -> str:
    """The variable at the beginning of a path: `state` of `state.params['w']`."""
    found = re.match(r"\w+", path.removeprefix("len("))
    return found[0] if found else path


def _jit_on() -> Any:
    return nullcontext() if Lasting.current is None else Lasting.current.suspended()


def _running(report: Report) -> float:
    spent = report.seconds
    return max(0.0, spent.total - spent.trace - spent.lower - spent.compile)
