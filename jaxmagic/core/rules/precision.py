"""Numbers that do not fit: sums beyond 32 bits, 64-bit data from NumPy, 64 bits asked for and not given."""

import ast
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmagic.core.failures.operands import Scope
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.exact import Exact, keeps_type
from jaxmagic.core.rules.functions_called import is_jitted
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import alias, expression, extended, text
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import name_called
from jaxmagic.records import Evidence

_REDUCTIONS = ("sum", "prod", "cumsum", "cumprod", "dot")
_GROWING = ast.Add | ast.Sub | ast.Mult | ast.Pow | ast.MatMult
_LOWEST, _HIGHEST = -(2**31), 2**31 - 1
_SMALLEST = 128
"""Each of JAX's types has the numbers from zero up to this."""
_WRAPPING = ("int32", "int16", "int8", "uint16", "uint8")
_WIDE = ("float64", "int64", "complex128", "uint64")
_SWITCH = 'jax.config.update("jax_enable_x64", True)  # first thing, before any array is made'


def is_double() -> bool:
    """Whether JAX makes 64 bits by default."""
    return jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]


def _is_narrow(observed: Observed) -> bool:
    """Whether JAX keeps 32 bits, and no code says otherwise for a part."""
    return not is_double() and not any(
        "enable_x64" in line for file in observed.files for line in source.lines_of(file)
    )


@on_cell("integer-overflow", "wrong-result", "an integer result is beyond its type's range and wraps around")
def integer_overflow(observed: Observed) -> Iterator[Cause]:
    """JAX's integers have 32 bits unless `jax_enable_x64` is set, and wrap around beyond 2,147,483,647 without an
    error. NumPy's have 64: the same sum of the same numbers may be right there and wrong here. Those of 8 and 16 bits,
    as of images and quantized weights, wrap much sooner: `img + 100`, or the difference of two images.

    Sure: the operands are known (constants, ranges, arrays that were there when the cell ended), and the exact
    result was worked out. Results of data that only the program knows are not seen. Unsigned integers of 32 bits,
    which hashes let wrap on purpose, are left alone.
    """
    narrow = _is_narrow(observed)
    for piece in ran(observed):
        exact, shapes = Exact(observed, piece), Shapes(observed, piece)
        inside: set[ast.AST] = set()
        for node in piece.own:
            if node not in inside and _may_grow(node) and isinstance(node, ast.Call | ast.BinOp):
                found = _too_big(exact, shapes, observed, piece, node)
                if found is not None and (narrow or found[1] != "int32"):
                    inside.update(ast.walk(node))
                    yield _overflow(observed, piece, node, *found)


def _may_grow(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _REDUCTIONS
        case ast.BinOp(op=op):
            return isinstance(op, _GROWING)
    return False


def _too_big(
    exact: Exact, shapes: Shapes, observed: Observed, piece: Ran, node: ast.Call | ast.BinOp
) -> tuple[int, str] | None:
    """The exact result that is farthest beyond its type, where JAX's own has that type, and the type."""
    value = exact.get(node)
    if value is None or not np.size(value):
        return None
    low, high = np.min(value), np.max(value)
    if (low >= 0 and high < _SMALLEST) or not _of_jax(shapes, observed, piece, node):
        return None
    aval = shapes.aval(node)  # last, as JAX has to trace the expression for it
    if aval is None or aval.dtype not in _WRAPPING:
        return None
    range_of = np.iinfo(aval.dtype)
    farthest = high if high > range_of.max else low if low < range_of.min else None
    return (int(farthest), aval.dtype) if farthest is not None else None


def _of_jax(shapes: Shapes, observed: Observed, piece: Ran, node: ast.AST) -> bool:
    """Whether an array of JAX's, or a function of it, has a part in an expression."""
    return any(
        (isinstance(part, ast.Name) and shapes.of_jax(part))
        or (isinstance(part, ast.Call) and dotted(observed, piece, part.func).startswith("jax."))
        for part in ast.walk(node)
    )


def _overflow(observed: Observed, piece: Ran, node: ast.Call | ast.BinOp, value: int, dtype: str) -> Cause:
    jnp = alias(Scope({}, observed.namespace), "jax.numpy")
    wide = expression(f"{jnp}.{'float32' if dtype == 'int32' else 'int32'}")
    match node:
        case ast.Call():
            word = "preferred_element_type" if name_called(node) == "dot" else "dtype"
            fixed = extended(node, **{word: wide})
        case ast.BinOp(left=ast.Constant() as left, right=right):
            fixed = ast.BinOp(left, node.op, _as(wide, right, dtype))
        case ast.BinOp(left=left, right=right):
            fixed = ast.BinOp(_as(wide, left, dtype), node.op, right)
    return Cause(
        title=f"`{' '.join(piece.text(node).split())}` overflows {dtype}: exactly it is {value:,}",
        explanation="Integers have 32 bits unless `jax_enable_x64` is set; beyond 2,147,483,647 they wrap around "
        "without an error. Single precision keeps the size and seven digits; for all digits, set "
        "`jax_enable_x64` at the top of the notebook."
        if dtype == "int32"
        else f"{dtype} holds {np.iinfo(dtype).min:,} to {np.iinfo(dtype).max:,}, a number of Python's takes the type "
        "of the array that it meets, and what is beyond wraps around without an error.",
        span=piece.span_of(node),
        fix="" if keeps_type(observed, piece) else text(fixed),
        replaces=piece.span_of(node),
    )


def _as(wide: ast.expr, node: ast.expr, dtype: str) -> ast.expr:
    return ast.Call(wide, [node], []) if dtype == "int32" else ast.Call(ast.Attribute(node, "astype"), [wide], [])


def _entries(observed: Observed) -> Iterator[tuple[Ran, ast.Call, ast.expr]]:
    """Arguments of calls of JAX's functions and of jitted ones."""
    for piece in ran(observed):
        for node in piece.own:
            if isinstance(node, ast.Call) and _takes_arrays(observed, piece, node.func):
                for argument in node.args:
                    yield piece, node, argument


def _takes_arrays(observed: Observed, piece: Ran, function: ast.expr) -> bool:
    name = dotted(observed, piece, function)
    of_jax = name.startswith(("jax.numpy.", "jax.lax.")) or name == "jax.device_put"
    return of_jax or is_jitted(observed, function)


@on_cell("integer-truncated", "wrong-result", "integers of NumPy's lose their high bits on the way into JAX")
def integer_truncated(observed: Observed) -> Iterator[Cause]:
    """NumPy's integers have 64 bits, JAX's 32 unless `jax_enable_x64` is set. An array with values beyond 2³¹ (time
    stamps, hashes, identifiers) loses its high bits on the way in, without an error; a plain Python integer of
    that size raises.

    Sure: the array's values were looked at, as they are when the cell has ended.
    """
    if not _is_narrow(observed):
        return
    for piece, call, argument in _entries(observed):
        value = _numpy_integers(Exact(observed, piece), Shapes(observed, piece), observed, piece, argument)
        if value is not None and value.size and (value.max() > _HIGHEST or value.min() < _LOWEST):
            beyond = int(value.max()) if value.max() > _HIGHEST else int(value.min())
            kept = int(np.array(beyond).astype(np.int64).astype(np.int32))
            yield Cause(
                title=f"{beyond:,} in `{piece.text(argument)}` becomes {kept:,}: JAX keeps 32 bits of {value.dtype}",
                explanation="The high bits are dropped without an error. Take differences or ranks in NumPy first, "
                "split the number in two, or set `jax_enable_x64` at the top of the notebook.",
                span=piece.span_of(call),
                evidence=(Evidence(f"{piece.text(argument)}: {value.dtype}{list(value.shape)}"),),
                fix=_SWITCH,
            )


def _numpy_integers(exact: Exact, shapes: Shapes, observed: Observed, piece: Ran, node: ast.expr) -> Any:
    if isinstance(node, ast.Constant | ast.List | ast.Tuple) or _of_jax(shapes, observed, piece, node):
        return None
    value = exact.get(node)
    wide = isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.dtype.itemsize == 8
    return value if wide else None


@on_cell("float64-truncated", "note", "double precision data from NumPy becomes single precision")
def float64_truncated(observed: Observed) -> Iterator[Cause]:
    """NumPy computes in double precision by default, JAX in single unless `jax_enable_x64` is set: seven digits of
    sixteen are kept, and numbers below 1e-7 of their neighbours vanish. For training that is as it should be; for
    finite differences, small tolerances and ill-conditioned systems it is not.

    Sure: of the types. A note only, since single precision is mostly meant.
    """
    seen: dict[str, Evidence] = {}
    first = None
    for piece, call, argument in _entries(observed) if _is_narrow(observed) else ():
        shapes = Shapes(observed, piece)
        plain = isinstance(argument, ast.Name) and not shapes.of_jax(argument) and not _names_dtype(call)
        aval = shapes.aval(argument) if plain else None
        if aval is not None and aval.dtype in ("float64", "complex128"):
            first = first or piece.span_of(call)
            shown = f"{piece.text(argument)}: {aval} in `{' '.join(piece.text(call).split())[:60]}`"
            seen.setdefault(shown, Evidence(shown, piece.span_of(call)))
    if seen:
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(shown.partition(":")[0] for shown in seen))
        yield Cause(
            title=f"double precision of {names} ends here: JAX keeps float32",
            explanation="Seven digits are kept. If the others matter, set `jax_enable_x64` at the top of the notebook, "
            "before any array is made.",
            span=first,
            evidence=tuple(seen.values())[:10],
            fix=_SWITCH,
        )


def _names_dtype(node: ast.Call) -> bool:
    converts = name_called(node) in ("asarray", "array") and len(node.args) > 1
    return converts or any(word.arg == "dtype" for word in node.keywords)


@on_cell("float64-requested", "wrong-result", "64 bits are asked for, and JAX gives 32")
def float64_requested(observed: Observed) -> Iterator[Cause]:
    """A type of 64 bits that is asked for by name becomes the one of 32 bits, with a warning that is easily
    overlooked, unless `jax_enable_x64` is set.

    Sure: the type stands in the call, and the configuration says 32 bits.
    """
    for piece in ran(observed) if _is_narrow(observed) else ():
        shapes = Shapes(observed, piece)
        for node in piece.own:
            wide = _wide_type(node) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and wide and _makes_array(observed, piece, shapes, node):
                given = str(jnp.dtype(jax.dtypes.canonicalize_dtype(wide)))
                yield Cause(
                    title=f"`{' '.join(piece.text(node).split())}` asks for {wide} and gets {given}",
                    explanation="JAX keeps 32 bits unless `jax_enable_x64` is set, at the top of the notebook and "
                    "before any array is made.",
                    span=piece.span_of(node),
                    fix=_SWITCH,
                )


def _wide_type(node: ast.Call) -> str:
    given = [keyword.value for keyword in node.keywords if keyword.arg == "dtype"]
    given += node.args if isinstance(node.func, ast.Attribute) and node.func.attr == "astype" else []
    for each in given:
        name = each.value if isinstance(each, ast.Constant) else getattr(each, "attr", "")
        if name in _WIDE:
            return name
    return ""


def _makes_array(observed: Observed, piece: Ran, shapes: Shapes, node: ast.Call) -> bool:
    if isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
        return shapes.of_jax(node.func.value) or _of_jax(shapes, observed, piece, node.func.value)
    return dotted(observed, piece, node.func).startswith(("jax.numpy.", "jax.random.", "jax.nn."))
