"""JAX arrays that share their memory with a NumPy array of the user's, seen at the line that made them."""

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from jaxmagic.core.lines.attributes import MISSING, attribute, inherits
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import loaded
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Span

_MOST_LOOKS = 100
"""Of one line: whether an array is shared depends on its address, which changes from pass to pass."""

_OPTIMIZED = 0x01


class Alias(NamedTuple):
    """An array and the buffer that it lies in."""

    file: str
    function: str
    array: str
    """`x`, or `self.x`."""
    buffer: str
    """The NumPy variable."""
    span: Span
    """The assignment that made it."""


class _Line(NamedTuple):
    code: CodeType
    assignments: tuple[ast.Assign | ast.AnnAssign, ...]


class Aliases:
    """Listens to a watcher of frames; looks only at lines that assign the result of a call with NumPy arguments."""

    def __init__(self) -> None:
        self._lines: dict[tuple[int, int], _Line | None] = {}
        self._looks: dict[tuple[int, int], int] = {}
        self._found: dict[Alias, None] = {}

    def entered(self, frame: FrameType) -> bool:
        return False

    def left(self, frame: FrameType, line: int, value: Any) -> bool:
        return False

    def stepped(self, frame: FrameType, line: int) -> bool:
        key = id(frame.f_code), line
        if key not in self._lines:
            self._lines[key] = _line(frame.f_code, line)
        known = self._lines[key]
        looks = self._looks.get(key, 0)
        if known is None or looks >= _MOST_LOOKS or not _plain(frame):
            return False
        new = False
        for assignment in known.assignments:
            for alias in _aliases(frame, assignment):
                self._found.setdefault(alias)
                new = True
            new = new or bool(list(_buffers(frame, assignment)))
        self._looks[key] = looks + 1 if new else _MOST_LOOKS
        return new

    def found(self) -> tuple[Alias, ...]:
        return tuple(self._found)


def shares_memory(array: Any, buffer: Any) -> bool:
    """Whether a JAX array that is ready lies inside of a NumPy array, on the CPU."""
    if not inherits(type(array), jax.Array) or inherits(type(array), Tracer) or array.is_deleted():
        return False
    devices = array.devices()
    if len(devices) != 1 or next(iter(devices)).platform != "cpu" or not array.is_ready() or not array.size:
        return False
    start = np.ndarray.__array_interface__.__get__(buffer)["data"][0]  # pyright: ignore[reportAttributeAccessIssue]
    return start <= array.unsafe_buffer_pointer() < start + max(np.ndarray.nbytes.__get__(buffer), 1)


def is_buffer(value: Any) -> bool:
    return inherits(type(value), np.ndarray)


def _line(code: CodeType, line: int) -> _Line | None:
    tree = source.tree(code.co_filename)
    found = _by_line(tree).get(line) if tree is not None else None
    return _Line(code, tuple(found)) if found else None


@lru_cache(maxsize=16)
def _by_line(tree: ast.Module) -> dict[int, list[ast.Assign | ast.AnnAssign]]:
    """Assignments of what a call gives, by each of their lines."""
    found: dict[int, list[ast.Assign | ast.AnnAssign]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _calls(node.value):
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                found.setdefault(line, []).append(node)
    return found


def _calls(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


def _plain(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & _OPTIMIZED) or type(frame.f_locals) is dict


def _aliases(frame: FrameType, assignment: ast.Assign | ast.AnnAssign) -> Iterator[Alias]:
    targets = assignment.targets if isinstance(assignment, ast.Assign) else [assignment.target]
    for name, buffer in _buffers(frame, assignment):
        for target in targets:
            if shares_memory(_held(frame, target), buffer):
                code = frame.f_code
                span = span_of(code.co_filename, assignment)
                yield Alias(code.co_filename, code.co_qualname, ast.unparse(target), name, span)


def _buffers(frame: FrameType, assignment: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, Any]]:
    for name in sorted(loaded(assignment.value)) if assignment.value is not None else ():
        value = _named(frame, name)
        if is_buffer(value):
            yield name, value


def _held(frame: FrameType, target: ast.expr) -> Any:
    match target:
        case ast.Name(id=name):
            return _named(frame, name)
        case ast.Attribute(value=ast.Name(id=name), attr=field):
            return attribute(_named(frame, name), field)
    return MISSING


def _named(frame: FrameType, name: str) -> Any:
    local: Mapping[str, Any] = frame.f_locals
    return local.get(name, frame.f_globals.get(name, MISSING))
