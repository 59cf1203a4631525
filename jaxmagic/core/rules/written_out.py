"""Functions of JAX that do safely what was written out by hand: softmax and its relatives, sigmoid, x log y."""

import ast
from collections.abc import Iterator

from jaxmagic.core.nonfinite.origins import Origin
from jaxmagic.core.rules.rewrite import call, expression, replaced, text
from jaxmagic.core.rules.spots import Rewrite, Spot, infinity, is_call_of, jax_of, jnp_of, operation_of


def softmax(spot: Spot, origin: Origin) -> Rewrite | None:
    """`exp(x) / exp(x).sum()`, in one expression or by way of a name; `log` of it."""
    for exponential, logits in _exponentials(spot) if not _is_of_infinities(origin) else ():
        for division in _divisions(spot, exponential):
            total = _sum_of(spot, division.right, exponential)
            if total is None:
                continue
            axis = _axis(spot, total, logits)
            outer = next((n for n in ast.walk(spot.function) if is_call_of(n, "log") and _only(n) is division), None)
            name = "log_softmax" if outer is not None else "softmax"
            kept, also = logits, ""
            if spot.making.kind == "nan" and any(map(infinity, _walk(spot))):
                least = expression(f"{jnp_of(spot)}.finfo({jnp_of(spot)}.{spot.making.dtype}).min")
                kept = call(f"{jnp_of(spot)}.maximum", logits, least)
                also = " A row in which all is masked becomes uniform."
            new = call(f"{jax_of(spot)}.nn.{name}", kept, **axis)
            return Rewrite(outer or division, new, f"`jax.nn.{name}` subtracts the maximum first.{also}")
    return None


def _is_of_infinities(origin: Origin) -> bool:
    """`-inf - -inf`, which no other way to write the same avoids."""
    making = origin.first
    return making.kind == "nan" and making.primitive == "sub" and all(value.inf for value in making.operands)


def log_softmax(spot: Spot, origin: Origin) -> Rewrite | None:
    """`p = exp(x) / exp(x).sum()` whose only use is `log(p[…])`, some lines later."""
    for exponential, logits in _exponentials(spot) if not _is_of_infinities(origin) else ():
        for division in _divisions(spot, exponential):
            total = _sum_of(spot, division.right, exponential)
            made = next((n for n in _walk(spot) if isinstance(n, ast.Assign) and n.value is division), None)
            if total is None or made is None or not isinstance(made.targets[0], ast.Name):
                continue
            name = made.targets[0].id
            uses = [n for n in _walk(spot) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
            logs = (node for node in _walk(spot) if isinstance(node, ast.Call) and is_call_of(node, "log"))
            user = next((node for node in logs if uses[:1] == _names_in(_only(node))), None)
            block = next((b for b in _blocks(spot) if made in b), [])
            last = next((n for n in block if user is not None and user in ast.walk(n)), None)
            if len(uses) == 1 and user is not None and last is not None and last is not made:
                new = call(f"{jax_of(spot)}.nn.log_softmax", logits, **_axis(spot, total, logits))
                inside = replaced(user.args[0], uses[0], new)
                kept = [replaced(last, user, inside) if n is last else n for n in block]
                changed = kept[block.index(made) + 1 : block.index(last) + 1]
                why = "`jax.nn.log_softmax` subtracts the maximum, and takes no logarithm of what rounds to zero."
                return Rewrite(made, changed[-1], why, until=last, before=tuple(changed[:-1]))
    return None


def _names_in(node: ast.AST | None) -> list[ast.Name]:
    """The one array that `p`, `p[y]` or `p[jnp.arange(n), y]` is of."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return [node] if isinstance(node, ast.Name) else []


def _blocks(spot: Spot) -> Iterator[list[ast.stmt]]:
    for node in _walk(spot):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list):
                yield block


def logsumexp(spot: Spot, origin: Origin) -> Rewrite | None:
    for exponential, logits in _exponentials(spot) if not _is_of_infinities(origin) else ():
        for outer in _walk(spot):
            inner = _only(outer) if is_call_of(outer, "log") else None
            total = _sum_of(spot, inner, exponential) if inner is not None else None
            if total is inner and total is not None and isinstance(outer, ast.expr):
                new = call(f"{jax_of(spot)}.nn.logsumexp", logits, **_axis(spot, total, logits, default=False))
                return Rewrite(outer, new, "`jax.nn.logsumexp` subtracts the maximum first.")
    return None


def sigmoid(spot: Spot, _: Origin) -> Rewrite | None:
    """`1 / (1 + exp(-x))`, `exp(x) / (1 + exp(x))`, `log(1 + exp(x))`."""
    for exponential, inner in _exponentials(spot):
        for outer in _walk(spot):
            if is_call_of(outer, "log1p") and _is(spot, _only(outer), exponential):
                return _of_jax_nn(spot, "softplus", outer, inner)
            if is_call_of(outer, "log") and _is_one_plus(spot, _only(outer), exponential):
                return _of_jax_nn(spot, "softplus", outer, inner)
            if isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Div):
                if not _is_one_plus(spot, outer.right, exponential):
                    continue
                if _is(spot, outer.left, exponential):
                    return _of_jax_nn(spot, "sigmoid", outer, inner)
                if isinstance(inner, ast.UnaryOp) and spot.scope.get(outer.left) == 1:
                    return _of_jax_nn(spot, "sigmoid", outer, inner.operand)
    return None


def _of_jax_nn(spot: Spot, name: str, old: ast.AST, inner: ast.expr) -> Rewrite:
    new = call(f"{jax_of(spot)}.nn.{name}", inner)
    return Rewrite(old, new, f"`jax.nn.{name}` computes it without the large exponential.")


def log_of(spot: Spot, origin: Origin) -> Rewrite | None:
    """`log(softmax(x))`, `log(sigmoid(x))`, `log(1 - sigmoid(x))`."""
    inner = spot.behind(_only(spot.node) if spot.operation == "log" else None)
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub) and spot.scope.get(inner.left) == 1:
        other = spot.behind(inner.right)
        if is_call_of(other, "sigmoid") and (x := _only(other)) is not None:
            new = call(f"{jax_of(spot)}.nn.log_sigmoid", ast.UnaryOp(ast.USub(), x))
            return Rewrite(spot.node, new, "1 - sigmoid(x) is sigmoid(-x), whose logarithm `log_sigmoid` takes safely.")
    if inner is not None and is_call_of(inner, "softmax", "sigmoid") and isinstance(inner, ast.Call):
        name = f"log_{operation_of(inner)}"
        new = ast.Call(expression(f"{jax_of(spot)}.nn.{name}"), inner.args, inner.keywords)
        return Rewrite(spot.node, new, f"`jax.nn.{name}` takes the logarithm before anything rounds to zero.")
    return None


def sinc(spot: Spot, _: Origin) -> Rewrite | None:
    """`sin(x) / x` at zero, where it is 1."""
    match spot.node:
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            sine = spot.behind(left)
            if is_call_of(sine, "sin") and (x := _only(sine)) is not None and text(x) == text(right):
                jnp = jnp_of(spot)
                new = call(f"{jnp}.sinc", ast.BinOp(x, ast.Div(), expression(f"{jnp}.pi")))
                return Rewrite(spot.node, new, "`jnp.sinc` is 1 at zero, the limit, and has a derivative there.")
    return None


def xlogy(spot: Spot, origin: Origin) -> Rewrite | None:
    """`p * log(p)` where `p` is zero."""
    product = next((node for node in spot.around if isinstance(node, ast.BinOp)), None)
    if spot.operation != "log" or product is None or not isinstance(product.op, ast.Mult):
        return None
    values = origin.first.operands
    if not values or (values[0].least or 0) < 0 or (nan := origin.nan) is None or nan.primitive != "mul":
        return None
    factor = product.right if product.left is spot.node else product.left
    inner = _only(spot.node)
    if inner is None or spot.node not in (product.left, product.right):
        return None
    if nan.differentiated:
        jnp, positive = jnp_of(spot), ast.Compare(inner, [ast.Gt()], [ast.Constant(0)])
        kept = replaced(spot.node, inner, call(f"{jnp}.where", positive, inner, ast.Constant(1)))
        new = call(f"{jnp}.where", positive, ast.BinOp(factor, ast.Mult(), kept), ast.Constant(0.0))
        return Rewrite(product, new, "The inner `where` keeps 0 from the logarithm, the outer gives the limit, 0.")
    new = call(f"{jax_of(spot)}.scipy.special.xlogy", factor, inner)
    return Rewrite(product, new, "`xlogy(0, 0)` is 0, the limit.")


# ---------------------------------------------------------------------------------------------- parts


def _only(node: ast.AST | None) -> ast.expr | None:
    return node.args[0] if isinstance(node, ast.Call) and node.args else None


def _walk(spot: Spot) -> Iterator[ast.AST]:
    return ast.walk(spot.function)


def _exponentials(spot: Spot) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each exponential that the spot is, or works on: the call, or the name that it was given, and its operand."""
    nodes = [spot.node, *ast.walk(spot.node), *(node for node in spot.around if isinstance(node, ast.expr))]
    for node in nodes:
        named = spot.behind(node)
        if isinstance(named, ast.Call) and is_call_of(named, "exp") and named.args:
            yield named, named.args[0]


def _is(spot: Spot, node: ast.AST | None, exponential: ast.expr) -> bool:
    """Whether a node is this exponential: as written, or by a name that was given to it."""
    if node is None:
        return False
    if isinstance(node, ast.Name):
        named = _assigned(spot, node)
        return named is not None and text(named) == text(exponential)
    return text(node) == text(exponential)


def _assigned(spot: Spot, name: ast.Name) -> ast.expr | None:
    """What a name was given before a place where it is used, where that is one thing only."""
    found = [
        node.value
        for node in _walk(spot)
        if isinstance(node, ast.Assign)
        and (node.end_lineno or node.lineno) < name.lineno
        and any(isinstance(target, ast.Name) and target.id == name.id for target in node.targets)
    ]
    return found[-1] if len(found) == 1 else None


def _sum_of(spot: Spot, node: ast.AST | None, exponential: ast.expr) -> ast.Call | None:
    """The call that sums the exponential, if `node` is one, or a name of one."""
    if isinstance(node, ast.Name):
        node = _assigned(spot, node)
    if not isinstance(node, ast.Call) or not is_call_of(node, "sum"):
        return None
    summed = spot.parts_of(node)
    return node if summed and _is(spot, summed[0], exponential) else None


def _divisions(spot: Spot, exponential: ast.expr) -> Iterator[ast.BinOp]:
    for node in _walk(spot):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is(spot, node.left, exponential):
            yield node


def _axis(spot: Spot, total: ast.Call, logits: ast.expr, *, default: bool = True) -> dict[str, ast.expr]:
    """The axis that a sum goes over, as a keyword; over all axes softmax has to be told so."""
    given = {each.arg: each.value for each in total.keywords if each.arg in ("axis", "keepdims")}
    positional = spot.parts_of(total)[1:]
    axis = given.get("axis", positional[0] if positional else None)
    if axis is None:
        dimensions = (
            len(spot.making.operands[0].aval.shape) - len(spot.making.lane_sizes) if spot.making.operands else 1
        )
        return {"axis": ast.Constant(None)} if default and dimensions > 1 else {}
    kept = {"keepdims": given["keepdims"]} if not default and "keepdims" in given else {}
    return {"axis": axis, **kept}


def _is_one_plus(spot: Spot, node: ast.AST | None, exponential: ast.expr) -> bool:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            pairs = ((left, right), (right, left))
            return any(spot.scope.get(one) == 1 and _is(spot, other, exponential) for one, other in pairs)
    return False
