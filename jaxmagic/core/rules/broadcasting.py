"""Broadcasts that are legal and most likely not meant: a column against a vector."""

import ast
from collections.abc import Iterator

from jaxmagic.core.failures.operands import Scope, aval_of
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.ran import Ran, ran
from jaxmagic.core.rules.rewrite import replaced, text
from jaxmagic.core.rules.shapes_seen import names_before
from jaxmagic.core.source.nodes import loaded
from jaxmagic.records import Aval, Evidence, Hint

_OPERATIONS = ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Pow
MOST = 200
"""Expressions whose shapes are worked out in one recording."""


@on_cell("column-against-vector", "wrong-result", "(n, 1) combined with (n,) gives (n, n)")
def column_against_vector(observed: Observed) -> Iterator[Cause]:
    """`pred - y` with `pred` of shape (n, 1) and `y` of shape (n,) is a legal broadcast to (n, n): every prediction
    against every target. A loss made of it trains towards the mean, without an error. Reported is a sum,
    difference, product or quotient of a column and a vector of the same length, unless one of them was written
    with a new axis on purpose (`y[None, :]`).

    Sure: of the shapes, from the recorded lines. That it is not meant follows from nobody having asked for the
    axis.
    """
    left = MOST
    for piece in ran(observed):
        hints = [hint for hint in observed.hints if (hint.function, hint.span.file) == (piece.name, piece.file)]
        if not _has_column(observed, piece, hints):
            continue
        for node in piece.own:
            if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATIONS) and left > 0:
                left -= 1
                cause = _suspicious(observed, piece, hints, node)
                if cause is not None:
                    yield cause


def _has_column(observed: Observed, piece: Ran, hints: list[Hint]) -> bool:
    """Cheap test first: is there an array of shape (…, n, 1) at all?"""
    avals = [leaf.aval for hint in hints for leaf in hint.leaves]
    names = loaded(piece.node) & observed.namespace.keys()
    avals += [aval for name in names if (aval := aval_of(observed.namespace[name])) is not None]
    return any(_is_column(aval) for aval in avals)


def _is_column(aval: Aval) -> bool:
    return len(aval.shape) >= 2 and aval.shape[-1] == 1 and aval.shape[-2] != 1


def _suspicious(observed: Observed, piece: Ran, hints: list[Hint], node: ast.BinOp) -> Cause | None:
    scope = Scope(names_before(hints, node.lineno), observed.namespace)
    left = scope.aval(node.left)
    right = scope.aval(node.right) if left is not None else None
    if left is None or right is None or _on_purpose(node.left) or _on_purpose(node.right):
        return None
    for column, one, vector, other in ((node.left, left, node.right, right), (node.right, right, node.left, left)):
        if _is_column(one) and len(other.shape) == 1 and other.shape[0] == one.shape[-2]:
            return _cause(piece, node, column, one, vector, other)
    return None


def _cause(piece: Ran, node: ast.BinOp, column: ast.expr, one: Aval, vector: ast.expr, other: Aval) -> Cause:
    size = other.shape[0]
    squeezed = ast.Subscript(column, ast.parse("x[..., 0]", mode="eval").body.slice, ast.Load())  # pyright: ignore[reportAttributeAccessIssue]
    return Cause(
        title=f"`{piece.text(node)}` combines {one} and {other} to [{size},{size}]",
        explanation=f"A column and a vector of the same length broadcast to all pairs: both operands are repeated "
        f"{size} times. Drop the column's last axis, or give the vector one.",
        span=piece.span_of(node),
        evidence=(
            Evidence(f"{piece.text(column)}: {one}", piece.span_of(column)),
            Evidence(f"{piece.text(vector)}: {other}", piece.span_of(vector)),
        ),
        fix=text(replaced(node, column, squeezed)),
        replaces=piece.span_of(node),
    )


def _on_purpose(node: ast.expr) -> bool:
    """Whether the expression makes an axis itself: `y[:, None]`, `expand_dims`, `reshape`, `keepdims=True`."""
    for part in ast.walk(node):
        match part:
            case ast.Subscript(slice=ast.Tuple(elts=elements)) if any(_is_new_axis(each) for each in elements):
                return True
            case ast.Attribute(attr="expand_dims" | "reshape" | "newaxis" | "outer" | "atleast_2d"):
                return True
            case ast.keyword(arg="keepdims"):
                return True
    return False


def _is_new_axis(node: ast.expr) -> bool:
    return (isinstance(node, ast.Constant) and node.value is None) or getattr(node, "attr", "") == "newaxis"
