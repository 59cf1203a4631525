"""Half precision that is lost on the way: an operand of a wider type, which nobody asked for, widens the result."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from jaxmagic.core.failures.operands import Scope
from jaxmagic.core.rules.broadcasting import elementwise_operands
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.precision import is_double
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import alias, call, expression, extended, replaced, text
from jaxmagic.core.rules.scopes import assigned, attribute_values, binder, class_of
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.core.source.nodes import loaded, name_called, path_to
from jaxmagic.records import Aval, Evidence

_HALVES = ("bfloat16", "float16")
_WIDE = ("float32", "float64")
_UFUNCS = ("sqrt", "cbrt", "exp", "exp2", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "reciprocal")
_TABLES = ("linspace", "logspace", "ones", "zeros", "eye", "hanning", "hamming")
_DRAWS = ("normal", "uniform", "truncated_normal", "gumbel", "exponential", "laplace", "cauchy", "logistic", "beta")
_CASTS = ("astype", "asarray", "array", "convert_element_type")
_DEEPEST = 6


class _Wide(NamedTuple):
    """An operand that widens a result."""

    kind: str
    """`scalar` or `array` of NumPy's; `typed`, a number with a dtype of JAX's; `made` by JAX with its usual dtype;
    `half`, the other half precision."""
    dtype: str
    made: ast.Call | None = None
    """What made it, where that call is the operand or a part of it."""


@on_cell(
    "promoted", "slow", "half precision becomes float32 because of a NumPy number or an array made without a dtype"
)
def promoted(observed: Observed) -> Iterator[Cause]:
    """A number of Python's takes the dtype of the array that it meets. One of NumPy's, `np.sqrt(d)` or
    `np.float32(0.5)`, has a dtype of its own, and so has an array that was made without naming one: `jnp.ones(n)`,
    `jax.random.normal(key, shape)`. With bfloat16 or float16 they give float32, silently, and so does all that
    follows: twice the memory, and the matrix units of half precision are left. With `jax_enable_x64`, a NumPy number
    makes float64 of float32 in the same way.

    Sure: of the types. Where JAX made the operand, it may be meant: possible only. An expression whose result is cast
    is not reported.
    """
    seen: dict[str, set[str]] = {}
    for hint in observed.hints:
        seen.setdefault(hint.span.file, set()).update(leaf.aval.dtype for leaf in hint.leaves)
    for piece in ran(observed):
        narrow, shapes = _narrow(observed, piece, seen.get(piece.file, set())), Shapes(observed, piece)
        for node in piece.own if narrow else ():
            sides = _operands(observed, piece, node)
            cause = _promotion(observed, piece, shapes, narrow, node, sides) if sides is not None else None
            if cause is not None:
                yield cause


def _narrow(observed: Observed, piece: Ran, seen: set[str]) -> tuple[str, ...]:
    """The types that should not be widened, of those seen in the file and of the arrays that a piece reads."""
    looked_for = (*_HALVES, "float32") if is_double() else _HALVES
    values = [observed.namespace.get(name) for name in loaded(piece.node)]
    known = seen.union(str(value.dtype) for value in values if isinstance(value, jax.Array))
    return tuple(dtype for dtype in looked_for if dtype in known)


def _operands(observed: Observed, piece: Ran, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    match node:
        case ast.AugAssign(target=left, value=right) | ast.BinOp(left=left, op=ast.MatMult(), right=right):
            return left, right
        case ast.Call(func=ast.Attribute(attr="where"), args=[_, left, right]):
            return (left, right) if dotted(observed, piece, node.func) == "jax.numpy.where" else None
        case ast.BinOp() | ast.Call():
            return elementwise_operands(observed, piece, node)
    return None


def _promotion(
    observed: Observed,
    piece: Ran,
    shapes: Shapes,
    narrow: tuple[str, ...],
    node: ast.AST,
    sides: tuple[ast.expr, ast.expr],
) -> Cause | None:
    for half, other in (sides, sides[::-1]):
        aval = shapes.aval(half) if shapes.of_jax(half) else None
        if aval is None or aval.dtype not in narrow or aval.weak:
            continue
        wide = _wide(observed, piece, other) or _other_half(shapes, other, aval)
        if wide is not None and _widens(wide, aval) and not _is_cast(observed, piece, node):
            return _cause(observed, piece, node, half, aval, other, wide)
    return None


def _widens(wide: _Wide, aval: Aval) -> bool:
    if aval.dtype == "float32":
        return wide.kind == "scalar" and wide.dtype == "float64"
    return wide.dtype != aval.dtype


def _other_half(shapes: Shapes, node: ast.expr, aval: Aval) -> _Wide | None:
    """bfloat16 and float16 have nothing narrower in common than float32."""
    other = shapes.aval(node)
    mixed = other is not None and other.dtype in _HALVES and not other.weak and aval.dtype in _HALVES
    return _Wide("half", other.dtype) if mixed and other is not None else None


# ------------------------------------------------------------------------------------------------ the operand


def _wide(observed: Observed, piece: Ran, node: ast.expr, depth: int = 0) -> _Wide | None:
    """What makes an operand wide, where nobody asked for it."""
    if depth > _DEEPEST:
        return None
    match node:
        case ast.Name(id=name):
            return _named(observed, piece, name, depth)
        case ast.Attribute(value=ast.Call(args=[of]) as made) if _is_finfo(observed, piece, made):
            dtype = dotted(observed, piece, of).rpartition(".")[2]
            return _Wide("scalar", dtype, made) if dtype in _WIDE else None
        case ast.Attribute():
            return _held(observed, piece, node, depth)
        case ast.UnaryOp(operand=operand):
            return _wide(observed, piece, operand, depth + 1)
        case ast.BinOp(left=left, right=right):
            return _combined(observed, piece, [left, right], depth)
        case ast.Subscript(value=owner):
            inner = _wide(observed, piece, owner, depth + 1)
            return inner._replace(made=None) if inner is not None else None
        case ast.Call():
            return _called(observed, piece, node, depth)
    return None


def _named(observed: Observed, piece: Ran, name: str, depth: int) -> _Wide | None:
    """A variable of the function itself, of one around it, or of the notebook."""
    owner = piece if name in piece.local else binder(piece, name)
    if owner is None and not isinstance(piece.node, ast.Module):
        return _of_value(observed.namespace.get(name))
    values = assigned(owner or piece, name)
    inner = _wide(observed, owner or piece, values[0], depth + 1) if len(values) == 1 else None
    return inner._replace(made=None) if inner is not None else None


def _is_finfo(observed: Observed, piece: Ran, made: ast.Call) -> bool:
    return dotted(observed, piece, made.func) in ("jax.numpy.finfo", "numpy.finfo")


def _held(observed: Observed, piece: Ran, node: ast.Attribute, depth: int) -> _Wide | None:
    """A number that an object keeps: as the methods of its class set it, or by its value."""
    owner = class_of(piece)
    if owner is None or not isinstance(node.value, ast.Name) or node.value.id != "self":
        return _of_value(Scope({}, observed.namespace).get(node))
    given = attribute_values(owner, node.attr)
    around = path_to(owner, given[0])[1:] if len(given) == 1 else []
    setter = next((outer for outer in around if isinstance(outer, ast.FunctionDef)), None)
    if setter is None:
        return None
    inner = _wide(observed, Ran(piece.file, setter, setter.name, ()), given[0], depth + 1)
    return inner._replace(made=None) if inner is not None else None


def _of_value(value: object) -> _Wide | None:
    if isinstance(value, np.ndarray | np.generic) and str(value.dtype) in _WIDE:
        return _Wide("array" if value.ndim else "scalar", str(value.dtype))
    return None


def _combined(observed: Observed, piece: Ran, sides: list[ast.expr], depth: int) -> _Wide | None:
    """Of an operation on it and on numbers of Python's or NumPy's."""
    found = [_wide(observed, piece, side, depth + 1) for side in sides]
    shapes = Shapes(observed, piece)
    if any(one is None and shapes.aval(side) is not None for one, side in zip(found, sides, strict=True)):
        return None
    kinds = {one.kind: one for one in found if one is not None}
    return next((kinds[kind] for kind in ("made", "array", "scalar") if kind in kinds), None)


def _called(observed: Observed, piece: Ran, node: ast.Call, depth: int) -> _Wide | None:
    if isinstance(node.func, ast.Attribute) and node.func.attr == "astype" and len(node.args) == 1:
        inner = _wide(observed, piece, node.func.value, depth + 1)
        dtype = dotted(observed, piece, node.args[0]).rpartition(".")[2]
        numpys = inner is not None and inner.kind in ("scalar", "array") and dtype in _WIDE
        return inner._replace(dtype=dtype) if numpys and inner is not None else None
    package, _, function = dotted(observed, piece, node.func).rpartition(".")
    asked = any(word.arg == "dtype" for word in node.keywords)
    if package == "numpy":
        return _of_numpy(observed, piece, node, function, depth)
    if package == "numpy.random" and not asked:
        return _Wide("array" if node.args or node.keywords else "scalar", "float64")
    if package == "jax.numpy" and function in _WIDE and len(node.args) == 1:
        return _Wide("typed", "float32", node) if isinstance(node.args[0], ast.Constant) else None
    if asked or (package == "jax.numpy" and function in _UFUNCS):
        inner = _wide(observed, piece, node.args[0], depth + 1) if node.args and not asked else None
        return inner._replace(made=None) if inner is not None else None
    by_default = (package == "jax.random" and function in _DRAWS and len(node.args) < 3) or (
        package == "jax.numpy" and _is_table(function, node)
    )
    return _Wide("made", "float32", node) if by_default and not is_double() else None


def _of_numpy(observed: Observed, piece: Ran, node: ast.Call, function: str, depth: int) -> _Wide | None:
    """A number or an array of NumPy's: double precision, unless it is asked for another."""
    if function in _WIDE:
        return _Wide("scalar", function, node)
    asked = next((word.value for word in node.keywords if word.arg == "dtype"), None)
    dtype = "float64" if asked is None else dotted(observed, piece, asked).rpartition(".")[2] or _constant(asked)
    if dtype not in _WIDE:
        return None
    if function in _UFUNCS and node.args:
        inner, aval = _wide(observed, piece, node.args[0], depth + 1), Shapes(observed, piece).aval(node.args[0])
        return inner or _Wide("array" if aval is not None and aval.shape else "scalar", dtype)
    return _Wide("array", dtype) if _is_table(function, node) else None


def _is_table(function: str, node: ast.Call) -> bool:
    """Whether a call makes an array of floating point numbers by default, and no weakly typed one."""
    if function in ("array", "asarray", "arange"):
        several = function == "arange" or isinstance(node.args[0] if node.args else None, ast.List | ast.Tuple)
        given = [part.value for arg in node.args for part in ast.walk(arg) if isinstance(part, ast.Constant)]
        return several and any(isinstance(value, float) for value in given)
    return function in _TABLES and len(node.args) == 1


def _constant(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


# ------------------------------------------------------------------------------------------------- the result


def _is_cast(observed: Observed, piece: Ran, node: ast.AST) -> bool:
    """Whether the result is given another type, at once or by the name that it got."""
    around = path_to(piece.node, node)
    if any(_casts(outer) for outer in around[1:]):
        return True
    names = [
        target.id
        for outer in around
        if isinstance(outer, ast.Assign | ast.AugAssign)
        for target in (outer.targets if isinstance(outer, ast.Assign) else [outer.target])
        if isinstance(target, ast.Name)
    ]
    return any(_casts(part) and loaded(part).intersection(names) for part in piece.own)


def _casts(node: ast.AST) -> bool:
    """`x.astype(…)`, `jnp.asarray(x, …)`, `jax.lax.convert_element_type(x, …)`."""
    if not isinstance(node, ast.Call) or name_called(node) not in _CASTS:
        return False
    return name_called(node) == "astype" or len(node.args) > 1 or any(word.arg == "dtype" for word in node.keywords)


def _cause(
    observed: Observed, piece: Ran, node: ast.AST, half: ast.expr, aval: Aval, other: ast.expr, wide: _Wide
) -> Cause:
    shown, operand = " ".join(piece.text(node).split()), " ".join(piece.text(other).split())
    result = "float64" if aval.dtype == "float32" else "float32"
    fixed = replaced(node, other, _narrowed(observed, half, aval, other, wide))
    return Cause(
        title=f"`{shown}` is {result}, not {aval.dtype}: `{operand}` is {_described(wide)}",
        explanation=f"{_WHY[wide.kind]} What follows is {result} too, with twice the memory.",
        span=piece.span_of(node),
        evidence=(
            Evidence(f"{' '.join(piece.text(half).split())}: {aval}", piece.span_of(half)),
            Evidence(f"{operand}: {_described(wide)}", piece.span_of(other)),
        ),
        fix=text(fixed),
        replaces=piece.span_of(node),
        sure=wide.kind not in ("made", "typed"),
    )


_WHY = {
    "scalar": "A number of Python's takes the dtype of the array; one of NumPy's has its own, and the wider wins.",
    "typed": "A number of Python's takes the dtype of the array; this one has its own, and the wider wins.",
    "array": "Arrays of different dtypes give the wider of both.",
    "made": "JAX makes it float32 unless a dtype is named, and the wider of two dtypes wins; that may be meant.",
    "half": "The two half precisions have different ranges, and only float32 holds both.",
}


def _described(wide: _Wide) -> str:
    return {
        "scalar": f"a NumPy {wide.dtype}",
        "array": f"a NumPy array of {wide.dtype}",
        "typed": "made float32",
        "made": "float32 by default",
        "half": wide.dtype,
    }[wide.kind]


def _narrowed(observed: Observed, half: ast.expr, aval: Aval, other: ast.expr, wide: _Wide) -> ast.expr:
    """The operand without its wide type."""
    jnp = alias(Scope({}, observed.namespace), "jax.numpy")
    named = isinstance(half, ast.Name | ast.Attribute)
    dtype = ast.Attribute(half, "dtype") if named else expression(f"{jnp}.{aval.dtype}")
    match wide.kind, wide.made:
        case "scalar", ast.Call(func=ast.Attribute(attr="finfo")) as made:
            return replaced(other, made, ast.Call(made.func, [dtype], []))
        case "scalar" | "typed", ast.Call(args=[ast.Constant() as number]) as made:
            return replaced(other, made, number)
        case "scalar", _:
            return call("float", other)
        case "array", _:
            return call(f"{jnp}.asarray", other, dtype)
        case "made", ast.Call() as made:
            return replaced(other, made, extended(made, dtype=dtype))
    return ast.Call(ast.Attribute(other, "astype"), [dtype], [])
