"""What every recording has in common: parts that are started and stopped, prints, the failure, the report's frame."""

import platform
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import FrameType
from typing import Any, Literal, TypeVar

import jax
import jaxlib.version
import msgspec

from jaxmagic import __version__
from jaxmagic.core import backends, host_calls, jax_internals
from jaxmagic.core.cells import Cells
from jaxmagic.core.failures.explain import explain
from jaxmagic.core.failures.provenance import Written
from jaxmagic.core.failures.tracebacks import Tracebacks
from jaxmagic.core.limits import Limits
from jaxmagic.core.output.prints import PrintRecord
from jaxmagic.core.output.results import described
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.sources import with_sources
from jaxmagic.records import Failure, Finding, Report, Seconds, Versions

T = TypeVar("T")

Mode = Literal["jaxtrace", "jaxtap", "jaxnojit"]
State = Literal["running", "finished", "failed", "interrupted"]


class Session:
    """From `start` to `stop` something is observed; then `report` says what. Subclasses say what."""

    mode: Mode
    interrupts: tuple[type[BaseException], ...] = (KeyboardInterrupt,)
    """What ends a cell without being an error of it."""

    def __init__(self, title: str, modules: tuple[str, ...], backend: str | None, cells: Cells | None) -> None:
        self.limits = Limits()
        self.policy = Policy(modules)
        self.cells = cells or Cells()
        self.error: BaseException | None = None
        """What ended the cell, from `stop` to the end of `report`."""
        self.ignored: frozenset[str] = frozenset()
        """Rules that give no finding."""
        self.total_s = 0.0
        self._title = title
        self._backend = backend
        self._prints = PrintRecord(self.policy, self.limits, self.cells)
        self.host_calls: list[host_calls.Use] = []
        """Uses of the old `host_callback`."""
        self._tracebacks = Tracebacks()
        self._undo = ExitStack()
        self._file: str | None = None
        self._began = 0.0
        self._results: tuple[str, ...] = ()

    def start(self, frame: FrameType | None = None) -> None:
        """Begins to observe; `frame` is user code that already runs.

        Raises:
            ValueError: The backend asked for is not there; nothing was installed.
        """
        self._undo.enter_context(backends.selected(self._backend))
        self._undo.enter_context(host_calls.noted(self.host_calls.append))
        self._file = frame.f_code.co_filename if frame is not None else None
        self.add("JAX's own frames below a failing line", self._tracebacks.start, self._tracebacks.stop)
        self.add("prints", lambda: self._prints.start(frame), self._prints.stop)
        self.begin(frame)
        self._began = time.perf_counter()

    def begin(self, frame: FrameType | None) -> None:
        """Adds what is to be observed, the frame watcher last."""
        raise NotImplementedError

    def next_statement(self) -> None:
        """Another statement of a cell is about to run."""

    def report(self) -> Report:
        """What was seen. Call once, after `stop`; every object of JAX's and the user's is let go here."""
        raise NotImplementedError

    def running(self) -> Report:
        """The report of a cell that has only begun."""
        return self.with_sources(self.frame_of_report("running"))

    def remainder(self) -> Report:
        """Of a cell that has ended: what is left to say when its report was interrupted."""
        report = self.with_sources(self.frame_of_report(self._state()))
        spent = Seconds(total=self.total_s)
        return msgspec.structs.replace(report, seconds=spent, limits=("the report: not made (interrupted)",))

    def stop(self, error: BaseException | None = None, value: Any = None) -> None:
        """Takes everything off again.

        Args:
            error: What ended the cell, if anything did.
            value: What the cell gave as its value.
        """
        try:
            with self.limits.guard("effects still pending"):
                if jax_internals.backend_is_ready():
                    self._wait(error)
        finally:
            self.total_s = time.perf_counter() - self._began
            self.error = error
            self._undo.close()
            if error is None:
                self._tracebacks.forget()
        with self.limits.guard("the cell's value"):
            self._results = described(value)

    def _wait(self, error: BaseException | None) -> None:
        """Lets prints and callbacks end with the cell. One that raises is said, unless the cell ended by it."""
        try:
            jax.effects_barrier()
        except jax.errors.JaxRuntimeError as raised:
            if error is None:
                said = str(raised).rstrip().splitlines()[-1].strip()
                self.limits.add(f"a callback that was still running at the end of the cell raised {said[:200]}")

    # --------------------------------------------------------------------------------------- for subclasses

    def add(self, what: str, start: Callable[[], object], stop: Callable[[], object]) -> None:
        """Starts a part, to be stopped with the session; one that fails is noted and left out."""
        with self.limits.guard(what):
            self._undo.callback(self._stop, what, stop)
            start()

    def tried(self, what: str, make: Callable[[], T], otherwise: T) -> T:
        """What `make` gives, or `otherwise` and a line in the limits where it fails."""
        with self.limits.guard(what):
            return make()
        return otherwise

    def frame_of_report(self, state: State, **parts: Any) -> Report:
        ready = jax_internals.backend_is_ready()
        return Report(
            mode=self.mode,
            state=state,
            title=self._title,
            versions=Versions(__version__, jax.__version__, jaxlib.version.__version__, platform.python_version()),
            backend=jax.default_backend() if ready else "",
            devices=tuple(map(str, jax.devices())) if ready else (),
            **parts,
        )

    def ended(self, lines: Written | None = None, **parts: Any) -> Report:
        """The report of a finished cell but for its sources; `lines` tells where operands of a failure came from."""
        return self.frame_of_report(
            self._state(),
            printed=self._prints.printed(),
            results=self._results,
            failure=self.tried("the failure", partial(self._failure, lines), None),
            **parts,
        )

    def wanted(self, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Those of rules that are not ignored."""
        return tuple(finding for finding in findings if finding.rule not in self.ignored)

    def with_sources(self, report: Report) -> Report:
        return self.tried("source text", partial(with_sources, report, self.cells, self._file), report)

    def _stop(self, what: str, stop: Callable[[], object]) -> None:
        with self.limits.guard(f"the end of {what}"):
            stop()

    def _failure(self, lines: Written | None) -> Failure | None:
        if self.error is None:
            return None
        entries = self._tracebacks.entries(self.error)
        self._tracebacks.forget()
        failure = explain(
            self.error, entries=entries, lines=lines, policy=self.policy, limits=self.limits, cells=self.cells
        )
        return msgspec.structs.replace(failure, findings=self.wanted(failure.findings))

    def _state(self) -> State:
        if self.error is None:
            return "finished"
        return "interrupted" if isinstance(self.error, self.interrupts) else "failed"
