"""What the cell prints, with the line that asked for it. Output still goes where it went before."""

import sys
import threading
from collections import Counter
from contextlib import ExitStack
from types import FrameType
from typing import Any, TextIO, cast

import msgspec

from jaxmagic.core.cells import Cells
from jaxmagic.core.limits import Limits
from jaxmagic.core.lines.transforms import is_tracing
from jaxmagic.core.output.asked import Asked, place_of
from jaxmagic.core.output.lanes import marked_lanes
from jaxmagic.core.output.origins import Origin, origin_of
from jaxmagic.core.output.terminal import overwritten, so_far
from jaxmagic.core.source.living import living
from jaxmagic.core.source.policy import Policy
from jaxmagic.records import Printed, Span

MOST_LINES = 2_000
"""Lines kept; those beyond are counted."""


class PrintRecord:
    """Stands before `sys.stdout` and `sys.stderr` from `start` to `stop`."""

    def __init__(self, policy: Policy, limits: Limits, cells: Cells) -> None:
        self._policy = policy
        self._cells = cells
        self._files: tuple[str, ...] = ()
        self._limits = limits
        self._lines: list[tuple[Printed, Asked | None]] = []
        self._times: Counter[tuple[Span | None, Asked | None, tuple[int, ...]]] = Counter()
        """How often each place has printed."""
        self._total = 0
        self._lock = threading.Lock()
        self._tees: dict[str, _Tee] = {}
        self._outside: list[FrameType] = []
        self._undo = ExitStack()

    def start(self, frame: FrameType | None = None) -> None:
        """Begins; what the callers of `frame`, the code that is recorded, print themselves is not the user's."""
        self._files = (frame.f_code.co_filename,) if frame is not None else ()
        while frame is not None and frame.f_back is not None:
            frame = frame.f_back
            self._outside.append(frame)
        self._undo.enter_context(marked_lanes())
        for name in ("stdout", "stderr"):
            self._tees[name] = _Tee(getattr(sys, name), self)
            setattr(sys, name, cast("TextIO", self._tees[name]))

    def stop(self) -> None:
        """Puts the former streams back, unless someone else replaced ours meanwhile."""
        tees, self._tees = self._tees, {}
        self._undo.close()
        self._outside.clear()
        for name, tee in tees.items():
            tee.record = None
            if getattr(sys, name) is tee:
                setattr(sys, name, tee.stream)
            if tee.open:
                self._keep(tee.open, tee.last)
        if tees and self._total > MOST_LINES:
            self._limits.add(f"printed lines: the first {MOST_LINES:,} of {self._total:,} are kept")

    def printed(self) -> tuple[Printed, ...]:
        """The lines in order; those of compiled code are looked up in the user's source."""
        places: dict[Asked, Span | None] = {}
        asking = any(asked is not None for _, asked in self._lines)
        sources = living(self._cells, self._policy, whole=self._files) if asking else ()
        for _, asked in self._lines:
            if asked is not None and asked not in places:
                places[asked] = None
                with self._limits.guard("where compiled code prints"):
                    places[asked] = place_of(asked, sources)
        return tuple(
            line if asked is None else msgspec.structs.replace(line, span=places[asked]) for line, asked in self._lines
        )

    def saw(self, tee: "_Tee", text: str) -> None:
        """Called with every piece written, before it is passed on."""
        with self._limits.guard("where a line was printed"):
            origin = origin_of(sys._getframe(2), self._policy, self._outside)
            if origin is None:
                return
            if tee is self._tees.get("stderr") and origin.source == "print":
                origin = origin._replace(source="stderr")
            with self._lock:
                *whole, rest = (tee.open + text).split("\n")
                for line in whole:
                    self._keep(line, origin)
                tee.open, tee.last = so_far(rest), origin
                if text.endswith("\n"):  # all lines of one print are of the same step
                    self._times[origin.span, origin.asked, origin.lane] += 1

    def _keep(self, line: str, origin: Origin) -> None:
        self._total += 1
        if len(self._lines) >= MOST_LINES:
            return
        printed = Printed(
            text=overwritten(line),
            source=origin.source,
            span=origin.span,
            step=self._times[origin.span, origin.asked, origin.lane],
            lane=origin.lane,
            number=self._total - 1,
            traced=origin.source == "print" and is_tracing(),
        )
        self._lines.append((printed, origin.asked))


def beneath(stream: TextIO) -> TextIO:
    """Where to write what is jaxmagic's own, not the cell's."""
    return stream.stream if isinstance(stream, _Tee) else stream


class _Tee:
    """Shows what it is given to a record, and is `stream` in all else."""

    def __init__(self, stream: TextIO, record: PrintRecord) -> None:
        self.stream = stream
        self.record: PrintRecord | None = record
        self.open = ""
        """What was written since the last end of a line."""
        self.last = Origin()

    def write(self, text: str) -> int:
        if self.record is not None:
            self.record.saw(self, text)
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
