"""In which turn of the Python loops around it a line runs: `epoch = 3`."""

import ast
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import path_to, stored

_MOST = 4
_LONGEST = 20


def turns(frame: FrameType | None, is_user: Callable[[str], bool]) -> tuple[str, ...]:
    """Numbers and words that loop variables hold, of all user frames from this one outwards; outermost loop first."""
    found: list[str] = []
    while frame is not None:
        if is_user(frame.f_code.co_filename):
            found = [*_of_frame(frame), *found]
        frame = frame.f_back
    return tuple(found[-_MOST:])


def _of_frame(frame: FrameType) -> Iterator[str]:
    loops = _loops(frame)
    values = frame.f_locals if loops else {}
    for loop in loops:
        for name in stored(loop.target):
            value = values.get(name)
            if isinstance(value, int | float) or (isinstance(value, str) and len(value) <= _LONGEST):
                yield f"{name} = {value!r}"


def _loops(frame: FrameType) -> list[Any]:
    """The `for` statements around the line that a frame is at, outermost first."""
    tree = source.tree(frame.f_code.co_filename)
    statement = source.statement_at(frame.f_code.co_filename, frame.f_lineno)
    if tree is None or statement is None:
        return []
    loops: list[Any] = []
    for node in path_to(tree, statement):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            break
        if isinstance(node, ast.For | ast.AsyncFor) and node.target is not None:
            loops.insert(0, node)
    return loops
