"""Results that nobody takes: updates of arrays that were meant to change them."""

import ast
from collections.abc import Iterator

from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.records import Span

_METHODS = ("set", "add", "subtract", "multiply", "mul", "divide", "power", "min", "max", "apply")


_RETURNING = {
    "jax.numpy": {"append", "clip", "concatenate", "delete", "insert", "nan_to_num", "sort", "where", "flip", "roll"},
    "jax.lax": {"dynamic_update_slice", "dynamic_update_slice_in_dim", "dynamic_update_index_in_dim"},
    "optax": {"apply_updates"},
    "equinox": {"apply_updates", "tree_at"},
}
"""Functions that people expect to change their first argument."""


@on_cell("update-dropped", "wrong-result", "the result of x.at[…].set(…) is not used")
def update_dropped(observed: Observed) -> Iterator[Cause]:
    """`x.at[i].set(v)` returns a changed copy; `x` stays as it was. As a statement on its own, or bound to a name that
    nobody reads, it does nothing. So do `x.sort()`, which changes an array of NumPy's, `jnp.append(x, v)`,
    `optax.apply_updates(params, updates)`, `state.apply_gradients(grads=grads)` and their like.

    Sure: the statement ran, and has no other effect. The last expression of a cell is not reported, as its value
    is displayed.
    """
    for piece in ran(observed):
        for node in piece.own:
            match node:
                case ast.Expr(value=ast.Call() as call) if not _is_displayed(piece, node):
                    array = _updated(call) or _unchanged(observed, piece, call)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if _is_never_read(piece, name):
                    array = _updated(call)
                case _:
                    continue
            if array is not None:
                yield _cause(piece, piece.span_of(node), call, array)


def _is_displayed(piece: Ran, node: ast.AST) -> bool:
    return isinstance(piece.node, ast.Module) and node is piece.body[-1]


def _is_never_read(piece: Ran, name: str) -> bool:
    """Of a function's own variables; those of a cell may be read by another."""
    if isinstance(piece.node, ast.Module) or name.startswith("_") or name in piece.shared:
        return False
    reads = (each for each in ast.walk(piece.node) if isinstance(each, ast.Name) and each.id == name)
    return not any(isinstance(each.ctx, ast.Load) for each in reads)


def _updated(call: ast.Call) -> ast.expr | None:
    """`x` of `x.at[…].set(…)`."""
    match call.func:
        case ast.Attribute(attr=method, value=ast.Subscript(value=ast.Attribute(attr="at", value=array))):
            return array if method in _METHODS else None
    return None


def _unchanged(observed: Observed, piece: Ran, call: ast.Call) -> ast.expr | None:
    """What a function or method that returns a changed copy leaves as it was."""
    match call.func:
        case ast.Attribute(attr="apply_gradients", value=ast.Name() as state) if call.keywords and not call.args:
            return state
        case ast.Attribute(attr="sort", value=ast.Name() as array) if not call.args:
            return array if Shapes(observed, piece).of_jax(array) else None
    package, _, name = dotted(observed, piece, call.func).rpartition(".")
    first = call.args[0] if call.args else None
    known = name in _RETURNING.get(package, ()) and isinstance(first, ast.Name | ast.Attribute)
    return first if known else None


def _cause(piece: Ran, span: Span, call: ast.Call, array: ast.expr) -> Cause:
    shown, name = " ".join(piece.text(call).split()), piece.text(array)
    update = f".at[…].{call.func.attr}" if _updated(call) is not None else piece.text(call.func)  # pyright: ignore[reportAttributeAccessIssue]
    return Cause(
        title=f"the result of `{shown}` is not used",
        explanation=f"`{update}` returns a changed copy and leaves `{name}` as it was. Bind the result to the name.",
        span=span,
        fix=f"{name} = {piece.text(call)}" if isinstance(array, ast.Name | ast.Attribute) else "",
        replaces=span,
    )
