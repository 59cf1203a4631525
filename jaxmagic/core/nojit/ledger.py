"""What ran in Python, how many operations that took, and on which lines the time went."""

import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from jaxmagic.core.capture.ownership import IsUser, Subject
from jaxmagic.core.source import syntax
from jaxmagic.records import LineCost, RanInPython, Span

MOST_LINES = 200
"""Lines whose cost is told, dearest first."""


class Ledger:
    """Counts; called from any thread.

    Args:
        is_user: Whose file it is.
        after_operation: Called after each that was counted.
    """

    def __init__(self, is_user: IsUser, after_operation: Callable[[], None] = lambda: None) -> None:
        self._after_operation = after_operation
        self._is_user = is_user
        self._lock = threading.Lock()
        self._functions: dict[tuple[str, int, bool], tuple[CodeType | None, int]] = {}
        self._lines: dict[tuple[int, int], list[Any]] = {}
        self._local = threading.local()
        self.operations = 0

    def start(self) -> None:
        self._local.last = time.perf_counter()

    def ran(self, subject: Subject, carrier: bool) -> None:
        """A call of a jitted function is about to run in Python."""
        key = subject.name, id(subject.code), carrier
        with self._lock:
            self._functions[key] = subject.code, self._functions.get(key, (None, 0))[1] + 1

    def dispatched(self, *_: Any) -> None:
        """A program was sent to the device; the user's line that did it is on the stack."""
        now = time.perf_counter()
        spent = now - getattr(self._local, "last", now)
        self._local.last = now
        self.operations += 1
        self._after_operation()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not self._is_user(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return
        cost = self._lines.get((id(frame.f_code), frame.f_lineno))
        if cost is None:
            cost = self._lines[id(frame.f_code), frame.f_lineno] = [frame.f_code, frame.f_lineno, 0, 0.0]
        cost[2] += 1
        cost[3] += spent

    def codes(self) -> list[CodeType]:
        """Of the functions that ran in Python for their own sake, where it is known."""
        with self._lock:
            return [code for (_, _, carrier), (code, _) in self._functions.items() if code is not None and not carrier]

    def functions(self) -> tuple[RanInPython, ...]:
        with self._lock:
            return tuple(
                RanInPython(name, None if code is None else syntax.definition_span(code), calls, carrier)
                for (name, _, carrier), (code, calls) in self._functions.items()
            )

    def costs(self) -> tuple[LineCost, ...]:
        """By line, dearest first; lines of one statement of a cell that IPython ran piecewise are one."""
        by_line: dict[tuple[str, int], tuple[int, float]] = {}
        for code, line, operations, seconds in list(self._lines.values()):
            before = by_line.get((code.co_filename, line), (0, 0.0))
            by_line[code.co_filename, line] = before[0] + operations, before[1] + seconds
        dearest = sorted(by_line.items(), key=lambda each: -each[1][1])[:MOST_LINES]
        return tuple(
            LineCost(Span(file, line, 0, line, 0), operations, seconds)
            for (file, line), (operations, seconds) in dearest
        )
