"""Reductions that lose their axis and then meet the array that they were made of along another."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import copied, text
from jaxmagic.core.rules.scopes import assigned
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.records import Evidence

_REDUCTIONS = ("sum", "mean", "max", "min", "std", "var", "prod", "median", "norm", "logsumexp")
_MODULES = ("jax.numpy", "jax.numpy.linalg", "jax.nn", "jax.scipy.special")


class _Reduction(NamedTuple):
    """`x.sum(axis=1)`, and the name that it was given."""

    call: ast.Call
    array: ast.expr
    axis: int


@on_cell("keepdims-missing", "wrong-result", "a reduction without keepdims lines up with the wrong axis of its array")
def keepdims_missing(observed: Observed) -> Iterator[Cause]:
    """`x / x.sum(axis=1)` divides row i not by the sum of row i: the result of the sum has one axis less and lines up
    with the last one, so that column j is divided by the sum of row j. For most shapes that is an error; for a square
    array it is a wrong result. `keepdims=True` keeps the axis in its place.

    Not sure: of the shapes it is, but the array may be symmetric, or the columns meant.
    """
    for piece in ran(observed):
        for node in piece.own:
            match node:
                case ast.BinOp(left=left, op=ast.Sub() | ast.Div() | ast.Mult(), right=right):
                    found = _reduction(observed, piece, right)
                    if found is not None and text(found.array) == text(left):
                        yield from _misaligned(observed, piece, node, found)


def _reduction(observed: Observed, piece: Ran, node: ast.expr) -> _Reduction | None:
    """The reduction that an operand is, or that its variable was given just once."""
    if isinstance(node, ast.Name):
        values = assigned(piece, node.id)
        return _reduction(observed, piece, values[0]) if len(values) == 1 and isinstance(values[0], ast.Call) else None
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name) as function) if name in _REDUCTIONS:
            of_module = dotted(observed, piece, function).rpartition(".")[0] in _MODULES
            given = [*node.args] if of_module else [owner, *node.args]
            words = {word.arg: word.value for word in node.keywords}
            axis = _constant(words.get("axis") or (given[1] if len(given) == 2 else None))
            if given and axis is not None and "keepdims" not in words and len(given) <= 2:
                return _Reduction(node, given[0], axis)
    return None


def _constant(node: ast.expr | None) -> int | None:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
    return None


def _misaligned(observed: Observed, piece: Ran, node: ast.BinOp, found: _Reduction) -> Iterator[Cause]:
    shapes = Shapes(observed, piece)
    sizes = shapes.sizes(found.array)
    if sizes is None or not -len(sizes) <= found.axis < len(sizes):
        return
    axis = found.axis % len(sizes)
    if axis == 0 or 1 in sizes[: axis + 1] or sizes[1 : axis + 1] != sizes[:axis]:
        return
    kept = copied(found.call)
    kept.keywords.append(ast.keyword("keepdims", ast.Constant(True)))
    array, reduced = piece.text(found.array), piece.text(found.call)
    yield Cause(
        title=f"`{reduced}` has one axis less than `{array}`, and lines up with another of its axes",
        explanation=f"In `{piece.text(node)}` its values, one for each element of axis {axis - 1}, are matched with "
        f"the elements of axis {axis}; only because both are equally long is there no error. `keepdims=True` keeps the "
        "axis in its place.",
        span=piece.span_of(node),
        evidence=(Evidence(f"{array}: {shapes.aval(found.array)}", piece.span_of(found.array)),),
        fix=text(kept),
        replaces=piece.span_of(found.call),
        sure=False,
    )
