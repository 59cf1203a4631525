"""What the cell prints, with the line that printed it. Output still goes where it went before."""

import sys
import threading
from types import FrameType
from typing import Any, Literal, TextIO, cast

from jaxmagic.core.limits import Limits
from jaxmagic.core.source import Policy, position
from jaxmagic.core.transforms import is_tracing
from jaxmagic.records import Printed, Span

MOST_LINES = 2_000
"""Lines kept; those beyond are counted."""


Writer = Literal["print", "jax.debug.print"]
Origin = tuple[Writer, Span | None]

_DEBUG_PRINT = ("jax/_src/debugging.py", "jax\\_src\\debugging.py")


class PrintRecord:
    """Stands before `sys.stdout` from `start` to `stop`."""

    def __init__(self, policy: Policy, limits: Limits) -> None:
        self._policy = policy
        self._limits = limits
        self._lines: list[Printed] = []
        self._total = 0
        self._open = ""
        self._last: Origin = ("print", None)
        self._lock = threading.Lock()
        self._tee: _Tee | None = None
        self._outside: list[FrameType] = []

    def start(self, frame: FrameType | None = None) -> None:
        """Begins; what the callers of `frame`, the code that is recorded, print themselves is not the user's."""
        while frame is not None and frame.f_back is not None:
            frame = frame.f_back
            self._outside.append(frame)
        self._tee = _Tee(sys.stdout, self)
        sys.stdout = cast("TextIO", self._tee)

    def stop(self) -> None:
        """Puts the former stream back, unless someone else replaced ours meanwhile."""
        tee, self._tee = self._tee, None
        if tee is None:
            return
        tee.record = None
        self._outside.clear()
        if sys.stdout is tee:
            sys.stdout = tee.stream
        if self._open:
            self._keep(self._open, self._last)
        if self._total > MOST_LINES:
            self._limits.add(f"printed lines: the first {MOST_LINES:,} of {self._total:,} are kept")

    def printed(self) -> tuple[Printed, ...]:
        return tuple(self._lines)

    def saw(self, text: str) -> None:
        """Called with every piece written, before it is passed on."""
        with self._limits.guard("where a line was printed"):
            origin = _origin(sys._getframe(2), self._policy, self._outside)
            if origin is None:
                return
            with self._lock:
                *whole, self._open = (self._open + text).split("\n")
                for line in whole:
                    self._keep(line, origin)
                self._last = origin

    def _keep(self, line: str, origin: Origin) -> None:
        self._total += 1
        if len(self._lines) >= MOST_LINES:
            return
        source, span = origin
        traced = source == "print" and is_tracing()
        self._lines.append(Printed(text=line, source=source, span=span, number=self._total - 1, traced=traced))


class _Tee:
    """Shows what it is given to a record, and is `stream` in all else."""

    def __init__(self, stream: TextIO, record: PrintRecord) -> None:
        self.stream = stream
        self.record: PrintRecord | None = record

    def write(self, text: str) -> int:
        if self.record is not None:
            self.record.saw(text)
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _origin(frame: FrameType | None, policy: Policy, outside: list[FrameType]) -> Origin | None:
    """Who printed, and where; None for a line that is no print of the user's: a traceback, or the cell's own value."""
    source: Writer | None = None
    shown = getattr(type(sys.displayhook).__call__, "__code__", None)
    while frame is not None and frame not in outside:
        code = frame.f_code
        if code is shown:
            return None
        if code.co_filename.endswith(_DEBUG_PRINT):
            source = "jax.debug.print"
        if policy.is_user(code.co_filename):
            return source or "print", position(frame)
        frame = frame.f_back
    return None if source is None else (source, None)  # JAX prints from a thread of its own
