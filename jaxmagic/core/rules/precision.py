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
from jaxmagic.core.rules.exact import Exact
from jaxmagic.core.rules.functions_called import is_jitted
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import alias, text
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.core.source import spans as source
from jaxmagic.records import Evidence

_REDUCTIONS = ("sum", "prod", "cumsum", "cumprod")
_GROWING = ast.Add | ast.Sub | ast.Mult | ast.Pow
_LOWEST, _HIGHEST = -(2**31), 2**31 - 1
_WIDE = ("float64", "int64", "complex128", "uint64")
_SWITCH = 'jax.config.update("jax_enable_x64", True)  # first thing, before any array is made'


def _is_narrow(observed: Observed) -> bool:
    """Whether JAX keeps 32 bits, and no code says otherwise for a part."""
    wide = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
    return not wide and not any("enable_x64" in line for file in observed.files for line in source.lines_of(file))


@on_cell("integer-overflow", "wrong-result", "an integer result is beyond 32 bits and wraps around")
def integer_overflow(observed: Observed) -> Iterator[Cause]:
    """JAX's integers have 32 bits unless `jax_enable_x64` is set, and wrap around beyond 2,147,483,647 without an
    error. NumPy's have 64: the same sum of the same numbers may be right there and wrong here.

    Sure: the operands are known (constants, ranges, arrays that were there when the cell ended), and the exact
    result was worked out. Results of data that only the program knows are not seen. Unsigned integers, which
    hashes let wrap on purpose, are left alone.
    """
    for piece in ran(observed) if _is_narrow(observed) else ():
        exact, shapes = Exact(observed, piece), Shapes(observed, piece)
        inside: set[ast.AST] = set()
        for node in piece.own:
            if node not in inside and _may_grow(node) and isinstance(node, ast.Call | ast.BinOp):
                value = _too_big(exact, shapes, observed, piece, node)
                if value is not None:
                    inside.update(ast.walk(node))
                    yield _overflow(observed, piece, node, value)


def _may_grow(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _REDUCTIONS
        case ast.BinOp(op=op):
            return isinstance(op, _GROWING)
    return False


def _too_big(
    exact: Exact, shapes: Shapes, observed: Observed, piece: Ran, node: ast.Call | ast.BinOp
) -> int | float | None:
    """The exact result that is farthest beyond 32 bits, where JAX's own has type int32."""
    value = exact.get(node)
    if value is None or not np.size(value):
        return None
    low, high = np.min(value), np.max(value)
    farthest = high if high > _HIGHEST else low if low < _LOWEST else None
    if farthest is None or not _of_jax(shapes, observed, piece, node):
        return None
    aval = shapes.aval(node)  # last, as JAX has to trace the expression for it
    return int(farthest) if aval is not None and aval.dtype == "int32" else None


def _of_jax(shapes: Shapes, observed: Observed, piece: Ran, node: ast.AST) -> bool:
    """Whether an array of JAX's, or a function of it, has a part in an expression."""
    return any(
        (isinstance(part, ast.Name) and shapes.of_jax(part))
        or (isinstance(part, ast.Call) and dotted(observed, piece, part.func).startswith("jax."))
        for part in ast.walk(node)
    )


def _overflow(observed: Observed, piece: Ran, node: ast.Call | ast.BinOp, value: int | float) -> Cause:
    single = f"{alias(Scope({}, observed.namespace), 'jax.numpy')}.float32"
    if isinstance(node, ast.Call):
        dtype = ast.keyword("dtype", ast.parse(single, mode="eval").body)
        fix = text(ast.Call(node.func, node.args, [*node.keywords, dtype]))
    else:
        left = ast.Call(ast.parse(single, mode="eval").body, [node.left], [])
        fix = text(ast.BinOp(left, node.op, node.right))
    return Cause(
        title=f"`{' '.join(piece.text(node).split())}` overflows int32: exactly it is {value:,}",
        explanation="Integers have 32 bits unless `jax_enable_x64` is set; beyond 2,147,483,647 they wrap around "
        "without an error. Single precision keeps the size and seven digits; for all digits, set "
        "`jax_enable_x64` at the top of the notebook.",
        span=piece.span_of(node),
        fix=fix,
        replaces=piece.span_of(node),
    )


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
        aval = shapes.aval(argument) if isinstance(argument, ast.Name) and not shapes.of_jax(argument) else None
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
        return isinstance(node.func.value, ast.Name) and shapes.of_jax(node.func.value)
    return dotted(observed, piece, node.func).startswith(("jax.numpy.", "jax.random.", "jax.nn."))
