"""Who prints, read from the stack: the user's own code, JAX for `jax.debug.print`, or a host function."""

import sys
from types import FrameType
from typing import Literal, NamedTuple

from jaxmagic.core import host_calls, jax_internals
from jaxmagic.core.output.asked import Asked
from jaxmagic.core.output.lanes import lane_of, lanes_of_format
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.source.spans import position
from jaxmagic.core.taps import exchange
from jaxmagic.records import Span


class Origin(NamedTuple):
    """Of one piece of output."""

    source: Literal["print", "jax.debug.print", "callback", "stderr"] = "print"
    span: Span | None = None
    asked: Asked | None = None
    """What to look for in the user's source, where no frame of the user's is on the stack."""
    lane: tuple[int, ...] = ()


def origin_of(frame: FrameType | None, policy: Policy, outside: list[FrameType]) -> Origin | None:
    """The origin of what `frame` writes; None for a traceback, or the cell's own value."""
    shown = getattr(type(sys.displayhook).__call__, "__code__", None)
    found = _Found()
    while frame is not None and frame not in outside:
        if frame.f_code is shown:
            return None
        if policy.is_user(frame.f_code.co_filename):
            found.user(frame)
        elif frame.f_code.co_filename == exchange.__file__:
            found.work = found.work or jax_internals.HostWork("callback")
        else:
            found.lane(lane_of(frame))
            found.jax(jax_internals.host_work(frame))
        frame = frame.f_back
    return found.origin()


class _Found:
    """What the frames said so far, from the innermost outwards."""

    def __init__(self) -> None:
        self.work: jax_internals.HostWork | None = None
        self._requested = False
        self._span: Span | None = None
        self._lane: list[int] = []

    def user(self, frame: FrameType) -> None:
        # Beyond a host function stands who waits for the program, unless that asks for it right now.
        if self._span is None and (self.work is None or self._requested):
            self._span = position(frame)

    def jax(self, work: jax_internals.HostWork | None) -> None:
        match work:
            case jax_internals.HostWork("request"):
                self._requested = self.work is not None
            case jax_internals.HostWork():
                self.work = self.work or work

    def lane(self, lane: int | None) -> None:
        if lane is not None:
            self._lane.insert(0, lane)

    def origin(self) -> Origin | None:
        if self.work is None:
            return Origin("print", self._span) if self._span is not None else None
        source = "jax.debug.print" if self.work.kind == "print" else "callback"
        span = self._span or host_calls.running()
        asked = None
        if span is None and self.work.text:
            asked = Asked("print" if self.work.kind == "print" else "callback", str(self.work.text))
        return Origin(source, span, asked, lanes_of_format(self.work.text) or tuple(self._lane))
