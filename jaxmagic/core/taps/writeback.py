"""Gives a running frame another value for one of its variables, from the next line on."""

import ctypes
import sys
from types import FrameType
from typing import Any


def write(frame: FrameType, name: str, value: Any) -> None:
    """Replaces a local (argument, cell, loop variable, …), or a global where the frame is a module's or a cell's."""
    if frame.f_locals is frame.f_globals:
        frame.f_globals[name] = value
        return
    variables: Any = frame.f_locals
    variables[name] = value
    if sys.version_info < (3, 13):
        # Before, f_locals is a copy; the very next reading of it would lose what is not written through now.
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def with_leaf(container: Any, old: Any, new: Any) -> Any:
    """A copy of nested dicts, lists and tuples with `new` where `old` was; the original stays as it is.

    Raises:
        TypeError: `old` is inside of an object that can't be copied without running code of the user's.
    """
    found = _replaced(container, old, new)
    if found is container:
        raise TypeError(f"what is inside of a {type(container).__name__} can't be replaced")
    return found


def _replaced(value: Any, old: Any, new: Any) -> Any:
    if value is old:
        return new
    if type(value) is dict:
        parts = {key: _replaced(part, old, new) for key, part in value.items()}
        return parts if any(parts[key] is not part for key, part in value.items()) else value
    if type(value) in (list, tuple) or _is_named_tuple(value):
        items = [_replaced(part, old, new) for part in value]
        if all(now is before for now, before in zip(items, value, strict=True)):
            return value
        return items if type(value) is list else tuple.__new__(type(value), items)
    return value


def _is_named_tuple(container: Any) -> bool:
    return isinstance(container, tuple) and isinstance(getattr(type(container), "_fields", None), tuple)
