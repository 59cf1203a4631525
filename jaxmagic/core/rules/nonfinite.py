"""NaN and infinity, where JAX's own checker (`jax_debug_nans`) stopped the cell."""

import ast

from jaxmagic.core.nonfinite.origins import Origin, unknown_making
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import alias, call, text
from jaxmagic.core.rules.safely import rewrite
from jaxmagic.core.rules.spots import Rewrite, Spot, spot_of
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import loaded, path_to, stored
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Frame, Span

_SAFE = {"log": 1, "sqrt": 1, "log2": 1, "log10": 1, "arccos": 0, "arcsin": 0}
"""A value at which each function and its derivative are finite."""


@on_error("nan-found", "jax_debug_nans or jax_debug_infs stopped at a NaN or an infinity")
def nan_found(failing: Failing) -> Cause | None:
    """The checker names the operation that gave the first NaN it looked at. That may be an operation of the backward
    pass that nobody wrote, or one later than the overflow that caused it; and a NaN that a `where` throws away is
    no fault of the value, though its gradient may still be NaN.

    Sure: a NaN (or infinity) was there. Where it came from is read from the form of the expression: a softmax by
    hand, a logarithm or root outside its domain, the gradient of a norm at zero.
    """
    match = failing.says(r"invalid value \((nan|inf)\) encountered in (\w+)")
    if failing.kind != "FloatingPointError" or match is None:
        return None
    backward = any(frame.f_code.co_name.startswith(("backward_pass", "_vjp")) for frame in failing.machinery)
    if backward:
        return _backward(failing, match[1], match[2])
    overflow = _softmax(failing)
    if overflow is not None:
        return overflow
    return _forward(failing, match[1], match[2])


def _softmax(failing: Failing) -> Cause | None:
    """`exp(x) / exp(x).sum()`: the exponential overflows above 88 in float32, and inf / inf is NaN."""
    for node in (failing.node, *failing.site.around):
        match node:
            case ast.BinOp(left=ast.Call(func=ast.Attribute(attr="exp"), args=[logits]), op=ast.Div(), right=total):
                if text(ast.Call(node.left.func, [logits], [])) in text(total):  # pyright: ignore[reportAttributeAccessIssue]
                    spelled = failing.text(logits)
                    return Cause(
                        title=f"exp({spelled}) overflows: this softmax has to subtract the maximum first",
                        explanation="The exponential of a float32 is infinite above 88, and inf / inf is NaN: the "
                        "division is blamed, one operation too late. `jax.nn.softmax` subtracts the maximum; for its "
                        "logarithm use `jax.nn.log_softmax`.",
                        evidence=failing.evidence(logits),
                        fix=text(call(f"{alias(failing.scope, 'jax')}.nn.softmax", logits)),
                        replaces=failing.site.span_of(node),
                    )
            case ast.stmt():
                return None
    return None


def _forward(failing: Failing, what: str, operation: str) -> Cause:
    node = failing.node
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    argument = node.args[0] if isinstance(node, ast.Call) and node.args else None
    mask = _mask(failing)
    fix = ""
    if name in _SAFE and argument is not None and isinstance(node, ast.Call):
        jnp = alias(failing.scope, "jax.numpy")
        condition = mask or ast.Compare(argument, [ast.Gt()], [ast.Constant(0)])
        safe = call(f"{jnp}.where", condition, argument, ast.Constant(_SAFE[name]))
        fix = text(ast.Call(node.func, [safe, *node.args[1:]], node.keywords))
    masked = " A `where` throws it away afterwards, so the result may be finite; its gradient is not." if mask else ""
    inside = " Put the `where` inside, so that the function never sees the values it can't take." if fix else ""
    return Cause(
        title=f"{operation} gave {'a NaN' if what == 'nan' else 'an infinity'} here",
        explanation=f"`{failing.text(node) if node is not None else operation}` has values that it can't take.{masked}"
        f"{inside}",
        evidence=failing.evidence(*([argument] if argument is not None else [])),
        fix=fix,
        replaces=failing.span,
        sure=mask is None,
    )


def _mask(failing: Failing) -> ast.expr | None:
    """The condition of a `where` that later chooses between this result and something else."""
    names = stored(failing.site.statement) if isinstance(failing.site.statement, ast.Assign) else []
    body = failing.site.definition or failing.site.tree
    for node in ast.walk(body) if body is not None and names else ():
        match node:
            case ast.Call(func=ast.Attribute(attr="where"), args=[condition, chosen, _]):
                if names[0] in loaded(chosen) and names[0] not in loaded(condition):
                    return condition
    return None


def _backward(failing: Failing, what: str, operation: str) -> Cause:
    """The forward operation whose derivative is infinite: a root or a norm at zero, most often."""
    span = failing.equation or failing.span
    root = _root_around(span)
    span = root or span
    where = source.text_of(span)
    spot, fix = _fix(failing, what, operation, span)
    return Cause(
        title=f"the gradient is {'NaN' if what == 'nan' else 'infinite'}: the derivative of `{where or operation}`",
        explanation=f"`{operation}` is an operation of the backward pass that nobody wrote. "
        + (
            "The derivative of a square root (and so of a norm or a distance) is infinite at zero. Keep zero away from "
            "it: add a small number under the root, or choose with `where` inside and outside of it."
            if root is not None
            else "Look for a root, a logarithm or a division at the edge of its domain."
        ),
        span=span,
        evidence=(Evidence("differentiated here", failing.span),),
        fix=fix.code if fix is not None else "",
        replaces=spot.span(fix.old) if spot is not None and fix is not None else None,
        sure=root is not None,
    )


def _fix(failing: Failing, what: str, operation: str, span: Span) -> tuple[Spot | None, Rewrite | None]:
    """The rewrite of the operation whose derivative it is; nothing is known of its operands."""
    making = unknown_making("nan" if what == "nan" else "inf", operation, Frame(span, failing.site.function))
    spot = spot_of(making, failing.scope.globals)
    return spot, rewrite(spot, Origin(making)) if spot is not None else None


def _root_around(span: Span) -> Span | None:
    """The root or norm that an operation is in, or is: the NaN shows one step behind the infinite derivative."""
    tree, node = source.tree(span.file), source.node_at(span)
    around = path_to(tree, node) if tree is not None and node is not None else []
    for outer in around:
        match outer:
            case ast.Call(func=ast.Attribute(attr="sqrt" | "norm" | "std")):
                return span_of(span.file, outer)
            case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=0.5)):
                return span_of(span.file, outer)
            case ast.stmt():
                break
    return span if "norm" in source.text_of(span) else None
