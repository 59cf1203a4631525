"""Gives a running frame another value for one of its variables, from the next line on."""

import ctypes
import sys
from types import FrameType
from typing import Any

from jaxmagic.core.lines.attributes import set_attribute
from jaxmagic.core.source.stores import Store


def write(frame: FrameType, target: Store | str, value: Any) -> None:
    """Replaces what a line stored, or a parameter by its name; whatever else refers to the old value keeps it."""
    if isinstance(target, str):
        _write_local(frame, target, value)
    elif target.attribute:
        set_attribute(_variables(frame, target)[target.base], target.attribute, value)
    elif target.is_global:
        frame.f_globals[target.name] = value
    else:
        _write_local(frame, target.name, value)


def _variables(frame: FrameType, store: Store) -> Any:
    return frame.f_globals if store.is_global else frame.f_locals


def _write_local(frame: FrameType, name: str, value: Any) -> None:
    """Of a local: argument, cell, loop variable, …; of a global where the frame is a module's or a cell's."""
    if frame.f_locals is frame.f_globals:
        frame.f_globals[name] = value
        return
    variables: Any = frame.f_locals
    variables[name] = value
    if sys.version_info < (3, 13):
        # Before, f_locals is a copy; the very next reading of it would lose what is not written through now.
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
