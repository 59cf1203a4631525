"""What a watcher knows of one code object: which line each of its frames is in, and how new its lines still are."""

import dis
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from jaxmagic.core.limits import Limits
from jaxmagic.core.lines.frames import Listener
from jaxmagic.core.placed import Theirs

ENTRY = 0
"""The place of a function's beginning, where other places are line numbers; `-line` is a return from that line."""

QUIET_LINE = 3
"""A place that told nothing new so often in a row is settled."""

QUIET_ENTRY = 100
"""More patience with arguments: a call with another shape is noticed by nothing else than its entry."""


_ENDS_ITERATION = (dis.opmap["FOR_ITER"], dis.opmap["SEND"])


def ends_iteration(code: CodeType, instruction: int) -> bool:
    """Whether a StopIteration there is how a loop or an `await` ends: the line goes on."""
    return code.co_code[instruction] in _ENDS_ITERATION


class Watched:
    """One code object.

    While a line of some frame is known as running, every event of the code must be told: it is at the next event
    that the line has ended. Whoever silences an event of the code therefore forgets the running lines (`forget`).
    """

    __slots__ = ("code", "quiet", "running", "silenced")

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.quiet: dict[int, int] = {}
        self.running: dict[int, int] = {}
        """Line, by the id of the frame. An id may be used again after its frame is gone; an entry clears it."""
        self.silenced = False

    def settled(self, place: int) -> bool:
        return self.quiet.get(place, 0) >= (QUIET_ENTRY if place == ENTRY else QUIET_LINE)

    def nothing_new(self, place: int) -> None:
        self.quiet[place] = self.quiet.get(place, 0) + 1

    def forget(self) -> None:
        self.running.clear()
        self.silenced = True


class Teller:
    """Tells a listener what happened in a watched frame, and counts how long a place has told nothing new."""

    def __init__(self, listener: Listener, limits: Limits, what: str) -> None:
        self._listener = listener
        self._what = what
        self._limits = limits

    def entered(self, watched: Watched, frame: FrameType) -> bool:
        __tracebackhide__ = True
        return self._tell(watched, ENTRY, self._listener.entered, frame)

    def stepped(self, watched: Watched, frame: FrameType, line: int) -> bool:
        __tracebackhide__ = True
        return self._tell(watched, line, self._listener.stepped, frame, line)

    def left(self, watched: Watched, frame: FrameType, line: int, value: Any) -> bool:
        __tracebackhide__ = True
        return self._tell(watched, -line, self._listener.left, frame, line, value)

    def _tell(self, watched: Watched, place: int, tell: Callable[..., bool], *what: Any) -> bool:
        __tracebackhide__ = True
        news, theirs = False, None
        with self._limits.guard(self._what):
            try:
                news = tell(*what)
            except Theirs as carrier:
                theirs = carrier.error
        if theirs is not None:
            raise theirs
        if news:
            watched.quiet[place] = 0
        else:
            watched.nothing_new(place)
        return news
