"""What variables held after each line of the user's functions, built while they run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from jaxmagic.core.jax_internals import PIECES
from jaxmagic.core.limits import Limits
from jaxmagic.core.lines.stored import stored_values
from jaxmagic.core.lines.transforms import transforms
from jaxmagic.core.lines.values import leaves
from jaxmagic.core.lines.ways import MOST_SHAPES, MOST_WAYS, Found, Function, Role, Seen, Way, span_of
from jaxmagic.core.source import syntax
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.source.stores import Position, Store
from jaxmagic.records import Call, Hint, Span

MOST_LEAVES = 24
"""Arrays described in one variable; further ones are counted."""


class LineRecord:
    """Listens to a watcher of frames, and keeps text of what it sees: no frame, no array, no tracer."""

    def __init__(self, policy: Policy, limits: Limits, cap: int = MOST_LEAVES) -> None:
        self._policy = policy
        self._limits = limits
        self._cap = cap
        self._functions: dict[int, Function] = {}
        """By the id of the code object, which is kept in it: two cells with the same text are not one."""
        self._frames: dict[int, Way] = {}
        """The way of each frame that was entered with arrays, by the id of the frame."""
        self._ways = 0
        self._now = 0
        self._names = threading.local()
        self._lock = threading.Lock()

    @contextmanager
    def tracing(self, name: str) -> Iterator[None]:
        """Around JAX's tracing of a jitted function: where JAX itself can't be asked, its name is taken from here."""
        names = self._jitted()
        names.append(f"jit {name}")
        try:
            yield
        finally:
            names.pop()

    # ------------------------------------------------------------------------------------------ listening

    def entered(self, frame: FrameType) -> bool:
        with self._lock:
            function = self._function(frame.f_code)
            arguments = tuple(self._arguments(function, frame))
            known = self._ways
            way = self._way(function, arguments)
            way.times += 1
            if arguments:
                self._frames[id(frame)] = way
            else:
                self._frames.pop(id(frame), None)
            for name, found in arguments:
                self._note(way, "argument", name, (function.code.co_firstlineno, 0, 0, 0), found)
            return self._ways > known

    def stepped(self, frame: FrameType, line: int) -> bool:
        with self._lock:
            function = self._function(frame.f_code)
            held = self._held(function, frame, line)
            if not held:
                return False
            way = self._way_of(function, frame)
            news = [self._note(way, "assigned", store.name, store.position, found) for store, found in held]
            return True in news

    def left(self, frame: FrameType, line: int, value: Any) -> bool:
        with self._lock:
            function = self._function(frame.f_code)
            found = leaves(value, self._cap, self._policy.owns) if function.returns else ((), 0)
            new = False
            if found[0]:
                way = self._way_of(function, frame)
                new = self._note(way, "returned", "return", function.position(frame.f_lasti), found)
            self._frames.pop(id(frame), None)
            return new

    # ------------------------------------------------------------------------------------------ afterwards

    def calls(self) -> tuple[Call, ...]:
        """Each way in which a user function with arrays in it was called, in the order of first appearance."""
        return tuple(
            Call(way.number, way.function.name, _span(way.function.code), way.traced, way.transforms, max(way.times, 1))
            for way in self._kept()
        )

    def hints(self) -> tuple[Hint, ...]:
        """What every variable held, call by call, in the order of the source."""
        return tuple(hint for way in self._kept() for hint in sorted(_hints(way), key=_place))

    def modules(self) -> tuple[str, ...]:
        """Files whose own lines ran, a cell's among them, whether or not they stored an array."""
        with self._lock:
            codes = [function.code for function in self._functions.values()]
        return tuple(dict.fromkeys(code.co_filename for code in codes if code.co_name == "<module>"))

    def written(self, file: str, function: str, name: str, before_line: int) -> Hint | None:
        """The last time that a variable was stored above a line (or anywhere, where it never was above).

        Args:
            file: `co_filename` of the function.
            function: Its qualified name.
            name: The variable.
            before_line: The line that reads it.
        """
        found = [
            (key[2][0] < before_line, seen.last, (way, key, shape, seen))
            for way in self._kept()
            if way.function.name == function and way.function.code.co_filename == file
            for key, shapes in way.seen.items()
            if key[1] == name and key[0] != "returned"
            for shape, seen in shapes.items()
        ]
        return _hint(*max(found, key=lambda each: each[:2])[2]) if found else None

    def _kept(self) -> list[Way]:
        with self._lock:
            ways = [way for function in self._functions.values() for way in function.ways.values()]
        return sorted((way for way in ways if way.seen or way.traced), key=lambda way: way.number)

    # --------------------------------------------------------------------------------------------- parts

    def _function(self, code: CodeType) -> Function:
        function = self._functions.get(id(code))
        if function is None:
            function = self._functions[id(code)] = Function(code)
        return function

    def _way_of(self, function: Function, frame: FrameType) -> Way:
        way = self._frames.get(id(frame))
        if way is not None and way.function is function:
            return way
        return function.latest.get(self._transforms()) or self._way(function, ())

    def _way(self, function: Function, arguments: tuple) -> Way:
        way = function.way(arguments, self._transforms(), self._ways)
        if way.number == self._ways:
            self._ways += 1
            if len(function.ways) == MOST_WAYS:
                self._limits.add(f"{function.name}: called in over {MOST_WAYS} ways; the rest are shown as one")
        return way

    def _transforms(self) -> tuple[str, ...]:
        return transforms() if PIECES["current_trace"].present else tuple(reversed(self._jitted()))

    def _jitted(self) -> list[str]:
        if not hasattr(self._names, "stack"):
            self._names.stack = []
        return self._names.stack

    def _arguments(self, function: Function, frame: FrameType) -> Iterator[tuple[str, Found]]:
        if function.parameters:
            values = frame.f_locals
            for name in function.parameters:
                found = leaves(values.get(name), self._cap, self._policy.owns)
                if found[0]:
                    yield name, found

    def _held(self, function: Function, frame: FrameType, line: int) -> list[tuple[Store, Found]]:
        stored = stored_values(function, frame, line)
        held = [(store, leaves(value, self._cap, self._policy.owns)) for store, value in stored]
        return [(store, found) for store, found in held if found[0]]

    def _note(self, way: Way, role: Role, name: str, position: Position, found: Found) -> bool:
        self._now += 1
        new = way.note(role, name, position, found, self._now)
        if new is None:
            self._limits.add(
                f"{way.function.name}: {name} had over {MOST_SHAPES} shapes in a line; the rest are left out"
            )
        return bool(new)


def _span(code: CodeType) -> Span:
    if code.co_name == "<module>":
        return Span(code.co_filename, 1, 0, 1, 0)
    return syntax.definition_span(code)


def _hints(way: Way) -> Iterator[Hint]:
    for key, shapes in list(way.seen.items()):
        for shape, seen in list(shapes.items()):
            yield _hint(way, key, shape, seen)


def _hint(way: Way, key: tuple[Role, str, Position], shape: Found, seen: Seen) -> Hint:
    role, name, position = key
    span = span_of(way.function.code, name, role, position)
    return Hint(span, way.function.name, way.number, name, role, *shape, times=seen.times)


def _place(hint: Hint) -> tuple[int, int]:
    return hint.span.line, hint.span.column
