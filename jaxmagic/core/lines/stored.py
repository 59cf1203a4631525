"""What a line that has just run stored: the values themselves, read from the frame."""

from collections.abc import Iterator
from types import FrameType
from typing import Any

from jaxmagic.core.lines.attributes import MISSING, attribute
from jaxmagic.core.lines.ways import Function
from jaxmagic.core.source.stores import Position, Store

_OPTIMIZED = 0x01
"""Flag of code whose local variables are not a mapping of the user's choice."""


def stored_values(function: Function, frame: FrameType, line: int) -> Iterator[tuple[Store, Any]]:
    """Each variable or attribute that a line of the frame stored, with what it holds; `MISSING` where it is gone."""
    wanted = function.stores.get(line)
    if not wanted:
        return
    values = frame.f_locals
    if not function.code.co_flags & _OPTIMIZED and type(values) is not dict:
        return  # the user's own mapping, given to `exec` or by a metaclass
    here = function.position(frame.f_lasti)
    later = function.interrupted.get((line, frame.f_lasti), ())
    for store in wanted:
        if store.name not in later and (store.inside is None or _holds(store.inside, here)):
            yield store, _value(store, values, frame.f_globals)


def _value(store: Store, values: Any, global_values: dict[str, Any]) -> Any:
    value = (global_values if store.is_global else values).get(store.base or store.name, MISSING)
    return attribute(value, store.attribute) if store.attribute else value


def _holds(outer: Position, inner: Position) -> bool:
    return outer[:2] <= inner[:2] and inner[2:] <= outer[2:]
