"""Watches frames with `sys.settrace` (Python 3.11). It belongs to one user: a debugger or coverage goes first."""

import ctypes
import dis
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from jaxmagic.core.limits import Limits
from jaxmagic.core.lines.frames import Listener
from jaxmagic.core.lines.watched import ENTRY, Teller, Watched, ends_iteration

PATIENCE = 300
"""After so many events in a row on settled lines, tracing is turned off: merely being on halves Python's speed."""

_RESTED = (
    "shapes beside lines: after a statement has run for long without anything new, lines that it reaches later are not "
    "observed (Python 3.12 has no such limit)"
)
_SUSPENDABLE = 0x20 | 0x80 | 0x200  # generators, coroutines, asynchronous generators
_YIELD = dis.opmap["YIELD_VALUE"]
_RAISED = -1
_CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class SettraceWatcher:
    """The trace function of every thread that runs while it is on."""

    def __init__(
        self, listener: Listener, is_user: Callable[[str], bool], limits: Limits, adaptive: bool, what: str
    ) -> None:
        self._teller = Teller(listener, limits, what)
        self._what = what
        self._is_user = is_user
        self._limits = limits
        self._adaptive = adaptive
        self._codes: dict[int, Watched] = {}
        self._libraries: set[str] = set()
        """Files that are not the user's: most calls are dismissed by a look in here."""
        self._on = False
        self._calm = 0
        self._rested = False
        self._resting: set[int] = set()
        """Threads in which tracing was turned off because nothing new happened, or because the listener raised."""
        self._of_threads: Any = None
        self._pending: Any = None
        """Kept for as long as it may be called."""
        # Kept, so that they can be told by identity: every access to a method makes another object.
        self._trace = self._called
        self._trace_frame = self._happened

    def start(self, frame: FrameType | None = None) -> None:
        if sys.gettrace() is not None:
            self._stand_down()
            return
        self._on = True
        self._of_threads = threading.gettrace()
        threading.settrace(self._trace)
        if frame is not None:
            self._follow(frame)
        sys.settrace(self._trace)

    def stop(self) -> None:
        if not self._on:
            return
        self._on, mine = False, sys.gettrace() is self._trace
        if mine:
            sys.settrace(None)
        if threading.gettrace() is self._trace:
            threading.settrace(self._of_threads)
        if not mine and threading.get_ident() not in self._resting:
            self._stand_down()  # a debugger took over, and may be gone again
        self._unfollow_all()
        self._libraries.clear()
        self._codes.clear()

    def rearm(self) -> None:
        if not self._on or not self._adaptive:
            return
        for watched in self._codes.values():
            watched.quiet.clear()
        self._resume()

    def wake(self) -> None:
        # Only a thread itself can begin to trace. This has the main thread call us between two of its instructions.
        self._pending = _CALL(lambda _: self.rearm() or 0)
        ctypes.pythonapi.Py_AddPendingCall(self._pending, None)

    def next_statement(self) -> None:
        if self._on:
            self._resume()

    def _resume(self) -> None:
        self._calm = 0
        thread = threading.get_ident()
        if thread in self._resting and sys.gettrace() is None:
            self._resting.discard(thread)
            self._follow_stack(sys._getframe(2))
            sys.settrace(self._trace)

    @contextmanager
    def aside(self) -> Iterator[None]:
        # Each call of a Python function costs half a microsecond while tracing is on, and lowering makes many.
        if sys.gettrace() is not self._trace:
            yield
            return
        sys.settrace(None)
        try:
            yield
        finally:
            if self._on and sys.gettrace() is None:
                sys.settrace(self._trace)

    def _stand_down(self) -> None:
        why = "a debugger or coverage uses sys.settrace; Python 3.12 has room for all"
        self._limits.add(f"{self._what}: not observed ({why})")

    def _follow(self, frame: FrameType) -> None:
        """Traces a frame that already runs, its line being under way."""
        self._watched(frame).running.setdefault(id(frame), frame.f_lineno)
        frame.f_trace = self._trace_frame

    def _follow_stack(self, frame: FrameType | None) -> None:
        while frame is not None:
            if id(frame.f_code) in self._codes:
                self._follow(frame)
            frame = frame.f_back

    def _unfollow_all(self) -> None:
        """Takes the trace function off the frames that still run in this thread."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_trace is self._trace_frame:
                frame.f_trace = None
            frame = frame.f_back

    def _watched(self, frame: FrameType) -> Watched:
        code = frame.f_code
        watched = self._codes.get(id(code))
        if watched is None:
            watched = self._codes[id(code)] = Watched(code)
        return watched

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        """The trace function of a thread: is called where a frame begins, or a generator goes on."""
        __tracebackhide__ = True
        if frame.f_code.co_filename in self._libraries:
            return None
        if not self._on:
            sys.settrace(None)
            return None
        if not self._is_user(frame.f_code.co_filename):
            self._libraries.add(frame.f_code.co_filename)
            return None
        watched = self._watched(frame)
        if frame.f_trace is self._trace_frame:
            watched.running[id(frame)] = frame.f_lineno
            return self._trace_frame
        watched.running.pop(id(frame), None)
        if self._adaptive and watched.settled(ENTRY):
            self._keep_calm()
        elif self._told(self._teller.entered, watched, frame):
            self.rearm()
        return self._trace_frame

    def _happened(self, frame: FrameType, event: str, argument: Any) -> Any:
        """The trace function of a frame."""
        __tracebackhide__ = True
        if not self._on or sys.gettrace() is not self._trace:
            frame.f_trace = None
            return None
        watched = self._watched(frame)
        before = watched.running.pop(id(frame), None)
        if event == "line":
            self._step(watched, frame, before)
            watched.running[id(frame)] = frame.f_lineno
        elif event == "exception" and ends_iteration(frame.f_code, frame.f_lasti):
            watched.running[id(frame)] = frame.f_lineno
        elif event == "exception":
            watched.running[id(frame)] = _RAISED
            if before is not None and before != _RAISED:
                watched.nothing_new(before)
        elif event == "return" and not _yields(frame) and (argument is not None or before != _RAISED):
            self._return(watched, frame, argument)
        return self._trace_frame

    def _step(self, watched: Watched, frame: FrameType, line: int | None) -> None:
        __tracebackhide__ = True
        if line is None or line == _RAISED:
            return
        if self._adaptive and watched.settled(line):
            self._keep_calm()
        else:
            self._calm = 0
            self._told(self._teller.stepped, watched, frame, line)

    def _return(self, watched: Watched, frame: FrameType, value: Any) -> None:
        __tracebackhide__ = True
        line = frame.f_lineno
        if self._adaptive and watched.settled(-line):
            self._keep_calm()
        else:
            self._calm = 0
            self._told(self._teller.stepped, watched, frame, line)
            self._told(self._teller.left, watched, frame, line, value)

    def _told(self, tell: Callable[..., bool], *what: Any) -> bool:
        __tracebackhide__ = True
        try:
            return tell(*what)
        except BaseException:
            # Meant for the user. The interpreter turns tracing off in a thread whose trace function raises.
            self._resting.add(threading.get_ident())
            raise

    def _keep_calm(self) -> None:
        self._calm += 1
        if self._calm > PATIENCE:
            self._calm = 0
            self._resting.add(threading.get_ident())
            if not self._rested:
                self._rested = True
                self._limits.add(_RESTED)
            sys.settrace(None)
            for watched in self._codes.values():
                watched.running.clear()


def _yields(frame: FrameType) -> bool:
    code = frame.f_code
    return bool(code.co_flags & _SUSPENDABLE) and code.co_code[frame.f_lasti] == _YIELD
