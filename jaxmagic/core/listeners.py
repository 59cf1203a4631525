"""Several listeners behind one watcher, each failing alone."""

from types import FrameType
from typing import Any

from jaxmagic.core.frames import Listener
from jaxmagic.core.limits import Limits


class Listeners:
    """Tells each of them everything; news to one is news."""

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
