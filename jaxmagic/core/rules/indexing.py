"""Indexing that a traced program can't do as written: boolean masks, slices with traced bounds, assignment."""

import ast
import dataclasses

from jaxmagic.core.rules.calls import Fix
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.jits import settings, static_fix
from jaxmagic.core.rules.rewrite import alias, call, copied, replaced, text
from jaxmagic.core.rules.wording import origins, why_traced
from jaxmagic.core.source.nodes import parts

_UPDATES = {
    "set": None,
    "add": ast.Add(),
    "subtract": ast.Sub(),
    "multiply": ast.Mult(),
    "mul": ast.Mult(),
    "divide": ast.Div(),
    "power": ast.Pow(),
}


@on_error("boolean-mask", "an array is indexed by a traced boolean mask")
def boolean_mask(failing: Failing) -> Cause | None:
    """`x[mask]` has as many elements as the mask has True, which a traced program can't know: keep the length and
    choose with `jnp.where`, or pad with `jnp.nonzero(mask, size=…)`. `x.at[mask].set(v)` has a fixed shape and is
    only refused as a spelling: `jnp.where(mask, v, x)` means the same.

    Sure: the indexing itself raised.
    """
    if failing.kind != "NonConcreteBooleanIndexError":
        return None
    node = failing.node
    if isinstance(node, ast.Call) and (update := _update(failing, node)):
        return update
    if not isinstance(node, ast.Subscript):
        return None
    if isinstance(failing.site.statement, ast.AugAssign) and failing.site.statement.target is node:
        return _item_assignment(failing)
    if (update := _masked_update(failing, node)) is not None:
        return update
    where = f"{alias(failing.scope, 'jax.numpy')}.where"
    mask = failing.shown(node.slice)
    fix, replaces = _reduced(failing, node)
    if not fix:
        fix, replaces = text(call(where, node.slice, node.value, ast.Constant(0))), failing.span
    return Cause(
        title=f"the length of `{failing.text(node)}` depends on the values of the mask {mask}",
        explanation=f"A traced program has fixed shapes. {why_traced(failing, node.slice)} Keep the length and replace "
        "what the mask drops by a neutral value (0 for a sum; a mean divides by `mask.sum()` then), or pad with "
        "`jnp.nonzero(mask, size=…, fill_value=…)`.",
        evidence=origins(failing, node.value, node.slice),
        fix=fix,
        replaces=replaces,
    )


_REDUCTIONS = ("sum", "mean", "var", "std", "prod", "any", "all")
_ELEMENTWISE = ("abs", "square", "exp", "tanh")


def _reduced(failing: Failing, node: ast.Subscript) -> Fix:
    """A reduction of what a mask selects, by `where=`: `jnp.mean((p[m] - y[m]) ** 2)`."""
    inner: ast.AST = node
    for outer in failing.site.around:
        match outer:
            case ast.BinOp() | ast.UnaryOp():
                inner = outer
            case ast.Attribute(attr=name) if name in _REDUCTIONS:
                inner = outer
            case ast.Call(func=ast.Attribute(attr=name)) if name in _ELEMENTWISE and inner in outer.args:
                inner = outer
            case ast.Call(func=ast.Attribute(attr=name), keywords=[]) if name in _REDUCTIONS:
                alone = outer.args == [node] or (isinstance(outer.func, ast.Attribute) and outer.func.value is node)
                whole = inner is outer.func or outer.args == [inner]
                return (
                    _with_where(failing, outer, node, alone) if whole and not (alone and name == "sum") else ("", None)
                )
            case _:
                break
    return "", None


def _with_where(failing: Failing, reduction: ast.Call, node: ast.Subscript, alone: bool) -> Fix:
    masked = [part for part in ast.walk(reduction) if isinstance(part, ast.Subscript)]
    masked = [part for part in masked if ast.dump(part.slice) == ast.dump(node.slice)]
    shapes = {
        aval.shape if (aval := failing.aval(each)) else None for part in masked for each in (part.value, node.slice)
    }
    if len(shapes) != 1 or None in shapes:
        return "", None
    where = f"{alias(failing.scope, 'jax.numpy')}.where"
    swaps: dict[int, ast.AST] = {
        id(part): copied(part.value) if alone else call(where, part.slice, part.value, ast.Constant(0))
        for part in masked
    }
    changed = copied(reduction, swaps)
    changed.keywords.append(ast.keyword("where", copied(node.slice)))
    return text(changed), failing.site.span_of(reduction)


def _masked_update(failing: Failing, node: ast.Subscript) -> Cause | None:
    """`x.at[mask].set(y[mask])`: what is put there is selected by the same mask."""
    outer = next(iter(failing.site.around), None)
    match outer:
        case ast.Call(
            func=ast.Attribute(value=ast.Subscript(value=ast.Attribute(attr="at"), slice=mask)), args=[value]
        ):
            if value is node and ast.dump(mask) == ast.dump(node.slice):
                cause = _update(failing, replaced(outer, node, copied(node.value)))
                return dataclasses.replace(cause, replaces=failing.site.span_of(outer)) if cause else None
    return None


def _update(failing: Failing, node: ast.Call) -> Cause | None:
    """`x.at[mask].set(v)`."""
    match node:
        case ast.Call(
            func=ast.Attribute(
                attr=method, value=ast.Subscript(value=ast.Attribute(attr="at", value=array), slice=mask)
            ),
            args=[value],
        ) if method in _UPDATES:
            op = _UPDATES[method]
            new = value if op is None else ast.BinOp(array, op, value)
        case _:
            return None
    return Cause(
        title=f"`.at[…].{method}` can't take the traced mask {failing.shown(mask)}",
        explanation="The shape of the result is fixed, only this spelling is refused: a boolean index is turned into "
        "positions, whose number depends on the data. `jnp.where` means the same.",
        evidence=origins(failing, array, mask),
        fix=text(call(f"{alias(failing.scope, 'jax.numpy')}.where", mask, new, array)),
        replaces=failing.span,
    )


@on_error("slice-with-traced-bounds", "a slice whose start or stop is traced")
def slice_with_traced_bounds(failing: Failing) -> Cause | None:
    """The length of `x[i:j]` is part of the program, so it can't come from traced numbers. Where the length is the
    same every time (`x[i:i + 2]`), `jax.lax.dynamic_slice_in_dim` takes a traced start; it moves the window back
    where it would pass the end. Where the length varies, keep the whole array and mask it.

    Sure: the slice itself raised.
    """
    if not (failing.says(r"static start/stop/step|Slice entries must be static") and failing.says("Tracer")):
        return None
    node = failing.node
    if not isinstance(node, ast.Subscript):
        return None
    bounds = next((part for part in ast.walk(node.slice) if isinstance(part, ast.Slice)), None)
    size = None if bounds is None else _length(bounds)
    fix, replaces = "", failing.span
    if isinstance(node.slice, ast.Slice) and bounds is not None and bounds.lower is not None and size is not None:
        slicing = f"{alias(failing.scope, 'jax.lax')}.dynamic_slice_in_dim"
        fix = text(call(slicing, node.value, bounds.lower, ast.Constant(size)))
    elif isinstance(node.slice, ast.Tuple):
        fix = _window(failing, node, node.slice.elts)
        size = "the same" if fix else None
    always = f" Here the length is always {size}, so only the start has to be dynamic." if fix else ""
    clamp = " A dynamic slice that would pass the end is moved back to fit." if fix else ""
    if not fix and bounds is not None:
        fix, replaces = static_fix(failing, settings(failing, *bounds_of(bounds)))
        clamp = " As a static argument each new value compiles once; or mask the array." if fix else " Mask the array."
    return Cause(
        title=f"the bounds of `{failing.text(node)}` are traced",
        explanation=f"The length of a slice is part of the program. {why_traced(failing, *bounds_of(bounds))}{always}"
        f"{clamp}",
        evidence=origins(failing, *parts(node)),
        fix=fix,
        replaces=replaces,
    )


def _window(failing: Failing, node: ast.Subscript, keys: list[ast.expr]) -> str:
    """`x[i:i + 2, j:j + 3]`, with whole axes besides, as one dynamic slice."""
    aval = failing.aval(node.value)
    if aval is None or len(keys) > len(aval.shape):
        return ""
    starts: list[ast.expr] = []
    sizes: list[ast.expr] = []
    keys = [*keys, *[ast.Slice(None, None, None)] * (len(aval.shape) - len(keys))]
    for key, whole in zip(keys, aval.shape, strict=True):
        size = _length(key) if isinstance(key, ast.Slice) else None
        full = isinstance(key, ast.Slice) and not bounds_of(key)
        if not isinstance(key, ast.Slice) or (size is None and not full):
            return ""
        starts.append(ast.Constant(0) if key.lower is None else key.lower)
        sizes.append(ast.Constant(whole if full else size))
    slicing = f"{alias(failing.scope, 'jax.lax')}.dynamic_slice"
    return text(call(slicing, node.value, ast.Tuple(starts), ast.Tuple(sizes)))


def bounds_of(key: ast.Slice | None) -> list[ast.expr]:
    """Start, stop and step, as far as they are given."""
    return [part for part in (key.lower, key.upper, key.step) if part is not None] if key is not None else []


def _length(bounds: ast.Slice) -> int | None:
    """Of `i:i + 2`; None where start and stop differ by something else than a number."""
    match bounds:
        case ast.Slice(lower=ast.expr() as start, upper=ast.BinOp(left=left, op=ast.Add(), right=right), step=None):
            for base, step in ((left, right), (right, left)):
                if ast.dump(base) == ast.dump(start) and isinstance(step, ast.Constant) and type(step.value) is int:
                    return step.value
        case ast.Slice(lower=ast.BinOp(left=left, op=ast.Sub(), right=ast.Constant(value=int(size))), upper=stop):
            return size if stop is not None and ast.dump(left) == ast.dump(stop) else None
    return None


def _masked(failing: Failing, array: ast.expr, key: ast.expr, value: ast.expr, statement: ast.stmt) -> str | None:
    """`x[mask] = v` as `x = jnp.where(mask, v, x)`: under jit `.at` takes no traced mask."""
    aval, whole = failing.aval(key), failing.aval(value)
    if aval is None or aval.dtype != "bool" or not failing.traced(key):
        return None
    if type(failing.scope.get(value)) not in (int, float, bool) and (whole is None or whole.shape):
        return None
    new = ast.BinOp(array, statement.op, value) if isinstance(statement, ast.AugAssign) else value
    where = f"{alias(failing.scope, 'jax.numpy')}.where"
    return f"{failing.text(array)} = {text(call(where, key, new, array))}"


@on_error("item-assignment", "x[i] = y on a JAX array")
def item_assignment(failing: Failing) -> Cause | None:
    """JAX arrays are immutable: `x[i] = y` raises. `x = x.at[i].set(y)` makes the changed array and gives it the
    same name; under jit no copy is made.

    Sure: the assignment itself raised.
    """
    if not failing.says("immutable and do not support in-place item assignment"):
        return None
    return _item_assignment(failing)


def _item_assignment(failing: Failing) -> Cause | None:
    statement, fix = failing.site.statement, ""
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=array, slice=key)], value=value):
            method = "set"
        case ast.AugAssign(target=ast.Subscript(value=array, slice=key), op=op, value=value):
            method = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}.get(type(op), "")
        case _:
            return None
    chosen = _masked(failing, array, key, value, statement)
    if chosen is not None:
        fix = chosen
    elif method:
        updated = ast.Call(ast.Attribute(ast.Subscript(ast.Attribute(array, "at"), key), method), [value], [])
        fix = f"{failing.text(array)} = {text(updated)}"
    return Cause(
        title=f"`{failing.text(array)}` is a JAX array, which can't be changed in place",
        explanation="An indexed update makes a new array; bind it to the name again. Other names keep the old array.",
        evidence=failing.evidence(array),
        fix=fix,
        replaces=failing.site.span_of(statement),
    )
