"""Broadcasts that are legal and most likely not meant: a column against a vector."""

import ast
from collections.abc import Iterator

from jaxmagic.core.failures.operands import Scope, aval_of
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.functions_called import function_behind
from jaxmagic.core.rules.outer import Product, outer_products
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import replaced, text
from jaxmagic.core.rules.scopes import assigned
from jaxmagic.core.rules.shapes_seen import Shapes, names_before
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import loaded
from jaxmagic.records import Aval, Evidence, Hint, Span

_OPERATIONS = ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Pow
_COMPARISONS = ast.Eq | ast.NotEq | ast.Lt | ast.LtE | ast.Gt | ast.GtE
_FUNCTIONS = ("add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "equal", "not_equal", "greater")
_FUNCTIONS += ("less", "greater_equal", "less_equal", "hypot", "arctan2", "logaddexp", "isclose")
MOST = 200
"""Expressions whose shapes are worked out in one recording."""


@on_cell("column-against-vector", "wrong-result", "(n, 1) combined with (n,) gives (n, n)")
def column_against_vector(observed: Observed) -> Iterator[Cause]:
    """`pred - y` with `pred` of shape (n, 1) and `y` of shape (n,) is a legal broadcast to (n, n): every prediction
    against every target. A loss made of it trains towards the mean, without an error. Reported is a sum,
    difference, product or quotient of a column and a vector of the same length, unless one of them was written
    with a new axis on purpose (`y[None, :]`).

    Sure: of the shapes, from the recorded lines and the programs. That it is not meant follows from nobody having
    asked for the axis.
    """
    left, said = MOST, set()
    for piece in ran(observed):
        hints = [hint for hint in observed.hints if (hint.function, hint.span.file) == (piece.name, piece.file)]
        if not _has_column(observed, piece, hints):
            continue
        for node in piece.own:
            operands = elementwise_operands(observed, piece, node) if left > 0 else None
            if operands is not None and isinstance(node, ast.expr):
                left -= 1
                cause = _suspicious(observed, piece, hints, node, *operands)
                if cause is not None:
                    said.add(cause.span)
                    yield cause
    for product in outer_products(observed):
        if product.span not in said:
            said.add(product.span)
            yield from _in_a_program(observed, product)


def elementwise_operands(observed: Observed, piece: Ran, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The two sides of an operation that goes element by element."""
    match node:
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATIONS):
            return left, right
        case ast.Compare(left=left, ops=[op], comparators=[right]) if isinstance(op, _COMPARISONS):
            return left, right
        case ast.Call(func=ast.Attribute(attr=name), args=[left, right]) if name in _FUNCTIONS:
            return (left, right) if dotted(observed, piece, node.func).startswith("jax.numpy.") else None
    return None


def _in_a_program(observed: Observed, product: Product) -> Iterator[Cause]:
    """An operation that a program has."""
    piece, node = _piece_at(observed, product.span), source.node_at(product.span)
    if piece is None or not isinstance(node, ast.expr):
        return
    sides = elementwise_operands(observed, piece, node)
    if sides is not None:
        column, vector = sides if product.column_first else sides[::-1]
    else:
        column, vector = _arguments(observed, piece, node, product)
    if column is not None and vector is not None and not _is_meant(piece, column) and not _is_meant(piece, vector):
        yield _cause(piece, node, column, product.column, vector, product.vector)


def _arguments(
    observed: Observed, piece: Ran, node: ast.expr, product: Product
) -> tuple[ast.expr | None, ast.expr | None]:
    """Which arguments of a library's function are the column and the vector, by their shapes."""
    shapes, found = Shapes(observed, piece), []
    for wanted in (product.column, product.vector):
        given = node.args if isinstance(node, ast.Call) else []
        known = [(each, shapes.aval(each) or _returned(observed, piece, each)) for each in given]
        fitting = [each for each, aval in known if aval is not None and aval.shape == wanted.shape]
        found.append(fitting[0] if len(fitting) == 1 else None)
    return found[0], found[1]


def _piece_at(observed: Observed, span: Span) -> Ran | None:
    """The innermost code that ran around a place."""
    around = [piece for piece in ran(observed) if piece.file == span.file and _covers(piece, span)]
    return max(around, key=lambda piece: getattr(piece.node, "lineno", 0), default=None)


def _covers(piece: Ran, span: Span) -> bool:
    if isinstance(piece.node, ast.Module):
        return True
    return piece.node.lineno <= span.line and span.end_line <= (piece.node.end_lineno or 0)


def _returned(observed: Observed, piece: Ran, node: ast.expr) -> Aval | None:
    """What a function of the user's gave, where it is always the same."""
    function = function_behind(observed, piece, node.func) if isinstance(node, ast.Call) else None
    if function is None:
        return None
    name = function.name.rpartition(".")[2]
    avals = [
        leaf.aval
        for hint in observed.hints
        if hint.role == "returned" and hint.span.file == function.file and hint.function.rpartition(".")[2] == name
        for leaf in hint.leaves
    ]
    return avals[0] if avals and all(aval == avals[0] for aval in avals) else None


def _has_column(observed: Observed, piece: Ran, hints: list[Hint]) -> bool:
    """Cheap test first: is there an array of shape (…, n, 1) at all?"""
    returned = [hint for hint in observed.hints if hint.role == "returned"]
    avals = [leaf.aval for hint in (*hints, *returned) for leaf in hint.leaves]
    names = loaded(piece.node) & observed.namespace.keys()
    avals += [aval for name in names if (aval := aval_of(observed.namespace[name])) is not None]
    return any(_is_column(aval) for aval in avals)


def _is_column(aval: Aval) -> bool:
    return len(aval.shape) >= 2 and aval.shape[-1] == 1 and aval.shape[-2] != 1


def _suspicious(
    observed: Observed, piece: Ran, hints: list[Hint], node: ast.expr, left_side: ast.expr, right_side: ast.expr
) -> Cause | None:
    scope = Scope(names_before(hints, node.lineno), observed.namespace)
    left = scope.aval(left_side) or _returned(observed, piece, left_side)
    right = scope.aval(right_side) or _returned(observed, piece, right_side) if left is not None else None
    if left is None or right is None or _is_meant(piece, left_side) or _is_meant(piece, right_side):
        return None
    for column, one, vector, other in ((left_side, left, right_side, right), (right_side, right, left_side, left)):
        if _is_column(one) and len(other.shape) == 1 and other.shape[0] == one.shape[-2]:
            return _cause(piece, node, column, one, vector, other)
    return None


def _cause(piece: Ran, node: ast.expr, column: ast.expr, one: Aval, vector: ast.expr, other: Aval) -> Cause:
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


def _is_meant(piece: Ran, node: ast.expr) -> bool:
    """Whether an operand, or what a variable was given, makes the axis itself."""
    if isinstance(node, ast.Name) and not isinstance(piece.node, ast.Module):
        return any(_on_purpose(value, named=True) for value in assigned(piece, node.id))
    if isinstance(node, ast.Name):
        return any(_on_purpose(value, named=True) for value in assigned(piece, node.id)[-1:])
    return _on_purpose(node)


def _on_purpose(node: ast.expr, *, named: bool = False) -> bool:
    """Whether the expression makes an axis itself: `y[:, None]`, `expand_dims`, `reshape`, `keepdims=True`."""
    for part in ast.walk(node):
        match part:
            case ast.Subscript(slice=ast.Tuple(elts=elements)) if any(_is_new_axis(each) for each in elements):
                return True
            case ast.Attribute(attr="reshape" | "atleast_2d"):
                return not named  # data are often kept as a column
            case ast.Attribute(attr="expand_dims" | "newaxis" | "outer"):
                return True
            case ast.keyword(arg="keepdims"):
                return True
    return False


def _is_new_axis(node: ast.expr) -> bool:
    return (isinstance(node, ast.Constant) and node.value is None) or getattr(node, "attr", "") == "newaxis"
