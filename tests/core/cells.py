"""Runs a text as a notebook cell with its lines recorded."""

import ast
import itertools
import linecache
import sys
from textwrap import dedent
from types import FrameType
from typing import Any, NamedTuple

from jaxmagic.core.limits import Limits
from jaxmagic.core.lines.frames import watch
from jaxmagic.core.lines.record import LineRecord
from jaxmagic.core.source.policy import Policy
from jaxmagic.records import Call, Hint

_numbers = itertools.count(1)


class Cell(NamedTuple):
    """A cell that ran."""

    file: str
    record: LineRecord
    limits: Limits
    names: dict[str, Any]
    error: Exception | None

    def hints(self, function: str) -> list[str]:
        """`3 x: f32[8]` for every hint in a function, in the order of the record."""
        return [f"{hint.span.line} {hint}" for hint in self.record.hints() if hint.function == function]

    def of(self, function: str, name: str) -> list[Hint]:
        return [hint for hint in self.record.hints() if (hint.function, hint.name) == (function, name)]

    def calls(self, function: str) -> list[Call]:
        return [call for call in self.record.calls() if call.function == function]


def run_cell(text: str, names: dict[str, Any] | None = None, *, known: bool = True) -> Cell:
    """Runs `text` with lines recorded; its first line is number 1. An exception of the cell's is kept, not raised.

    Args:
        text: The cell, indented as one likes.
        names: Variables of earlier cells.
        known: Whether the text can be looked up afterwards, as IPython arranges it.
    """
    text = dedent(text).lstrip("\n")
    file = f"<ipython-input-{next(_numbers)}-cell>"
    if known:
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    limits, policy = Limits(), Policy()
    record = LineRecord(policy, limits)
    watcher = watch(record, policy.is_user, limits)
    space = {"__name__": "__main__", **(names or {}), "_begin": lambda: watcher.start(_caller())}
    # As in IPython, recording begins inside the cell's own frame, on its first line.
    tree = ast.parse(text)
    tree.body[:0] = ast.parse("_begin()").body
    code = compile(tree, file, "exec")
    error = None
    try:
        exec(code, space)
    except Exception as raised:  # noqa: BLE001 - whatever the cell raises
        error = raised
    finally:
        watcher.stop()
    return Cell(file, record, limits, space, error)


def _caller() -> FrameType:
    return sys._getframe(2)
