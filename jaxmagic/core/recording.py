"""What `%%jaxtrace` and `%%jaxnojit` record: shapes at lines, compiled functions, findings."""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from types import FrameType

import msgspec

from jaxmagic.core import rules
from jaxmagic.core.capture.capture import Capture
from jaxmagic.core.capture.entries import Stale
from jaxmagic.core.capture.seconds import Seconds as Spent
from jaxmagic.core.cells import Cells
from jaxmagic.core.choice import only
from jaxmagic.core.failures.provenance import Written
from jaxmagic.core.lines import frames
from jaxmagic.core.lines.aliases import Aliases
from jaxmagic.core.lines.listeners import Listeners, Patient
from jaxmagic.core.lines.record import LineRecord
from jaxmagic.core.nojit.budget import OverBudget
from jaxmagic.core.nojit.experiment import Experiment
from jaxmagic.core.nojit.lasting import Lasting
from jaxmagic.core.nojit.scope import NoJitOptions
from jaxmagic.core.nojit.steps import Progress
from jaxmagic.core.nojit.trail import Trail
from jaxmagic.core.placed import Placed
from jaxmagic.core.session import Session
from jaxmagic.core.source.living import before
from jaxmagic.core.source.positions import user_frame
from jaxmagic.core.source.spans import position
from jaxmagic.records import Compiled, Failure, Finding, Frame, NoJit, Report, Seconds


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to record. The magics' flags and the Python API's keywords both end here."""

    title: str = "jaxmagic.trace()"
    functions: tuple[str, ...] = ()
    """Only these user functions, by name; all where empty."""
    modules: tuple[str, ...] = ()
    """Installed packages to treat as the user's own code."""
    retrace: bool = True
    """Look again at functions that were compiled before the recording began."""
    hlo: bool | None = None
    """Keep StableHLO and optimized HLO; None: of programs that are not very large."""
    max_traces: int | None = None
    """Stop with `TracedTooOften` when a function is traced more often."""
    nojit: NoJitOptions | None = None
    """Run without jit, and where."""
    backend: str | None = None
    """Device for new arrays and computations: `cpu`, `gpu:1`."""
    ignore: tuple[str, ...] = ()
    """Rules that give no finding: `float64-truncated`."""


class TracedTooOften(Placed):
    """A function was traced more often than `max_traces` allows."""


class Recording(Session):
    """A cell under `%%jaxtrace` or `%%jaxnojit`."""

    mode = "jaxtrace"
    interrupts = (KeyboardInterrupt, OverBudget)

    def __init__(
        self, options: Options, cells: Cells | None = None, tell: Callable[[Progress], None] | None = None
    ) -> None:
        super().__init__(options.title, options.modules, options.backend, cells)
        self.options = options
        self.ignored = frozenset(options.ignore)
        self._lines = LineRecord(self.policy, self.limits)
        self._aliases = Aliases()
        self._capture = Capture(
            self.limits,
            retrace=options.retrace and not options.nojit,
            tracing=self._tracing,
            is_user=self.policy.is_user,
            lowering=lambda: self._watcher.aside(),
        )
        self._experiment: Experiment | None = None
        if options.nojit is not None:
            self.mode = "jaxnojit"
            self._experiment = Experiment(options.nojit, self.cells.namespace, self.policy, self.limits, tell)
        self._patient: Patient | None = None
        self._watcher = frames.watch(self._listener(), self.policy.is_user, self.limits)
        self._traces: dict[str, int] = {}

    def begin(self, frame: FrameType | None) -> None:
        self.add("compiled functions", self._capture.start, self._capture.stop)
        if self._experiment is not None:
            self.add("jit off", partial(self._experiment.start, self._watcher), self._experiment.stop)
        self.add("shapes beside lines", lambda: self._watcher.start(frame), self._watcher.stop)

    def next_statement(self) -> None:
        with self.limits.guard("shapes beside lines"):
            self._watcher.next_statement()

    @property
    def trail(self) -> Trail | None:
        """Every value in order, where the run is to be compared with another."""
        return self._experiment.trail if self._experiment is not None else None

    def report(self) -> Report:
        began = time.perf_counter()
        stale = self.tried("stale functions", self._capture.stale, ())
        compile_records = partial(self._capture.compiled, self.policy.is_user, hlo=self.options.hlo)
        compiled = self.tried("compiled functions", compile_records, ())
        report = self.ended(
            self._lines,
            compiled=compiled,
            calls=self.tried("calls of functions", self._lines.calls, ()),
            hints=self.tried("shapes beside lines", self._lines.hints, ()),
            nojit=self.tried("what ran without jit", self._nojit, None),
        )
        findings = self.tried("findings", partial(self._findings, report, stale), ())
        report = self.with_sources(msgspec.structs.replace(report, findings=self.wanted(findings)))
        self.error = None
        seconds = _seconds(compiled, self._capture.seconds(), self.total_s, time.perf_counter() - began)
        report = msgspec.structs.replace(report, seconds=seconds, limits=self.limits.lines())
        return only(report, self.options.functions)

    def _listener(self) -> frames.Listener:
        if self._experiment is None:
            both: dict[str, frames.Listener] = {"shapes beside lines": self._lines}
            return Listeners(both | {"memory shared with NumPy": self._aliases}, self.limits)
        self._patient = Patient(self._lines)
        quietly = {"shapes beside lines": self._patient, "memory shared with NumPy": Patient(self._aliases)}
        return Listeners({**quietly, **self._experiment.listeners()}, self.limits)

    def _tracing(self, name: str) -> AbstractContextManager[None]:
        """Around each trace of a jitted function."""
        times = self._traces[name] = self._traces.get(name, 0) + 1
        if self.options.max_traces is not None and times > self.options.max_traces:
            raise TracedTooOften(
                f"{name} was traced {times} times in this cell; max_traces is {self.options.max_traces}. "
                "The report says why each time.",
                self._caller(),
            )
        self._watcher.rearm()
        if self._patient is not None:
            self._patient.rearm()
        return self._lines.tracing(name)

    def _caller(self) -> Frame | None:
        """The user's expression that runs now."""
        frame = user_frame(sys._getframe(1), self.policy.is_user)
        return Frame(position(frame), frame.f_code.co_qualname) if frame is not None else None

    def _nojit(self) -> NoJit | None:
        if self._experiment is not None:
            return self._experiment.record()
        return Lasting.current.record() if Lasting.current is not None else None

    def _failure(self, lines: Written | None) -> Failure | None:
        failure = super()._failure(lines)
        if failure is None or self._experiment is None:
            return failure
        return msgspec.structs.replace(failure, findings=tuple(map(_without_jit, failure.findings)))

    def _findings(self, report: Report, stale: tuple[Stale, ...]) -> tuple[Finding, ...]:
        modules = self._lines.modules()
        return rules.observe(
            rules.Observed(
                limits=self.limits,
                calls=report.calls,
                hints=report.hints,
                compiled=report.compiled,
                files=tuple(dict.fromkeys([*(call.span.file for call in report.calls), *modules])),
                modules=modules,
                earlier=before(self.cells, self.policy, modules),
                namespace=self.cells.namespace,
                printed=report.printed,
                results=report.results,
                stale=stale,
                aliases=self._aliases.found(),
                host_calls=tuple(self.host_calls),
                failure=report.failure,
            )
        )


def _without_jit(finding: Finding) -> Finding:
    """A finding about JAX's checker for NaN, which sees more than it does with jit."""
    if finding.rule != "nan-found":
        return finding
    more = (
        " Without jit the checker looks at the result of every operation, with jit only at what a jitted function "
        "returns: a NaN that is masked in between passes there."
    )
    return msgspec.structs.replace(finding, explanation=finding.explanation + more)


def _seconds(compiled: tuple[Compiled, ...], spent: Spent, total: float, tool: float) -> Seconds:
    """Where the time went; what was traced inside of another function is in that one's time already."""
    top = [trace.trace_s for one in compiled if one.parent is None for trace in one.traces if not trace.cached]
    return Seconds(total, sum(top), spent.lower, spent.compile, tool)
