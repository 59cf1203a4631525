"""Numbers that a floating point type can't hold: integers that it rounds, numbers beyond the range of float16."""

import ast
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmagic.core.failures.operands import Scope, is_tracer
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.exact import MOST, Exact, at_hand
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import alias, expression, extended, replaced, text
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.core.source.nodes import loaded, name_called
from jaxmagic.records import Evidence

_COUNTS = {"bfloat16": 256, "float16": 2048, "float32": 2**24}
"""The integers up to here are all different."""
_MAKERS = ("arange", "array", "asarray", "full")
_REDUCTIONS = ("sum", "prod", "cumsum", "cumprod", "dot", "vdot", "matmul", "mean", "var", "std", "norm")
_EXPONENTIALS = ("exp", "exp2", "expm1", "cosh", "sinh")
_PLAIN = ("square", "multiply", "add", "subtract", "outer", "abs", "ones", "full", "array", "asarray", "float16")
_ENDS = 65_504


@on_cell("integers-rounded", "wrong-result", "integers are given a floating point type that can't tell them apart")
def integers_rounded(observed: Observed) -> Iterator[Cause]:
    """bfloat16 has eight significant bits: it holds the integers up to 256, and beyond them only every second, fourth,
    eighth. float16 holds those up to 2,048, float32 those up to 16,777,216. Positions, indices and identifiers that
    are made in such a type, or cast to it, become the same for neighbours: `jnp.arange(4096, dtype=jnp.bfloat16)` has
    only every sixteenth number in its second half.

    Sure: the integers are known, and different ones become the same.
    """
    for piece in ran(observed):
        exact = Exact(observed, piece)
        for node in piece.own:
            asked = _asked(observed, piece, node) if isinstance(node, ast.Call) else None
            if asked is not None and isinstance(node, ast.Call):
                integers, dtype = asked
                lost = _lost(exact.get(integers), _dtype(observed, piece, dtype))
                if lost is not None:
                    yield _rounded(observed, piece, node, dtype, *lost)


def _asked(observed: Observed, piece: Ran, node: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """Integers, and the type that a call gives them."""
    asked = next((word.value for word in node.keywords if word.arg == "dtype"), None)
    match node:
        case ast.Call(func=ast.Attribute(value=array, attr="astype"), args=[dtype]):
            return array, dtype
        case ast.Call(func=ast.Attribute(attr=name)) if name in _MAKERS and asked is not None:
            if dotted(observed, piece, node.func).startswith("jax.numpy."):
                words = [word for word in node.keywords if word.arg != "dtype"]
                return ast.copy_location(ast.Call(node.func, node.args, words), node), asked
    return None


def _dtype(observed: Observed, piece: Ran, node: ast.expr) -> str:
    """`bfloat16` of `jnp.bfloat16`, `"bfloat16"` and `x.dtype`."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Attribute) and node.attr == "dtype":
        aval = Shapes(observed, piece).aval(node.value)
        return aval.dtype if aval is not None else ""
    return dotted(observed, piece, node).rpartition(".")[2]


def _lost(integers: Any, dtype: str) -> tuple[str, int, int] | None:
    """The type, and the first integer that it rounds, with what it becomes."""
    if dtype not in _COUNTS or integers is None or not np.size(integers) or np.max(np.abs(integers)) <= _COUNTS[dtype]:
        return None
    exactly = np.ravel(np.asarray(integers, dtype=np.int64))
    become = exactly.astype(jnp.dtype(dtype)).astype(np.float64)
    if len(np.unique(become)) == len(np.unique(exactly)):
        return None
    wrong = np.flatnonzero((become != exactly) & np.isfinite(become))
    return (dtype, int(exactly[wrong[0]]), int(become[wrong[0]])) if len(wrong) else None


def _rounded(
    observed: Observed, piece: Ran, node: ast.Call, dtype: ast.expr, name: str, integer: int, becomes: int
) -> Cause:
    jnp_ = alias(Scope({}, observed.namespace), "jax.numpy")
    wide = expression(f"{jnp_}.{'int32' if name == 'float32' else 'float32'}")
    return Cause(
        title=f"{integer:,} becomes {becomes:,} in `{' '.join(piece.text(node).split())}`: "
        f"{name} holds the integers up to {_COUNTS[name]:,}",
        explanation="Beyond, several integers are rounded to one number. Compute with them in a wider type, and cast "
        "what comes of it.",
        span=piece.span_of(node),
        fix=text(replaced(node, dtype, wide)),
        replaces=piece.span_of(node),
    )


@on_cell("half-overflow", "wrong-result", "a float16 result is infinite: it is beyond 65,504")
def half_overflow(observed: Observed) -> Iterator[Cause]:
    """float16 ends at 65,504: the square of 256, a sum of a few thousand numbers, a loss that was scaled. What is
    beyond is infinite, without an error, and NaN soon after. bfloat16 has the range of float32.

    Sure: the variable holds an infinity when the cell has ended, and what it was computed from holds none. Inside of
    functions `%%jaxtap --when inf` names the line.
    """
    if "inf" in observed.asked:
        return
    for piece in ran(observed) if _has_halves(observed) else ():
        for node in piece.own if isinstance(piece.node, ast.Module) else ():
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp() | ast.Call() as value):
                    if _overflowed(observed, name, value):
                        yield _infinite(observed, piece, name, value)


def _has_halves(observed: Observed) -> bool:
    return any(isinstance(value, jax.Array) and value.dtype == jnp.float16 for value in observed.namespace.values())


def _overflowed(observed: Observed, name: str, value: ast.expr) -> bool:
    """Whether a variable got infinities from numbers, and by growing: not of a division or a logarithm."""
    result = _numbers(observed.namespace.get(name))
    if result is None or not np.isinf(result).any() or name in loaded(value) or not all(map(_grows, ast.walk(value))):
        return False
    given = [_numbers(observed.namespace.get(each)) for each in loaded(value)]
    return not any(each is not None and np.isinf(each).any() for each in given)


def _grows(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(op=ast.Div(), right=divisor):
            return isinstance(divisor, ast.Constant)
        case ast.Call():
            return name_called(node) in (*_PLAIN, *_REDUCTIONS, *_EXPONENTIALS)
        case ast.Attribute(attr=name):
            return name != "inf"
    return True


def _numbers(value: Any) -> np.ndarray | None:
    if not isinstance(value, jax.Array) or is_tracer(value) or value.dtype != jnp.float16 or value.size > MOST:
        return None
    return np.asarray(value) if at_hand(value) else None


def _infinite(observed: Observed, piece: Ran, name: str, value: ast.BinOp | ast.Call) -> Cause:
    fix = _in_single(observed, value)
    return Cause(
        title=f"`{' '.join(piece.text(value).split())}` is infinite: float16 ends at {_ENDS:,}",
        explanation="Compute this in float32, or use bfloat16, which has the range of float32."
        if fix
        else "bfloat16 and float32 go to 3e38, which may be beyond what this gives; keep its logarithm instead, say.",
        span=piece.span_of(value),
        evidence=(Evidence(f"{name}: {observed.namespace[name].aval.str_short()}"),),
        fix=fix,
        replaces=piece.span_of(value),
    )


def _in_single(observed: Observed, value: ast.BinOp | ast.Call) -> str:
    """The expression in float32; empty where that may not be wide enough."""
    if any(_explodes(part) for part in ast.walk(value)):
        return ""
    single = expression(f"{alias(Scope({}, observed.namespace), 'jax.numpy')}.float32")
    names = [part for part in ast.walk(value) if isinstance(part, ast.Name)]
    half = next((part for part in names if _numbers(observed.namespace.get(part.id)) is not None), None)
    if half is not None:
        return text(replaced(value, half, ast.Call(ast.Attribute(half, "astype"), [single], [])))
    if isinstance(value, ast.Call) and name_called(value) in ("sum", "prod", "cumsum", "cumprod"):
        return text(extended(value, dtype=single))
    return ""


def _explodes(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(op=ast.Pow(), right=exponent):
            return not (isinstance(exponent, ast.Constant) and exponent.value in range(8))
        case ast.Call():
            return name_called(node) in (*_EXPONENTIALS, "prod", "cumprod")
    return False
