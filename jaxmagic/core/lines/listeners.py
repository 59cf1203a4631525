"""Several listeners behind one watcher, each failing alone."""

from collections.abc import Callable
from types import FrameType
from typing import Any

from jaxmagic.core.limits import Limits
from jaxmagic.core.lines.frames import Listener
from jaxmagic.core.lines.watched import ENTRY, QUIET_ENTRY, QUIET_LINE


class Listeners:
    """Tells each of them everything; news to one is news.

    Args:
        named: Listeners by what they observe.
        limits: Told of those that fail.
    """

    def __init__(self, named: dict[str, Listener], limits: Limits) -> None:
        self._named = tuple(named.items())
        self._limits = limits

    def entered(self, frame: FrameType) -> bool:
        news = False
        for what, listener in self._named:
            with self._limits.guard(what):
                news = listener.entered(frame) or news
        return news

    def stepped(self, frame: FrameType, line: int) -> bool:
        news = False
        for what, listener in self._named:
            with self._limits.guard(what):
                news = listener.stepped(frame, line) or news
        return news

    def left(self, frame: FrameType, line: int, value: Any) -> bool:
        news = False
        for what, listener in self._named:
            with self._limits.guard(what):
                news = listener.left(frame, line, value) or news
        return news


class Patient:
    """A listener that is told of a line until it found nothing new there three times in a row, until `rearm`.

    The watcher does that itself, but keeps on telling what is news to another listener.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._quiet: dict[tuple[int, int], int] = {}
        """How often nothing was new, by code object and line; 0 for the entry, negative for a return."""

    def rearm(self) -> None:
        self._quiet.clear()

    def entered(self, frame: FrameType) -> bool:
        return self._told(frame, ENTRY, QUIET_ENTRY, self._listener.entered, frame)

    def stepped(self, frame: FrameType, line: int) -> bool:
        return self._told(frame, line, QUIET_LINE, self._listener.stepped, frame, line)

    def left(self, frame: FrameType, line: int, value: Any) -> bool:
        return self._told(frame, -line, QUIET_LINE, self._listener.left, frame, line, value)

    def _told(self, frame: FrameType, place: int, patience: int, tell: Callable[..., bool], *what: Any) -> bool:
        key = id(frame.f_code), place
        quiet = self._quiet.get(key, 0)
        if quiet >= patience:
            return False
        news = tell(*what)
        if news and place == ENTRY:
            self.rearm()
        self._quiet[key] = 0 if news else quiet + 1
        return news
