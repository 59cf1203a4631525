"""What the cell prints, with the line that printed it. Output still goes where it went before."""

import sys
import threading
from typing import Any, TextIO, cast

from jaxmagic.core.limits import Limits
from jaxmagic.core.source import Policy, position
from jaxmagic.core.transforms import is_tracing
from jaxmagic.records import Printed

MOST_LINES = 2_000
"""Lines kept; those beyond are counted."""


class PrintRecord:
    """Stands before `sys.stdout` from `start` to `stop`."""

    def __init__(self, policy: Policy, limits: Limits) -> None:
        self._policy = policy
        self._limits = limits
        self._lines: list[Printed] = []
        self._total = 0
        self._open = ""
        self._lock = threading.Lock()
        self._tee: _Tee | None = None

    def start(self) -> None:
        self._tee = _Tee(sys.stdout, self)
        sys.stdout = cast("TextIO", self._tee)

    def stop(self) -> None:
        """Puts the former stream back, unless someone else replaced ours meanwhile."""
        tee, self._tee = self._tee, None
        if tee is None:
            return
        tee.record = None
        if sys.stdout is tee:
            sys.stdout = tee.stream
        if self._open:
            self._keep(self._open, None)
        if self._total > MOST_LINES:
            self._limits.add(f"printed lines: the first {MOST_LINES:,} of {self._total:,} are kept")

    def printed(self) -> tuple[Printed, ...]:
        return tuple(self._lines)

    def saw(self, text: str) -> None:
        """Called with every piece written, before it is passed on."""
        with self._limits.guard("where a line was printed"), self._lock:
            *whole, self._open = (self._open + text).split("\n")
            for line in whole:
                self._keep(line, sys._getframe(2))

    def _keep(self, line: str, frame: Any) -> None:
        self._total += 1
        if len(self._lines) >= MOST_LINES:
            return
        source, user = _origin(frame, self._policy)
        self._lines.append(
            Printed(
                text=line,
                source=source,
                span=position(user) if user is not None else None,
                number=self._total - 1,
                traced=source == "print" and is_tracing(),
            )
        )


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


def _origin(frame: Any, policy: Policy) -> tuple[Any, Any]:
    """Who printed, and the nearest user frame; a `jax.debug.print` has none, it prints from JAX's own thread."""
    source = "print"
    while frame is not None:
        file = frame.f_code.co_filename
        if file.endswith(("jax/_src/debugging.py", "jax\\_src\\debugging.py")):
            source = "jax.debug.print"
        if policy.is_user(file):
            return source, frame
        frame = frame.f_back
    return source, None
