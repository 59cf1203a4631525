"""Rewrites of what can't be done with a matrix that is singular, or not positive definite."""

import ast
import math

from jaxmagic.core.nonfinite.origins import Origin
from jaxmagic.core.rules.rewrite import call, expression, replaced, text
from jaxmagic.core.rules.spots import Rewrite, Spot, is_call_of, jnp_of

_FROM_ROUNDING = 1e-3
"""A negative eigenvalue that is smaller, relative to the largest, may come of rounding."""


def cholesky(spot: Spot, origin: Origin) -> Rewrite | None:
    """A small number on the diagonal, where the matrix is positive definite but for rounding."""
    if spot.operation != "cholesky" or not spot.parts:
        return None
    ends = origin.first.eigenvalues
    if ends is not None and ends[0] < -_FROM_ROUNDING * abs(ends[1]):
        return None
    part, jnp = spot.parts[0], jnp_of(spot)
    jitter = expression(f"{_jitter(ends)} * {jnp}.eye({text(part)}.shape[-1])")
    new = replaced(spot.node, part, ast.BinOp(part, ast.Add(), jitter))
    return Rewrite(
        spot.node, new, "A small number on the diagonal makes up for rounding, if that is what it is.", False
    )


def _jitter(ends: tuple[float, float] | None) -> str:
    """A power of ten that lifts all eigenvalues above zero, by as much as they are rounded."""
    if ends is None:
        return "1e-6"
    needed = max(1e-7 * abs(ends[1]), -10 * ends[0], 1e-6)
    return f"1e{math.ceil(math.log10(needed) - 1e-9)}"


def singular(spot: Spot, _: Origin) -> Rewrite | None:
    """`solve` and `inv` of a matrix without an inverse: what comes closest."""
    parts, jnp = spot.parts, jnp_of(spot)
    if spot.operation == "inv" and parts:
        new: ast.expr = call(f"{jnp}.linalg.pinv", parts[0])
    elif spot.operation == "solve" and len(parts) == 2:
        new = ast.BinOp(call(f"{jnp}.linalg.pinv", parts[0]), ast.MatMult(), parts[1])
    else:
        return None
    why = "A singular matrix has no inverse; the pseudo-inverse gives the smallest solution that comes closest."
    return Rewrite(spot.node, new, why, False)


def log_of_determinant(spot: Spot, origin: Origin) -> Rewrite | None:
    """`log(det(a))`, whose determinant is too small or too large for its type."""
    logs = (node for node in (spot.node, *spot.around[:1]) if is_call_of(node, "log"))
    log = next((node for node in logs if isinstance(node, ast.Call) and node.args), None)
    if log is None or origin.first.kind != "inf":
        return None
    inner = spot.behind(log.args[0])
    if not isinstance(inner, ast.Call) or not is_determinant(spot, inner):
        return None
    new = ast.Subscript(call(f"{jnp_of(spot)}.linalg.slogdet", *inner.args), ast.Constant(1), ast.Load())
    return Rewrite(log, new, "`slogdet` adds up logarithms, which neither overflow nor vanish.", False)


def is_determinant(spot: Spot, node: ast.expr) -> bool:
    """Whether it is a call of `det`, or a name that was given one."""
    named = spot.behind(node)
    return named is not None and is_call_of(named, "det")
