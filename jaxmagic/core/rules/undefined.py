"""What an equation did when it gave a NaN or an infinity, in words: `0 / 0`, the logarithm of 0, an overflow."""

import ast
import math

from jaxmagic.core.nonfinite.origins import Making, Value
from jaxmagic.core.rules.spots import Spot, operation_of

_LARGEST = {"float16": "65504", "bfloat16": "3.4e+38", "float32": "3.4e+38", "float64": "1.8e+308"}
_SAID = {
    "div": "{0} / {1}",
    "rem": "{0} % {1}",
    "mul": "{0} * {1}",
    "sub": "{0} - {1}",
    "add": "{0} + {1}",
    "add_any": "{0} + {1}",
    "pow": "{0} ** {1}",
    "convert_element_type": "{0} as {dtype}",
    "cholesky": "the Cholesky factor of a matrix that is not positive definite",
    "exp": "exp({0})",
    "exp2": "exp2({0})",
    "expm1": "expm1({0})",
    "sinh": "sinh({0})",
    "cosh": "cosh({0})",
    "integer_pow": "a power of {0}",
    "square": "the square of {0}",
    "log": "the logarithm of {0}",
    "log1p": "log1p of {0}",
    "sqrt": "the square root of {0}",
    "rsqrt": "1 / sqrt of {0}",
    "acos": "arccos of {0}",
    "asin": "arcsin of {0}",
    "atanh": "arctanh of {0}",
    "acosh": "arccosh of {0}",
    "erf_inv": "erfinv of {0}",
    "lgamma": "log-gamma of {0}",
    "digamma": "digamma of {0}",
    "tan": "tan of {0}",
    "custom_linear_solve": "the solution of a singular system",
    "triangular_solve": "the solution of a singular system",
    "pure_callback": "what the host returned",
    "io_callback": "what the host returned",
}
_SUMS = {
    "reduce_sum": "a sum",
    "cumsum": "a running sum",
    "dot_general": "a sum of products",
    "reduce_prod": "a product",
    "cumprod": "a running product",
}
_GROWING = ("exp", "exp2", "expm1", "sinh", "cosh", "integer_pow", "square")
_OWN = {
    "sqrt": ("sqrt",),
    "rsqrt": ("rsqrt",),
    "log": ("log",),
    "log1p": ("log1p",),
    "log2": ("log", "div"),
    "log10": ("log", "div"),
    "exp": ("exp",),
    "arccos": ("acos",),
    "arcsin": ("asin",),
    "arctanh": ("atanh",),
    "arccosh": ("acosh",),
    "arctan2": ("atan2",),
    "erfinv": ("erf_inv",),
    "/": ("div",),
    "*": ("mul",),
    "-": ("sub", "neg"),
    "+": ("add", "add_any"),
    "%": ("rem", "select_n"),
    "@": ("dot_general",),
    "norm": ("sqrt", "mul", "reduce_sum", "integer_pow", "square", "abs", "reduce_max", "pow"),
}
"""The primitives that compute an operation itself; any other at its place computes a derivative of it."""


def is_derivative(making: Making, spot: Spot | None) -> bool:
    """Whether an equation is one that nobody wrote: of a backward pass, or of a derivative kept for it."""
    if making.transposed:
        return True
    if not making.differentiated or spot is None:
        return False
    if is_of_root(making):
        return True
    own = _OWN.get(spot.operation)
    if spot.operation == "**" and making.primitive == "pow":
        exponent = spot.scope.get(spot.parts[-1])
        if isinstance(exponent, int | float):
            return making.operands[-1].there != exponent
        return making.only_derivative
    return making.primitive not in own if own is not None else making.only_derivative


def is_own(making: Making, spot: Spot) -> bool:
    """Whether an equation is the operation that its expression names."""
    return computes(spot.node, making.primitive)


def computes(node: ast.AST, primitive: str) -> bool:
    """Whether an expression's own operation is this primitive."""
    operation = operation_of(node)
    return primitive == operation or primitive in _OWN.get(operation, ())


def is_of_root(making: Making) -> bool:
    """`0.5 / sqrt(x)`, as JAX differentiates a square root."""
    return making.primitive == "div" and making.operands[0].there == 0.5 and making.operands[1].there == 0


def said(making: Making) -> str:
    """`0 / 0`, `the logarithm of -1`, `exp(100)`: what was computed."""
    values = making.operands
    if making.primitive in _SUMS and values:
        infinite = any(value.inf for value in values)
        return f"{_SUMS[making.primitive]} of {'values with infinities' if infinite else 'values ' + _range(values[0])}"
    pattern = _SAID.get(making.primitive, f"what `{making.primitive}` computes")
    shown = [_shown(value) for value in values]
    if making.primitive == "pow" and shown[0].startswith("-"):
        shown[0] = f"({shown[0]})"
    return pattern.format(*shown, dtype=making.dtype)


def overflows(making: Making) -> bool:
    """Whether an infinity is there because the result is too large, and not by a division by zero or a logarithm."""
    if making.kind != "inf":
        return False
    if making.primitive in _GROWING or making.primitive in ("convert_element_type", "cumprod", "reduce_prod"):
        return making.primitive != "integer_pow" or making.operands[0].there != 0
    if making.primitive in ("div", "pow"):
        return making.operands[1 if making.primitive == "div" else 0].there != 0
    return making.primitive in ("mul", "add", "sub", "reduce_sum", "dot_general", "cumsum", "add_any")


def largest(making: Making) -> str:
    """`The largest float16 is 65504.`"""
    known = _LARGEST.get(making.dtype)
    return f"The largest {making.dtype} is {known}." if known else f"{making.dtype} has no number as large."


def _shown(value: Value) -> str:
    if value.there is not None:
        return number(value.there)
    return _range(value) or "?"


def _range(value: Value) -> str:
    if value.least is None or value.greatest is None:
        return "that are all infinite" if value.inf else ""
    if value.least == value.greatest:
        return f"{number(value.least)}"
    return f"from {number(value.least)} to {number(value.greatest)}"


def number(value: complex | float) -> str:
    """A number as short as it can be read.

    Example:
        >>> number(0.30000001192092896)
        '0.3'
    """
    if isinstance(value, complex):
        return f"{value:.4g}"
    if math.isnan(value):
        return "nan"
    close_to_one = 0 < abs(abs(value) - 1) < 1e-3
    return "0" if value == 0 else f"{value:.8g}" if close_to_one else f"{value:.4g}"


def operand_line(value: Value, text: str) -> str:
    """Evidence of what an operand was: `x: -1 there; f32[3], from -1 to 6`."""
    parts = [f"{text}: {number(value.there)} there"] if value.there is not None and value.aval.shape else []
    if value.there is not None and not value.aval.shape:
        return f"{text} = {number(value.there)} ({value.aval})"
    known = [str(value.aval), _range(value)]
    known += [f"{value.zero:,} zero{'s' * (value.zero > 1)}"] if value.zero else []
    known += [f"{value.inf:,} infinite"] if value.inf else []
    known += [f"{value.nan:,} NaN"] if value.nan else []
    detail = ", ".join(filter(None, known))
    return f"{parts[0]}; {detail}" if parts else f"{text}: {detail}"
