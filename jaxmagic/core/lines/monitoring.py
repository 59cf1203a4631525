"""Watches frames with `sys.monitoring` (Python 3.12 and later), beside any debugger, coverage or profiler."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import CodeType, FrameType
from typing import Any

from jaxmagic.core.limits import Limits
from jaxmagic.core.lines.frames import Listener
from jaxmagic.core.lines.watched import ENTRY, Teller, Watched, ends_iteration

# Not in the type stubs of Python 3.11, with which the whole package is checked.
monitoring: Any = getattr(sys, "monitoring", None)

_TOOL_IDS = (4, 3, 5, 2)
"""Those without a fixed meaning first; 0 and 1 are left to debuggers and coverage."""


class MonitoringWatcher:
    """Two tools of the interpreter's: the finder hears of every code object once, the other of the user's only.

    They can't be one: a silenced event becomes audible again only by turning it off and on for its code object,
    and that has no effect on an event which the same tool has turned on everywhere.
    """

    def __init__(
        self, listener: Listener, is_user: Callable[[str], bool], limits: Limits, adaptive: bool, what: str
    ) -> None:
        self._teller = Teller(listener, limits, what)
        self._what = what
        self._is_user = is_user
        self._limits = limits
        self._adaptive = adaptive
        self._codes: dict[int, Watched] = {}
        """By id: code objects compare by content, and two cells may have the same."""
        self._finder = self._tool = -1

    def start(self, frame: FrameType | None = None) -> None:
        free = [tool for tool in _TOOL_IDS if monitoring.get_tool(tool) is None]
        if len(free) < 2:
            self._limits.add(f"{self._what}: not observed (other tools use all of sys.monitoring)")
            return
        self._tool, self._finder = free[:2]
        for tool in (self._tool, self._finder):
            monitoring.use_tool_id(tool, "jaxmagic")
        self._register()
        monitoring.restart_events()  # an earlier watcher with these ids silenced events
        monitoring.set_events(self._tool, monitoring.events.RAISE)
        monitoring.set_events(self._finder, monitoring.events.PY_START | monitoring.events.PY_RESUME)
        if frame is not None:
            self._watch(frame.f_code).running[id(frame)] = frame.f_lineno

    def stop(self) -> None:
        tools, self._tool, self._finder = (self._tool, self._finder), -1, -1
        for tool in tools:
            if tool >= 0:
                monitoring.set_events(tool, 0)
                for watched in self._codes.values():
                    monitoring.set_local_events(tool, watched.code, 0)
                for event, _ in (*self._callbacks(), *self._finder_callbacks()):
                    monitoring.register_callback(tool, event, None)
                monitoring.free_tool_id(tool)
        self._codes.clear()

    def rearm(self) -> None:
        if self._tool < 0 or not self._adaptive:
            return
        for watched in list(self._codes.values()):
            watched.quiet.clear()
            if watched.silenced:
                self._arm(watched)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:  # their lines are under way: what they store is to be told
            watched = self._codes.get(id(frame.f_code))
            if watched is not None:
                watched.running.setdefault(id(frame), frame.f_lineno)
            frame = frame.f_back

    def wake(self) -> None:
        self.rearm()  # events are of a code object, whatever thread runs it

    def next_statement(self) -> None:
        pass  # code that was not met yet is always heard

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()  # code that is not the user's has no event of ours in it anyway

    def _register(self) -> None:
        for event, callback in self._callbacks():
            monitoring.register_callback(self._tool, event, callback)
        for event, callback in self._finder_callbacks():
            monitoring.register_callback(self._finder, event, callback)

    def _callbacks(self) -> tuple[tuple[int, Callable[..., Any]], ...]:
        events = monitoring.events
        return (
            (events.PY_START, self._started),
            (events.PY_RESUME, self._resumed),
            (events.LINE, self._line_begins),
            (events.PY_YIELD, self._yields),
            (events.PY_RETURN, self._returns),
            (events.RAISE, self._raises),
        )

    def _finder_callbacks(self) -> tuple[tuple[int, Callable[..., Any]], ...]:
        events = monitoring.events
        return (events.PY_START, self._found_start), (events.PY_RESUME, self._found_resume)

    def _watch(self, code: CodeType) -> Watched:
        watched = self._codes.get(id(code))
        if watched is None:
            watched = self._codes[id(code)] = Watched(code)
            self._arm(watched)
        return watched

    def _arm(self, watched: Watched) -> None:
        """Makes every event of a code object audible, from this instruction on and for running frames too."""
        events = monitoring.events
        local = events.PY_START | events.PY_RESUME | events.LINE | events.PY_YIELD | events.PY_RETURN
        watched.silenced = False
        monitoring.set_local_events(self._tool, watched.code, 0)
        monitoring.set_local_events(self._tool, watched.code, local)

    # ------------------------------------------------------------------------------ callbacks of the finder

    def _found_start(self, code: CodeType, offset: int) -> Any:
        __tracebackhide__ = True
        if self._is_user(code.co_filename) and id(code) not in self._codes and self._tool >= 0:
            self._enter(self._watch(code), sys._getframe(1))
        return monitoring.DISABLE

    def _found_resume(self, code: CodeType, offset: int) -> Any:
        if self._is_user(code.co_filename) and id(code) not in self._codes and self._tool >= 0:
            frame = sys._getframe(1)
            self._watch(code).running[id(frame)] = frame.f_lineno
        return monitoring.DISABLE

    # ------------------------------------------------------- callbacks of the tool that watches the user's code

    def _started(self, code: CodeType, offset: int) -> Any:
        __tracebackhide__ = True
        watched = self._codes.get(id(code))
        return self._enter(watched, sys._getframe(1)) if watched is not None else None

    def _enter(self, watched: Watched, frame: FrameType) -> Any:
        __tracebackhide__ = True
        if self._teller.entered(watched, frame):
            self.rearm()  # other arguments: callers and callees may hold other shapes now
        watched.running.pop(id(frame), None)  # of a frame that is gone, or the `def` line: nothing runs yet
        return self._silence(watched) if self._adaptive and watched.settled(ENTRY) else None

    def _line_begins(self, code: CodeType, line: int) -> Any:
        __tracebackhide__ = True
        watched = self._codes.get(id(code))
        if watched is None:
            return None
        frame = sys._getframe(1)
        before = watched.running.pop(id(frame), None)
        if before is not None:
            self._teller.stepped(watched, frame, before)
        if self._adaptive and watched.settled(line):
            return self._silence(watched)
        watched.running[id(frame)] = line
        if watched.silenced:
            self._arm(watched)
        return None

    def _resumed(self, code: CodeType, offset: int) -> Any:
        watched = self._codes.get(id(code))
        if watched is None:
            return None
        frame = sys._getframe(1)
        if self._adaptive and watched.settled(frame.f_lineno):
            return self._silence(watched)
        watched.running[id(frame)] = frame.f_lineno
        if watched.silenced:
            self._arm(watched)
        return None

    def _yields(self, code: CodeType, offset: int, value: Any) -> Any:
        watched = self._codes.get(id(code))
        if watched is None:
            return None
        line = watched.running.pop(id(sys._getframe(1)), None)
        if line is not None:  # of a generator in one line nothing else ends the line
            watched.nothing_new(line)
        return self._silence(watched) if self._adaptive and (line is None or watched.settled(line)) else None

    def _returns(self, code: CodeType, offset: int, value: Any) -> Any:
        __tracebackhide__ = True
        watched = self._codes.get(id(code))
        if watched is None:
            return None
        frame = sys._getframe(1)
        line = frame.f_lineno
        watched.running.pop(id(frame), None)
        self._teller.stepped(watched, frame, line)
        self._teller.left(watched, frame, line, value)
        return self._silence(watched) if self._adaptive and watched.settled(-line) else None

    def _raises(self, code: CodeType, offset: int, error: BaseException) -> None:
        watched = self._codes.get(id(code))
        # Raising can't be silenced; what a settled loop of it costs is decided by the order of these.
        if watched is not None and watched.running and not ends_iteration(code, offset):
            line = watched.running.pop(id(sys._getframe(1)), None)
            if line is not None:  # it did not end, and has told nothing
                watched.nothing_new(line)

    def _silence(self, watched: Watched) -> Any:
        watched.forget()
        return monitoring.DISABLE
