"""Ratios of products that have become too small for their type, taken as differences of sums of logarithms."""

import ast

from jaxmagic.core.nonfinite.origins import Origin
from jaxmagic.core.rules.rewrite import call, replaced
from jaxmagic.core.rules.spots import Rewrite, Spot, is_call_of, jnp_of, operation_of
from jaxmagic.core.source.nodes import loaded, own_nodes, stored

_SUMS = {"cumprod": "cumsum", "prod": "sum"}


def ratio(spot: Spot, origin: Origin) -> Rewrite | None:
    """`p[1:] / p[:-1]` of `p = jnp.cumprod(q)`, none of whose factors is negative."""
    values = origin.first.operands
    if spot.operation != "/" or len(values) != 2 or any(value.least is None or value.least < 0 for value in values):
        return None
    logarithms = [_logarithm(spot, part) for part in spot.parts]
    above, below = (*logarithms, None, None)[:2]
    if above is None or below is None:
        return None
    new = call(f"{jnp_of(spot)}.exp", ast.BinOp(above, ast.Sub(), below))
    why = "The product becomes zero by rounding; the sum of the logarithms does not, unless a factor is zero."
    return Rewrite(spot.node, new, why, False)


def is_of_product(spot: Spot, part: ast.expr) -> bool:
    return _product(spot, part)[1] is not None


def _product(spot: Spot, part: ast.expr) -> tuple[ast.expr, ast.Call | None]:
    """What an expression is a part of, and the product that this is."""
    while isinstance(part, ast.Subscript):
        part = part.value
    made = spot.behind(part)
    return part, made if isinstance(made, ast.Call) and is_call_of(made, *_SUMS) and spot.parts_of(made) else None


def _logarithm(spot: Spot, part: ast.expr) -> ast.expr | None:
    """The logarithm of a product, or of elements of it; None where its factors may have changed since."""
    whole, product = _product(spot, part)
    if product is None or (whole is not product and loaded(product) & _stored_since(spot, product)):
        return None
    factors, *rest = spot.parts_of(product)
    keywords = {word.arg: word.value for word in product.keywords if word.arg}
    logs = call(f"{jnp_of(spot)}.log", factors)
    return replaced(part, whole, call(f"{jnp_of(spot)}.{_SUMS[operation_of(product)]}", logs, *rest, **keywords))


def _stored_since(spot: Spot, product: ast.expr) -> set[str]:
    """Names that are given another value between the product and the expression."""
    lines = range(product.lineno + 1, spot.node.lineno)
    changed = (node for node in own_nodes(spot.function) if getattr(node, "lineno", 0) in lines)
    return {name for node in changed if isinstance(node, ast.stmt) for name in stored(node)}
