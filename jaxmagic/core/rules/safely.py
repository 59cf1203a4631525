"""Rewrites that keep an expression away from what it can't take, made of the user's own expression."""

import ast
from collections.abc import Callable, Iterator

from jaxmagic.core.nonfinite.origins import Origin
from jaxmagic.core.rules import matrices, products, written_out
from jaxmagic.core.rules.rewrite import call, expression, replaced, text
from jaxmagic.core.rules.spots import Rewrite, Spot, infinity, is_call_of, jnp_of, operation_of

SMALL = "1e-12"
EDGED = ("arccos", "arcsin", "arctanh", "erfinv")
_LOGS = {"log": "1", "log2": "1", "log10": "1", "log1p": "0"}
_INSIDE = _LOGS | {
    "sqrt": "1",
    "rsqrt": "1",
    "reciprocal": "1",
    "arccos": "0",
    "arcsin": "0",
    "arctanh": "0",
    "arccosh": "2",
    "erfinv": "0",
    "exp": "0",
    "expm1": "0",
}
"""Functions of one array, each with a value at which it and its derivative are finite."""

_EXPONENTS = {"float16": "10", "float64": "700"}
_HALF = ("float16", "float8_e4m3fn", "float8_e5m2")


Strategy = Callable[[Spot, Origin], Rewrite | None]


def rewrite(spot: Spot, origin: Origin) -> Rewrite | None:
    """The first way that fits; None where none is known."""
    return next((found for strategy in _STRATEGIES if (found := strategy(spot, origin)) is not None), None)


# ---------------------------------------------------------------------------------- choices and masks


def inner_where(spot: Spot, origin: Origin) -> Rewrite | None:
    """The condition of the `where` that throws the value away, put inside as well."""
    mask = None if origin.in_value and origin.reaches else spot.mask()
    part, safe = _risky(spot)
    if mask is None or part is None or spot.text(spot.node) in spot.text(mask.condition):
        return None
    chosen = (part, expression(safe)) if mask.chosen else (expression(safe), part)
    inside = ast.Call(mask.call.func, [mask.condition, *chosen], [])
    new = replaced(spot.node, part, inside)
    why = "The second `where`, inside, keeps the values that are thrown away from being computed with at all."
    return Rewrite(spot.node, new, why)


def _risky(spot: Spot) -> tuple[ast.expr | None, str]:
    """The operand that has to be kept away from something, and a value to put in its place."""
    parts = spot.parts
    match spot.operation:
        case "/" | "%" if len(parts) == 2:
            return parts[1], "1"
        case "**" if parts:
            return parts[0], "1"
        case "arctan2" if len(parts) == 2:
            return parts[1], "1"
        case name if name in _INSIDE and parts:
            return parts[0], _INSIDE[name]
    return None, ""


# ------------------------------------------------------------------------------------- kept from edges


def _norm(spot: Spot, _: Origin) -> Rewrite | None:
    """A norm or a standard deviation, whose root is kept from zero; also one that is divided by."""
    for old in _candidates(spot, "norm", "std"):
        if (new := _with_root_kept(spot, old)) is not None:
            return Rewrite(old, new, "With a small number under it, the root and its derivative are finite.")
    for old in ast.walk(spot.node):
        if isinstance(old, ast.Attribute) and old.attr == "norm" and not _is_called(spot, old):
            new = expression(f"lambda x: {jnp_of(spot)}.sqrt({jnp_of(spot)}.sum(x ** 2) + {SMALL})")
            return Rewrite(old, new, "With a small number under it, the root and its derivative are finite.")
    return None


def _with_root_kept(spot: Spot, old: ast.Call) -> ast.expr | None:
    jnp, parts = jnp_of(spot), spot.parts_of(old)
    keywords = {each.arg: each.value for each in old.keywords if each.arg}
    if not parts or (len(parts) > 1 and operation_of(old) == "norm") or "ord" in keywords:
        return None
    array, *rest = parts
    if operation_of(old) == "norm":
        under = call(f"{jnp}.sum", ast.BinOp(array, ast.Pow(), ast.Constant(2)), **keywords)
        return call(f"{jnp}.sqrt", ast.BinOp(under, ast.Add(), expression(SMALL)))
    variance = call(f"{jnp}.var", array, *rest, **keywords)
    return call(f"{jnp}.sqrt", ast.BinOp(variance, ast.Add(), expression("1e-6")))


def _root(spot: Spot, origin: Origin) -> Rewrite | None:
    """A square root, also one that is divided by."""
    for old in _candidates(spot, "sqrt", "rsqrt"):
        part = spot.parts_of(old)[0] if spot.parts_of(old) else None
        if part is not None:
            return _kept_above(spot, old, part, origin, "root")
    return None


def _kept_above(spot: Spot, old: ast.AST, part: ast.expr, origin: Origin, what: str) -> Rewrite:
    """Above zero: by adding where it is never negative, by a maximum where it may be."""
    small = _small(origin)
    values = origin.first.operands
    negative = any(value.least is not None and value.least < 0 for value in values[:1])
    if negative or what == "logarithm":
        inside: ast.expr = call(f"{jnp_of(spot)}.maximum", part, expression(small))
    else:
        inside = ast.BinOp(part, ast.Add(), expression(small))
    return Rewrite(old, replaced(old, part, inside), f"Kept above zero, the {what} and its derivative are finite.")


def _logarithm(spot: Spot, origin: Origin) -> Rewrite | None:
    if spot.operation not in _LOGS or not spot.parts:
        return None
    part = spot.parts[0]
    if matrices.is_determinant(spot, part):
        return None  # the logarithm of a small number in place of a negative determinant would mean nothing
    if spot.operation == "log1p":
        inside = call(f"{jnp_of(spot)}.maximum", part, expression("-1 + 1e-6"))
        return Rewrite(
            spot.node,
            replaced(spot.node, part, inside),
            "Kept above zero, the logarithm and its derivative are finite.",
        )
    return _kept_above(spot, spot.node, part, origin, "logarithm")


def _clip(spot: Spot, origin: Origin) -> Rewrite | None:
    edge = "1e-3" if origin.first.dtype == "float16" else "1e-6"
    parts = spot.parts
    if spot.operation in EDGED and parts:
        inside = call(f"{jnp_of(spot)}.clip", parts[0], expression(f"-1 + {edge}"), expression(f"1 - {edge}"))
    elif spot.operation == "logit" and parts:
        inside = call(f"{jnp_of(spot)}.clip", parts[0], expression(edge), expression(f"1 - {edge}"))
    elif spot.operation == "arccosh" and parts:
        inside = call(f"{jnp_of(spot)}.maximum", parts[0], expression(f"1 + {edge}"))
    elif spot.operation in ("gammaln", "digamma", "reciprocal") and parts:
        inside = call(f"{jnp_of(spot)}.maximum", parts[0], expression(edge))
    else:
        return None
    return Rewrite(
        spot.node,
        replaced(spot.node, parts[0], inside),
        "Kept off the edge of the domain, it and its derivative are finite.",
    )


def _angle(spot: Spot, _: Origin) -> Rewrite | None:
    if spot.operation != "arctan2" or len(spot.parts) != 2:
        return None
    y, x = spot.parts
    both = ast.BinOp(_equals_zero(x), ast.BitAnd(), _equals_zero(y))
    new = replaced(spot.node, x, call(f"{jnp_of(spot)}.where", both, ast.Constant(1.0), x))
    return Rewrite(spot.node, new, "At (0, 0) the angle is taken at (0, 1), where it has a derivative.")


def _power(spot: Spot, origin: Origin) -> Rewrite | None:
    values = origin.first.operands
    too_large = origin.first.kind == "inf" and values and not values[0].zero
    if spot.operation != "**" or not spot.parts or too_large:
        return None
    if not origin.in_value and any(value.least is not None and value.least < 0 for value in values[:1]):
        return None  # the power of a negative number is right, only its derivative by the exponent is not
    return _kept_above(spot, spot.node, spot.parts[0], origin, "base")


# ------------------------------------------------------------------------------------------ divisions


def _mean_of_chosen(spot: Spot, _: Origin) -> Rewrite | None:
    """`x.mean(where=mask)` of nothing."""
    keywords = {each.arg: each.value for each in getattr(spot.node, "keywords", ()) if each.arg}
    if not is_call_of(spot.node, "mean") or not spot.parts or "where" not in keywords:
        return None
    jnp, others = jnp_of(spot), {k: v for k, v in keywords.items() if k != "where"}
    total = call(f"{jnp}.sum", spot.parts[0], **keywords)
    count = call(f"{jnp}.maximum", call(f"{jnp}.sum", keywords["where"], **others), ast.Constant(1))
    return Rewrite(spot.node, ast.BinOp(total, ast.Div(), count), "Of nothing the mean is then 0.")


def _mean_of_nothing(spot: Spot, _: Origin) -> Rewrite | None:
    if not is_call_of(spot.node, "mean", "average") or not spot.parts:
        return None
    size = ast.Attribute(spot.parts[0], "size", ast.Load())
    return Rewrite(spot.node, ast.IfExp(size, spot.node, ast.Constant(0.0)), "Of nothing the mean is then 0.")


def _division(spot: Spot, origin: Origin) -> Rewrite | None:
    if spot.operation not in ("/", "%") or len(spot.parts) != 2 or products.is_of_product(spot, spot.parts[1]):
        return None
    part, jnp = spot.parts[1], jnp_of(spot)
    value = origin.first.operands[1] if len(origin.first.operands) > 1 else None
    least = value.least if value is not None else None
    if spot.operation == "/" and least is not None and least >= 0:
        least_of_all = "1" if _counts(spot, part) else _small(origin)
        inside = call(f"{jnp}.maximum", part, expression(least_of_all))
        why = "The denominator is then never zero."
    else:
        inside = call(f"{jnp}.where", _equals_zero(part), ast.Constant(1.0), part)
        why = "Where the denominator is zero it divides by 1 instead."
    return Rewrite(spot.node, replaced(spot.node, part, inside), why)


def _counts(spot: Spot, part: ast.expr) -> bool:
    """Whether it is how many there are of something: the sum of a mask, by its name or as a comparison."""
    node = spot.behind(part)
    if node is None or not is_call_of(node, "sum", "count_nonzero"):
        return False
    summed = spot.parts_of(node)[:1]
    marked = [each for each in summed if "mask" in text(each).lower() or isinstance(each, ast.Compare)]
    return is_call_of(node, "count_nonzero") or bool(marked)


def _small(origin: Origin) -> str:
    return "1e-6" if origin.first.dtype == "float16" else SMALL


# --------------------------------------------------------------------------------- infinities, overflow


def _written_infinity(spot: Spot, origin: Origin) -> Rewrite | None:
    """`-jnp.inf` as a mask: `inf - inf` and `0 * inf` are NaN, the least finite number is none."""
    if origin.first.kind != "nan" or not any(value.inf for value in origin.first.operands):
        return None
    dtype = origin.first.dtype
    for node in ast.walk(spot.function):
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and infinity(node.operand) == "inf":
            return Rewrite(node, expression(f"{jnp_of(spot)}.finfo({jnp_of(spot)}.{dtype}).min"), _FINITE)
        if infinity(node) == "-inf":
            return Rewrite(node, expression(f"{jnp_of(spot)}.finfo({jnp_of(spot)}.{dtype}).min"), _FINITE)
    return None


_FINITE = "The least finite number masks as well, and it is a number."


def _exponential(spot: Spot, origin: Origin) -> Rewrite | None:
    if spot.operation not in ("exp", "expm1", "exp2", "cosh", "sinh") or not spot.parts:
        return None
    limit = _EXPONENTS.get(origin.first.dtype, "80")
    inside = call(f"{jnp_of(spot)}.minimum", spot.parts[0], expression(limit))
    why = f"Cut off before {origin.first.dtype} overflows; or work with the logarithm."
    return Rewrite(spot.node, replaced(spot.node, spot.parts[0], inside), why)


def _wider(spot: Spot, origin: Origin) -> Rewrite | None:
    """Half precision: the same in float32."""
    if origin.first.dtype not in _HALF or origin.first.kind != "inf" or origin.first.transposed:
        return None
    jnp = jnp_of(spot)
    if isinstance(spot.node, ast.Call) and spot.operation == "astype" and spot.node.args:
        wide = ast.Call(spot.node.func, [expression(f"{jnp}.bfloat16"), *spot.node.args[1:]], spot.node.keywords)
        return Rewrite(spot.node, wide, "bfloat16 has the range of float32.")
    if not spot.parts or operation_of(spot.node) == "":
        return None
    part = spot.parts[0]
    cast = ast.Call(ast.Attribute(part, "astype", ast.Load()), [expression(f"{jnp}.float32")], [])
    return Rewrite(spot.node, replaced(spot.node, part, cast), "In float32 it fits.")


def _optimizer(spot: Spot, origin: Origin) -> Rewrite | None:
    """`optax.adam(…, eps=0)`: the update divides by the root of a second moment that may be zero."""
    for node in ast.walk(spot.tree):
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            if keyword.arg in ("eps", "eps_root") and spot.scope.get(keyword.value) == 0:
                fixed = ast.keyword(keyword.arg, expression("1e-8"))
                return Rewrite(keyword, fixed, "With it the optimizer's denominator is never zero.")
    return None


_STRATEGIES: tuple[Strategy, ...] = (
    written_out.log_softmax,
    written_out.softmax,
    written_out.logsumexp,
    written_out.sigmoid,
    written_out.log_of,
    written_out.sinc,
    matrices.log_of_determinant,
    inner_where,
    written_out.xlogy,
    _norm,
    _root,
    _wider,
    _logarithm,
    _clip,
    _angle,
    _power,
    _mean_of_chosen,
    _written_infinity,
    products.ratio,
    _division,
    _exponential,
    matrices.cholesky,
    matrices.singular,
    _mean_of_nothing,
    _optimizer,
)
"""In the order in which they are tried."""


def _candidates(spot: Spot, *names: str) -> Iterator[ast.Call]:
    """Calls of these functions that the spot is, or divides by, directly or by a name."""
    nodes = [spot.node]
    if spot.operation == "/" and len(spot.parts) == 2:
        nodes += [each for each in ast.walk(spot.parts[1]) if isinstance(each, ast.expr)]
    for node in nodes:
        named = spot.behind(node)
        if isinstance(named, ast.Call) and is_call_of(named, *names):
            yield named


def _is_called(spot: Spot, node: ast.AST) -> bool:
    return any(isinstance(each, ast.Call) and each.func is node for each in ast.walk(spot.tree))


def _equals_zero(node: ast.expr) -> ast.expr:
    return ast.Compare(node, [ast.Eq()], [ast.Constant(0)])
