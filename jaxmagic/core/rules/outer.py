"""Columns that meet vectors in compiled programs: both are repeated to a square, and no axis was asked for."""

from collections.abc import Iterator
from typing import NamedTuple

from jaxmagic.core.rules.contexts import Observed
from jaxmagic.records import Aval, Equation, Program, Region, Span

_ELEMENTWISE = frozenset(
    ["add", "sub", "mul", "div", "pow", "max", "min", "eq", "ne", "lt", "le", "gt", "ge", "atan2", "and", "or"]
)
_LIFTS = ("broadcast_in_dim", "reshape")
"""How the shorter operand gets its axis: of the same line and columns as the operation, if nobody asked for it."""


class Product(NamedTuple):
    """An operation, and its operands."""

    span: Span
    column: Aval
    vector: Aval
    column_first: bool


def outer_products(observed: Observed) -> Iterator[Product]:
    """Each operation of (n, 1) with (n,) in the user's programs."""
    for one in observed.compiled:
        for trace in one.traces:
            if trace.program is not None and not one.library:
                yield from _of_program(trace.program)


def _of_program(program: Program) -> Iterator[Product]:
    waiting: list[Region] = [program.root]
    while waiting:
        region = waiting.pop()
        made: dict[int, Equation] = {}
        avals = {variable.id: variable.aval for variable in (*region.inputs, *region.constants)}
        for equation in region.equations:
            waiting += equation.regions
            if equation.primitive in _ELEMENTWISE and len(equation.ins) == 2:
                found = _operands(equation, avals, made)
                if found is not None and 0 <= equation.frame < len(program.frames):
                    yield Product(program.frames[equation.frame].span, *found)
            for variable in equation.outs:
                made[variable.id], avals[variable.id] = equation, variable.aval


def _operands(equation: Equation, avals: dict[int, Aval], made: dict[int, Equation]) -> tuple[Aval, Aval, bool] | None:
    shape = equation.outs[0].aval.shape
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 1:
        return None
    for column, row in (equation.ins, equation.ins[::-1]):
        lift = made.get(row) if isinstance(row, int) else None
        one = avals.get(column) if isinstance(column, int) else None
        lifted = lift.ins[0] if lift is not None and lift.ins else None
        vector = avals.get(lifted) if isinstance(lifted, int) else None
        if lift is None or one is None or vector is None or lift.primitive not in _LIFTS:
            continue
        by_itself = made[column].frame == equation.frame if column in made else False
        shapes = one.shape == (shape[0], 1) and vector.shape == (shape[0],) and lift.outs[0].aval.shape == (1, shape[0])
        if shapes and lift.frame == equation.frame and not by_itself:
            return one, vector, column is equation.ins[0]
    return None
