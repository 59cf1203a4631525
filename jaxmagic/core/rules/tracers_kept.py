"""Tracers in what outlives a trace: containers, attributes of objects, closures of functions."""

from collections import deque
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

from jaxmagic.core.failures.operands import is_tracer
from jaxmagic.core.lines.containers import children
from jaxmagic.core.lines.values import aval_of

_DEEPEST = 4
_MOST = 200


def tracers(value: Any) -> Iterator[tuple[str, str]]:
    """Where each tracer in a value is found, and its shape and dtype; no code of the user's runs."""
    return ((path, str(aval_of(tracer))) for path, tracer in held_tracers(value))


def held_tracers(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The tracers in a value, each with the path that leads to it."""
    if is_tracer(value):
        yield path, value
    elif depth < _DEEPEST:
        for step, part in _parts(value):
            yield from held_tracers(part, path + step, depth + 1)


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, MethodType):
        value = value.__func__
    if isinstance(value, FunctionType):
        names = value.__code__.co_freevars
        cells = zip(names, value.__closure__ or (), strict=False)
        return [(f".__closure__ ({name})", _contents(cell)) for name, cell in cells]
    if type(value) in (set, frozenset, deque):
        return [(f" (element {number})", part) for number, part in zip(range(_MOST), value, strict=False)]
    parts = children(value, lambda cls: True)
    return [] if parts is None else [part for part, _ in zip(parts, range(_MOST), strict=False)]


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
