"""Seconds of lowering and compiling, as JAX measures them, put down to the program they were spent on."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import jax

from jaxmagic.core.limits import Limits

_LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
_COMPILED = "/jax/core/compile/backend_compile_duration"
_PERSISTENT = "/jax/compilation_cache/cache_hits"


@dataclass(slots=True)
class Seconds:
    """Grows while a program is lowered and compiled."""

    lower: float = 0.0
    compile: float = 0.0
    persistent: bool = False
    """The executable came from the persistent compilation cache."""

    def add(self, other: "Seconds") -> None:
        self.lower += other.lower
        self.compile += other.compile
        self.persistent |= other.persistent


class Stopwatch:
    """Listens to `jax.monitoring`, whose events come on the thread that waits for them."""

    def __init__(self, limits: Limits) -> None:
        self.total = Seconds()
        """Of all programs, those of JAX's own operations among them."""
        self._lock = threading.Lock()
        self._limits = limits
        self._thread = threading.local()

    @contextmanager
    def listening(self) -> Iterator[None]:
        with ExitStack() as undo:
            jax.monitoring.register_event_duration_secs_listener(self._spent)
            undo.callback(jax.monitoring.unregister_event_duration_listener, self._spent)
            jax.monitoring.register_event_listener(self._happened)
            undo.callback(jax.monitoring.unregister_event_listener, self._happened)
            yield

    @contextmanager
    def attributed(self, seconds: Seconds | None) -> Iterator[None]:
        """Events on this thread go to `seconds`; to nobody where it is None."""
        before = getattr(self._thread, "now", None)
        self._thread.now = seconds
        try:
            yield
        finally:
            self._thread.now = before

    def await_compile(self, seconds: Seconds) -> None:
        """What was lowered by hand will be compiled later: the next compilation outside of a call is put down to it."""
        self._thread.awaited = seconds

    def _to(self) -> Seconds | None:
        return getattr(self._thread, "now", None) or getattr(self._thread, "awaited", None)

    def _spent(self, event: str, duration_secs: float, **_: Any) -> None:
        with self._limits.guard("compile seconds"):
            spent = Seconds()
            if event == _LOWERED:
                spent.lower = duration_secs
            elif event == _COMPILED:
                spent.compile = duration_secs
            with self._lock:
                self.total.add(spent)
            to = self._to()
            if to is not None:
                to.add(spent)

    def _happened(self, event: str, **_: Any) -> None:
        with self._limits.guard("persistent compilation cache"):
            to = self._to()
            if event == _PERSISTENT and to is not None:
                to.persistent = True
