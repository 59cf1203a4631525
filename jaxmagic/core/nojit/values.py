"""Real values beside lines: listens to the frames that run without jit."""

import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from jaxmagic.core.lines.stored import stored_values
from jaxmagic.core.lines.ways import Function, Role, span_of
from jaxmagic.core.nojit.arrays import Sighting, sightings
from jaxmagic.core.nojit.runs import Held, Run, Runs
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.source.stores import Position
from jaxmagic.records import LineValue

MOST_ARRAYS = 4
"""Shown of one variable."""

MOST_VALUES = 4_000
"""Shown in all."""


class ValueRecord:
    """What variables held after each line; numbers and text only.

    Args:
        policy: Whose files.
        watches: Whether values are wanted now, in this thread.
    """

    def __init__(self, policy: Policy, watches: Callable[[], bool]) -> None:
        self._policy = policy
        self._watches = watches
        self._functions: dict[int, tuple[Function, Runs]] = {}
        """By the id of the code object, which is kept in both."""
        self._running: dict[int, tuple[Runs, Run]] = {}
        """By the id of the frame."""
        self._lock = threading.Lock()

    def entered(self, frame: FrameType) -> bool:
        with self._lock:
            self._running.pop(id(frame), None)
            if not self._watches():
                return False
            function, runs = self._function(frame)
            run = runs.begin()
            self._running[id(frame)] = runs, run
            place = (function.code.co_firstlineno, 0, 0, 0)
            for name in function.parameters:
                self._hold(run, name, place, "argument", frame.f_locals.get(name))
            return bool(run.held)

    def stepped(self, frame: FrameType, line: int) -> bool:
        with self._lock:
            if not self._watches():
                return False
            function, runs = self._function(frame)
            stored = stored_values(function, frame, line)
            found = [(store, arrays) for store, value in stored if (arrays := self._arrays(value))]
            if not found:
                return False
            _, run = self._running.get(id(frame)) or (runs, runs.begin())
            if any((store.name, store.position) in run.held for store, _ in found):  # the loop goes round
                run = runs.turn(run)
            self._running[id(frame)] = runs, run
            run.way.append(line)
            for store, arrays in found:
                run.held[store.name, store.position] = Held(store.name, store.position, "assigned", arrays)
            return True

    def left(self, frame: FrameType, line: int, value: Any) -> bool:
        with self._lock:
            runs, run = self._running.pop(id(frame), (None, None))
            if runs is None or run is None:
                return False
            function, _ = self._function(frame)
            if function.returns:
                self._hold(run, "return", function.position(frame.f_lasti), "returned", value)
            if not run.turn:
                run.way.append(-line)
            runs.end(run)
            return bool(run.held)

    def finish(self) -> None:
        """Ends the runs that an exception left."""
        with self._lock:
            for runs, run in self._running.values():
                runs.end(run)
            self._running.clear()

    @property
    def runs(self) -> int:
        return sum(runs.count for _, runs in self._functions.values())

    def values(self) -> tuple[LineValue, ...]:
        """In the order of the source, and of the runs of each line."""
        found = [each for function, runs in self._functions.values() for each in _values(function, runs)]
        found.sort(key=lambda each: (each.span.file, each.span.line, each.span.column, each.run))
        return tuple(found[:MOST_VALUES])

    def _hold(self, run: Run, name: str, position: Position, role: Role, value: Any) -> None:
        arrays = self._arrays(value)
        if arrays:
            run.held[name, position] = Held(name, position, role, arrays)

    def _arrays(self, value: Any) -> tuple[Sighting, ...]:
        return tuple(sightings(value, MOST_ARRAYS, self._policy.owns))

    def _function(self, frame: FrameType) -> tuple[Function, Runs]:
        code = frame.f_code
        known = self._functions.get(id(code))
        if known is None:
            known = self._functions[id(code)] = Function(code), Runs()
        return known


def _values(function: Function, runs: Runs) -> Iterator[LineValue]:
    for kept, run in runs.kept():
        for held in run.held.values():
            for each in held.arrays:
                yield LineValue(
                    span=span_of(function.code, held.name, held.role, held.position),
                    function=function.name,
                    name=held.name + each.path,
                    run=run.number,
                    kept=kept,
                    aval=each.aval,
                    text=each.text(),
                    summary=each.summarized(),
                    lanes=each.lanes,
                )
