"""What was traced, lowered, compiled and called between `start` and `stop`, on all threads."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

from jaxmagic.core import jax_internals
from jaxmagic.core.capture.compiled import compiled_functions
from jaxmagic.core.capture.counting import after_each_call
from jaxmagic.core.capture.entries import Entries, Entry, Stale
from jaxmagic.core.capture.execution import Execution
from jaxmagic.core.capture.ownership import IsUser
from jaxmagic.core.capture.seconds import Seconds, Stopwatch
from jaxmagic.core.capture.tracing import Progress, Tracing
from jaxmagic.core.limits import Limits
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.wrapping import wrapped
from jaxmagic.records import Compiled


class Capture:
    """Records every jitted function of the user's that is called, lowered or compiled.

    While it is started, a few pieces of JAX are wrapped, and each jitted function's first call passes through
    Python (0.1–0.4 ms); later ones cost less than 1 µs more, to be counted. Nothing is compiled that would not be
    compiled anyway. Any number of captures may be started at once.

    Args:
        limits: Where to note what could not be observed.
        retrace: Trace functions again that were traced before `start`, to see the lines of their code. They are
            given a new identity for it, so that JAX's caches stay as they are; what they print meanwhile is
            dropped and the host's random states are restored.
        tracing: Called with a function's name when JAX begins to trace it, for a context to be in while it does.
        is_user: Whether a file name is the user's code.
        lowering: Called for a context to be in while JAX lowers a program, where none of the user's code runs.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        retrace: bool = True,
        tracing: Callable[[str], AbstractContextManager[Any]] = nullcontext,
        is_user: IsUser | None = None,
        lowering: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        is_user = is_user or Policy().is_user
        progress = Progress()
        self._limits = limits
        self._entries = Entries(limits)
        self._stopwatch = Stopwatch(limits)
        self._tracing = Tracing(self._entries, progress, is_user, limits, tracing, retrace)
        self._execution = Execution(self._entries, progress, self._stopwatch, is_user, limits, lowering)
        self._undo = ExitStack()

    def start(self) -> None:
        """Puts the hooks on; one that can't be put on is noted in the limits."""
        hooks = {
            "infer_params": self._tracing.call,
            "trace_init": self._tracing.begin,
            "trace_to_jaxpr": self._tracing.body,
            "call_impl": self._execution.run,
            "resolve_and_lower": self._execution.lower,
            "compiled_call": self._execution.call_compiled,
        }
        if "checkpoint_trace" in jax_internals.PIECES:
            hooks["checkpoint_trace"] = self._tracing.body
        for key, hook in hooks.items():
            with self._limits.guard(jax_internals.PIECES[key].lost):
                self._undo.enter_context(wrapped(key, hook))
        self._execution.sees_calls = jax_internals.PIECES["call_impl"].present
        with self._limits.guard("lowering and compile seconds"):
            self._undo.enter_context(self._stopwatch.listening())
        with self._limits.guard("how often functions were called"):
            self._undo.enter_context(after_each_call(self._execution.called))
        with self._limits.guard("functions jitted before"):
            jax_internals.forget_dispatch()

    def stop(self) -> None:
        """Takes the hooks off. What was recorded stays until `compiled` is called."""
        self._undo.close()
        for entry in self._entries:
            entry.settle()

    def entries(self) -> tuple[Entry, ...]:
        """The programs recorded so far, in the order they were first seen."""
        return tuple(self._entries)

    def seconds(self) -> Seconds:
        """Lowering and compiling of everything, also of operations that run one by one and are not listed."""
        return self._stopwatch.total

    def stale(self) -> tuple[Stale, ...]:
        """Cached programs that are not what their function's code gives now."""
        return tuple(entry.stale for entry in self._entries if entry.stale is not None)

    def compiled(self, is_user: IsUser, *, hlo: bool | None = False) -> tuple[Compiled, ...]:
        """All functions as records. Call once, after `stop`: JAX's objects are let go.

        Args:
            is_user: Whose file it is; programs are linked to these files only.
            hlo: Also StableHLO and optimized HLO of each program, about 30 ms per 1,000 instructions; None: unless it
                has over `LARGE` equations, which is then said.
        """
        entries, self._entries = self.entries(), Entries(self._limits)
        return compiled_functions(entries, is_user, self._limits, hlo=hlo)
