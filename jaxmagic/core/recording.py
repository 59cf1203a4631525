"""One recording: starts the watchers, stops them on any way out, and puts what they saw into a `Report`."""

import platform
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import FrameType
from typing import Any, TypeVar

import jax
import jaxlib.version
import msgspec

from jaxmagic import __version__
from jaxmagic.core import backends, frames, jax_internals, rules
from jaxmagic.core.capture import Capture
from jaxmagic.core.cells import Cells
from jaxmagic.core.choice import only
from jaxmagic.core.entries import Stale
from jaxmagic.core.explain import explain
from jaxmagic.core.limits import Deliberate, Limits
from jaxmagic.core.lines import LineRecord
from jaxmagic.core.listeners import Listeners, Patient
from jaxmagic.core.nojit.budget import OverBudget
from jaxmagic.core.nojit.experiment import Experiment
from jaxmagic.core.nojit.lasting import Lasting
from jaxmagic.core.nojit.scope import NoJitOptions
from jaxmagic.core.nojit.steps import Progress
from jaxmagic.core.policy import Policy
from jaxmagic.core.prints import PrintRecord
from jaxmagic.core.results import described
from jaxmagic.core.sources import with_sources
from jaxmagic.records import Compiled, Failure, Finding, NoJit, Report, Seconds, Versions

T = TypeVar("T")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to record. The magics' flags and the Python API's keywords both end here."""

    title: str = "jaxmagic.trace()"
    functions: tuple[str, ...] = ()
    """Only these user functions, by name; all where empty."""
    modules: tuple[str, ...] = ()
    """Installed packages to treat as the user's own code."""
    retrace: bool = True
    """Look again at functions that were compiled before the recording began."""
    hlo: bool = True
    """Keep StableHLO and optimized HLO."""
    max_traces: int | None = None
    """Stop with `TracedTooOften` when a function is traced more often."""
    nojit: NoJitOptions | None = None
    """Run without jit, and where."""
    backend: str | None = None
    """Device for new arrays and computations: `cpu`, `gpu:1`."""


class TracedTooOften(Deliberate):
    """A function was traced more often than `max_traces` allows."""


class Recording:
    """Everything observed between `start` and `stop`."""

    def __init__(
        self, options: Options, cells: Cells | None = None, tell: Callable[[Progress], None] | None = None
    ) -> None:
        self.options = options
        self.limits = Limits()
        self._cells = cells or Cells()
        self._policy = Policy(options.modules)
        self._lines = LineRecord(self._policy, self.limits)
        self._capture = Capture(
            self.limits,
            retrace=options.retrace and not options.nojit,
            tracing=self._tracing,
            is_user=self._policy.is_user,
        )
        self._prints = PrintRecord(self._policy, self.limits)
        self._experiment = (
            Experiment(options.nojit, self._cells.namespace, self._policy, self.limits, tell) if options.nojit else None
        )
        self._patient: Patient | None = None
        self._watcher = frames.watch(self._listener(), self._policy.is_user, self.limits)
        self._undo = ExitStack()
        self._traces: dict[str, int] = {}
        self._file: str | None = None
        self._began = self._total = 0.0
        self._error: BaseException | None = None
        self._results: tuple[str, ...] = ()

    def start(self, frame: FrameType | None = None) -> None:
        """Begins to observe; `frame` is user code that already runs.

        Raises:
            ValueError: The backend asked for is not there; nothing was installed.
        """
        self._undo.enter_context(backends.selected(self.options.backend))
        self._file = frame.f_code.co_filename if frame is not None else None
        self._start("prints", lambda: self._prints.start(frame), self._prints.stop)
        self._start("compiled functions", self._capture.start, self._capture.stop)
        if self._experiment is not None:
            self._start("jit off", partial(self._experiment.start, self._watcher), self._experiment.stop)
        self._start("shapes beside lines", lambda: self._watcher.start(frame), self._watcher.stop)
        self._began = time.perf_counter()

    def running(self) -> Report:
        """The report of a cell that has only begun."""
        return self._with_sources(self._report("running"))

    def stop(self, error: BaseException | None = None, value: Any = None) -> None:
        """Takes everything off again.

        Args:
            error: What ended the cell, if anything did.
            value: What the cell gave as its value.
        """
        try:
            with self.limits.guard("effects still pending"):
                if jax_internals.backend_is_ready():
                    jax.effects_barrier()  # no print and no callback may come after the cell
        finally:
            self._total = time.perf_counter() - self._began
            self._error = error
            self._undo.close()
        with self.limits.guard("the cell's value"):
            self._results = described(value)

    def report(self) -> Report:
        """What was seen. Call once, after `stop`; every object of JAX's and the user's is let go here."""
        began = time.perf_counter()
        stale = self._tried("stale functions", self._capture.stale, ())
        compile_records = partial(self._capture.compiled, self._policy.is_user, hlo=self.options.hlo)
        compiled = self._tried("compiled functions", compile_records, ())
        report = self._report(
            _state(self._error),
            compiled=compiled,
            calls=self._tried("calls of functions", self._lines.calls, ()),
            hints=self._tried("shapes beside lines", self._lines.hints, ()),
            printed=self._prints.printed(),
            results=self._results,
            failure=self._tried("the failure", self._failure, None),
            nojit=self._nojit(),
        )
        findings = self._tried("findings", partial(self._findings, report, stale), ())
        report = self._with_sources(msgspec.structs.replace(report, findings=findings))
        self._error = None
        seconds = _seconds(compiled, self._total, time.perf_counter() - began)
        report = msgspec.structs.replace(report, seconds=seconds, limits=self.limits.lines())
        return only(report, self.options.functions)

    def _tried(self, what: str, make: Callable[[], T], otherwise: T) -> T:
        with self.limits.guard(what):
            return make()
        return otherwise

    def _listener(self) -> frames.Listener:
        if self._experiment is None:
            return self._lines
        self._patient = Patient(self._lines)
        return Listeners({"shapes beside lines": self._patient, **self._experiment.listeners()}, self.limits)

    def _start(self, what: str, start: Any, stop: Any) -> None:
        with self.limits.guard(what):
            self._undo.callback(self._stop, what, stop)
            start()

    def _stop(self, what: str, stop: Any) -> None:
        with self.limits.guard(f"the end of {what}"):
            stop()

    def _tracing(self, name: str) -> AbstractContextManager[None]:
        """Around each trace of a jitted function."""
        times = self._traces[name] = self._traces.get(name, 0) + 1
        if self.options.max_traces is not None and times > self.options.max_traces:
            raise TracedTooOften(
                f"{name} was traced {times} times in this cell; max_traces is {self.options.max_traces}. "
                "The report says why each time."
            )
        self._watcher.rearm()
        if self._patient is not None:
            self._patient.rearm()
        return self._lines.tracing(name)

    def _report(self, state: Any, **parts: Any) -> Report:
        ready = jax_internals.backend_is_ready()
        return Report(
            mode="jaxnojit" if self._experiment else "jaxtrace",
            state=state,
            title=self.options.title,
            versions=Versions(__version__, jax.__version__, jaxlib.version.__version__, platform.python_version()),
            backend=jax.default_backend() if ready else "",
            devices=tuple(map(str, jax.devices())) if ready else (),
            **parts,
        )

    def _with_sources(self, report: Report) -> Report:
        return self._tried("source text", partial(with_sources, report, self._cells, self._file), report)

    def _nojit(self) -> NoJit | None:
        with self.limits.guard("what ran without jit"):
            if self._experiment is not None:
                return self._experiment.record()
            if Lasting.current is not None:
                return Lasting.current.record()
        return None

    def _failure(self) -> Failure | None:
        if self._error is None:
            return None
        return explain(self._error, lines=self._lines, policy=self._policy, limits=self.limits)

    def _findings(self, report: Report, stale: tuple[Stale, ...]) -> tuple[Finding, ...]:
        return rules.observe(
            rules.Observed(
                limits=self.limits,
                calls=report.calls,
                hints=report.hints,
                compiled=report.compiled,
                files=tuple(dict.fromkeys(call.span.file for call in report.calls)),
                namespace=self._cells.namespace,
                printed=report.printed,
                stale=stale,
                failure=report.failure,
            )
        )


def _state(error: BaseException | None) -> Any:
    if error is None:
        return "finished"
    return "interrupted" if isinstance(error, KeyboardInterrupt | OverBudget) else "failed"


def _seconds(compiled: tuple[Compiled, ...], total: float, tool: float) -> Seconds:
    """Sums over the programs; what was traced inside of another function is in that one's time already."""
    traces = [trace for one in compiled for trace in one.traces if not trace.cached]
    top = [trace.trace_s for one in compiled if one.parent is None for trace in one.traces if not trace.cached]
    lower, compile_s = sum(trace.lower_s for trace in traces), sum(trace.compile_s for trace in traces)
    return Seconds(total, sum(top), lower, compile_s, tool)
