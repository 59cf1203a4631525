"""Watching frames of the user's code: one interface, whatever the interpreter offers for it."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any, Protocol

from jaxmagic.core.limits import Limits


class Listener(Protocol):
    """Is told what happens in the user's frames, in the thread where it happens, before the frame goes on.

    Each method returns whether what it saw was new. It must keep no reference to a frame or to a value.
    """

    def entered(self, frame: FrameType) -> bool:
        """A function has its arguments. The frame of a cell that already runs is not entered."""
        ...

    def stepped(self, frame: FrameType, line: int) -> bool:
        """A line was run to its end: what it stores is there. Not told of a line that raised."""
        ...

    def left(self, frame: FrameType, line: int, value: Any) -> bool:
        """The frame returns `value` from a line. Not told of an exception that leaves, nor of a `yield`."""
        ...


class Watcher(Protocol):
    """Tells a listener, from `start` to `stop`, in all threads."""

    def start(self, frame: FrameType | None = None) -> None:
        """Begins; `frame` is one that already runs and is to be watched as well."""
        ...

    def stop(self) -> None:
        """Takes everything out of the interpreter. Harmless if nothing was started."""
        ...

    def rearm(self) -> None:
        """Tells again of lines that had become silent: something new is about to run in this thread."""
        ...

    def next_statement(self) -> None:
        """Listens again in this thread, should all have been turned off: another statement of a cell begins."""
        ...

    def wake(self) -> None:
        """`rearm` for the main thread, from another one."""
        ...

    def aside(self) -> AbstractContextManager[None]:
        """Around work of JAX's in which none of the user's code runs, such as lowering: nothing is watched there."""
        ...


def watch(
    listener: Listener,
    is_user: Callable[[str], bool],
    limits: Limits,
    *,
    adaptive: bool = True,
    what: str = "shapes beside lines",
) -> Watcher:
    """A watcher for this interpreter: `sys.monitoring` from Python 3.12 on, `sys.settrace` before.

    Args:
        listener: Who is told.
        is_user: Whether code of a file (`co_filename`) is to be watched.
        limits: Notes what could not be watched, and why.
        adaptive: Be silent about a line that showed nothing new three times in a row, until `rearm`. A loop of
            millions of iterations then runs at full speed. Otherwise every event is told.
        what: What is lost where nothing can be watched, for `limits`.
    """
    if sys.version_info >= (3, 12):
        from jaxmagic.core.lines.monitoring import MonitoringWatcher as Chosen
    else:
        from jaxmagic.core.lines.settrace import SettraceWatcher as Chosen
    return Chosen(listener, is_user, limits, adaptive, what)
