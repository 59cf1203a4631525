"""Results that nobody takes: updates of arrays that were meant to change them."""

import ast
from collections.abc import Iterable, Iterator

from jaxmagic.core.lines.attributes import MISSING, class_attribute, inherits
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.records import Span

_METHODS = ("set", "add", "subtract", "multiply", "mul", "divide", "power", "min", "max", "apply")


_ACTIVATIONS = {"relu", "gelu", "silu", "swish", "elu", "sigmoid", "tanh", "softplus", "softmax", "log_softmax"}
_RETURNING = {
    "jax.numpy": dict.fromkeys(
        ("append", "clip", "concatenate", "delete", "insert", "nan_to_num", "sort", "where", "flip", "roll"), 0
    ),
    "jax.lax": dict.fromkeys(
        ("dynamic_update_slice", "dynamic_update_slice_in_dim", "dynamic_update_index_in_dim", "stop_gradient"), 0
    ),
    "jax.nn": dict.fromkeys(_ACTIVATIONS, 0),
    "flax.linen": dict.fromkeys(_ACTIVATIONS, 0),
    "flax.nnx": dict.fromkeys(_ACTIVATIONS, 0),
    "optax": {"apply_updates": 0},
    "equinox": {"apply_updates": 0, "tree_at": 1},
    "dataclasses": {"replace": 0},
}
"""Functions that people expect to change an argument, and its place."""

_CHANGING = ("astype", "reshape", "transpose", "flatten", "ravel", "squeeze", "swapaxes", "clip", "round", "sort")
"""Methods of arrays of which the same is true."""

_MAPS = ("jax.tree.map", "jax.tree_util.tree_map", "jax.tree_map")


@on_cell("update-dropped", "wrong-result", "the result of x.at[…].set(…) is not used")
def update_dropped(observed: Observed) -> Iterator[Cause]:
    """`x.at[i].set(v)` returns a changed copy; `x` stays as it was. As a statement on its own, or bound to a name that
    nobody reads, it does nothing. So do `x.sort()`, which changes an array of NumPy's, `x.astype(dtype)`,
    `jnp.append(x, v)`, `jax.nn.relu(x)`, `jax.lax.stop_gradient(x)`, `jax.tree.map(lambda w: 0.9 * w, params)`,
    `optax.apply_updates(params, updates)`, `state.apply_gradients(grads=grads)`, `state.replace(step=0)` and their
    like.

    Sure: the statement ran, and has no other effect. The last expression of a cell is not reported, as its value
    is displayed; nor is a function that is mapped over a tree and calls more than JAX's own, nor what is only timed.
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
        case ast.Attribute(attr="replace" | "_replace", value=ast.Name() | ast.Attribute() as record):
            if call.keywords and not call.args and _are_fields(observed, {word.arg for word in call.keywords}):
                return record
        case ast.Attribute(attr=method, value=ast.Name() as array) if method in _CHANGING:
            return array if Shapes(observed, piece).of_jax(array) and (method != "sort" or not call.args) else None
    known = dotted(observed, piece, call.func)
    if known in _MAPS:
        place = 1 if call.args and _only_computes(observed, piece, call.args[0]) else None
    else:
        package, _, name = known.rpartition(".")
        place = _RETURNING.get(package, {}).get(name)
    return _named(call, place) if place is not None and not _is_timed(observed, piece) else None


def _is_timed(observed: Observed, piece: Ran) -> bool:
    """Whether the code reads a clock: what it runs for the time alone needs no name."""
    calls = [node for node in piece.own if isinstance(node, ast.Call)]
    return any(dotted(observed, piece, each.func).startswith("time.") for each in calls)


def _named(call: ast.Call, place: int) -> ast.expr | None:
    given = call.args[place] if place < len(call.args) else None
    return given if isinstance(given, ast.Name | ast.Attribute) else None


def _are_fields(observed: Observed, names: set[str | None]) -> bool:
    """Whether a record that can't be changed, of those that the notebook knows, has these fields."""
    kinds = {value if inherits(type(value), type) else type(value) for value in list(observed.namespace.values())}
    return any(None not in names and names <= set(_fields(kind)) for kind in kinds)


def _fields(kind: type) -> Iterable[str]:
    if inherits(kind, tuple):
        return class_attribute(kind, "_fields") if class_attribute(kind, "_fields") is not MISSING else ()
    parameters = class_attribute(kind, "__dataclass_params__")
    frozen = parameters is not MISSING and parameters.frozen
    return class_attribute(kind, "__dataclass_fields__") if frozen else ()


def _only_computes(observed: Observed, piece: Ran, function: ast.expr) -> bool:
    """Whether a function is JAX's or NumPy's, or a lambda that calls no other, so that all it gives is its result."""
    if not isinstance(function, ast.Lambda):
        return dotted(observed, piece, function).startswith(("jax.", "numpy."))
    calls = [node for node in ast.walk(function.body) if isinstance(node, ast.Call)]
    return all(
        dotted(observed, piece, each.func).startswith(("jax.numpy.", "jax.lax.", "jax.nn.", "numpy."))
        or (isinstance(each.func, ast.Attribute) and each.func.attr in (*_CHANGING, *_METHODS))
        for each in calls
    )


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
