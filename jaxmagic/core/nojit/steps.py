"""In which loop, at which step, and since when: what a progress bar shows and what a polite stop says."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

PATIENCE = 2.0
"""Seconds before progress is worth showing."""

_RATE = 0.1
"""Seconds between two tellings."""


@dataclass
class Loop:
    """A loop of JAX's that runs in Python."""

    kind: str
    total: int | None
    """Steps, where they are known beforehand."""
    done: int = 0

    def __str__(self) -> str:
        of = "" if self.total is None else f" of {self.total:,}"
        return f"step {self.done + 1:,}{of} of a {self.kind}"


@dataclass(frozen=True)
class Progress:
    """How far a cell has come."""

    seconds: float
    operations: int
    loops: tuple[Loop, ...]
    """Outermost first."""

    @property
    def fraction(self) -> float | None:
        """Of the outermost loop of known length; steps of those inside count as parts of its own."""
        share, whole, known = 0.0, 1.0, False
        for loop in self.loops:
            if not loop.total:
                break
            share, whole, known = share + whole * loop.done / loop.total, whole / loop.total, True
        return share if known else None

    def __str__(self) -> str:
        where = ", ".join(map(str, self.loops))
        return f"{self.seconds:.0f} s without jit, {self.operations:,} operations" + (f", {where}" if where else "")


class Steps:
    """Loops that run, by thread.

    Args:
        tell: Is told of progress after two seconds, ten times a second, on the thread that runs the loop.
        operations: How many operations have run.
    """

    def __init__(self, tell: Callable[[Progress], None] | None, operations: Callable[[], int]) -> None:
        self._tell = tell
        self._operations = operations
        self._local = threading.local()
        self._began = self._next = 0.0

    def start(self) -> None:
        self._began = time.perf_counter()
        self._next = self._began + PATIENCE

    @contextmanager
    def loop(self, kind: str, total: int | None) -> Iterator[Loop]:
        loop = Loop(kind, total)
        self.running().append(loop)
        try:
            yield loop
        finally:
            self.running().pop()

    def running(self) -> list[Loop]:
        if not hasattr(self._local, "loops"):
            self._local.loops = []
        return self._local.loops

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def tick(self, *_: Any) -> None:
        """Something was done; says so if it is time to."""
        now = time.perf_counter()
        if self._tell is not None and now > self._next:
            self._next = now + _RATE
            self._tell(Progress(now - self._began, self._operations(), tuple(self.running())))
