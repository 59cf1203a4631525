"""What an expression was when it failed, found from its frame without running any code of the user's."""

import ast
import builtins
import operator
import types
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Self

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxmagic.core.lines import values
from jaxmagic.core.lines.attributes import MISSING, attribute, class_attribute, module_of
from jaxmagic.core.lines.containers import children
from jaxmagic.records import Aval


class UnknownError(Exception):
    """The value of an expression can't be told without running the user's code."""


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_UNARY: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}
_NUMBERS = (int, float, complex, bool)
_EXPLOSIVE = (operator.pow, operator.lshift)
_BUILTINS = (len, abs, int, float, bool, min, max, tuple, list)
STATIC_FIELDS = ("shape", "dtype", "ndim", "size", "weak_type")
_JITTED = type(jax.jit(abs))
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, _JITTED, type(jnp.add), type(jax.nn.relu))
_PURE_MODULES = ("numpy", "lax", "nn", "random", "scipy", "image")
"""Of JAX: the others hold functions with effects of their own (`jax.clear_caches`)."""


def is_tracer(value: object) -> bool:
    return isinstance(value, jax.core.Tracer)


def is_array(value: object) -> bool:
    return isinstance(value, jax.Array | jax.core.Tracer | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def aval_of(value: object) -> Aval | None:
    """The abstract value of an array, a tracer, a `ShapeDtypeStruct` or a Flax variable; None for anything else."""
    if isinstance(value, jax.ShapeDtypeStruct):
        return values.aval_from(value)
    found, hidden = values.leaves(value, 1, most=2)
    return found[0].aval if found and not found[0].path and not hidden else None


class Scope:
    """The names a frame sees, and the values of pure expressions over them.

    Compound array expressions are evaluated abstractly (`jax.eval_shape` on shapes and dtypes), so that nothing
    is staged into a dead trace and nothing is computed. Properties, operators and functions of the user's own
    classes are never called.
    """

    def __init__(self, local: Mapping[str, Any], shared: Mapping[str, Any]) -> None:
        self.locals = local
        self.globals = shared

    @classmethod
    def of(cls, frame: types.FrameType) -> Self:
        """What a frame saw when it was left."""
        return cls(dict(frame.f_locals), frame.f_globals)

    def name(self, name: str) -> Any:
        for names in (self.locals, self.globals, vars(builtins)):
            if name in names:
                return _unwrapped(names[name])
        raise UnknownError(name)

    def value(self, node: ast.AST) -> Any:
        """The value of a pure expression; compound arrays come as `jax.ShapeDtypeStruct`.

        Raises:
            UnknownError: where only running the user's code could tell.
        """
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.name(name)
            case ast.Attribute(value=owner, attr=name):
                return _attribute(self.value(owner), name)
            case ast.Subscript(value=owner, slice=key):
                return _item(self.value(owner), self.value(key))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self.value(part) for part in parts)
            case ast.Slice(lower=lower, upper=upper, step=step):
                return slice(*(part and self.value(part) for part in (lower, upper, step)))
            case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._operate(op, left, right)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                return _apply(_UNARY[type(op)], self.value(operand))
            case ast.Call():
                return self._call(node)
        raise UnknownError(ast.dump(node)[:80])

    def get(self, node: ast.AST | None, default: Any = None) -> Any:
        """`value`, or `default` where it can't be told."""
        try:
            return default if node is None else self.value(node)
        except UnknownError:
            return default

    def aval(self, node: ast.AST) -> Aval | None:
        return aval_of(self.get(node))

    def traced(self, node: ast.AST) -> bool:
        """Whether a tracer has a part in the expression (static facts of tracers, like `x.shape`, have none)."""
        match node:
            case ast.Attribute(attr=name) if name in STATIC_FIELDS:
                return False
            case ast.Call(func=ast.Name(id="len" | "isinstance" | "type" | "hasattr")):
                return False
            case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
                return False
            case ast.Lambda() | ast.FunctionDef():
                return False
            case ast.Name() | ast.Attribute() | ast.Subscript() if is_tracer(self.get(node)):
                return True
        return any(self.traced(child) for child in ast.iter_child_nodes(node))

    def _operate(self, op: ast.AST, left: ast.expr, right: ast.expr) -> Any:
        if type(op) not in _BINARY:
            raise UnknownError(type(op).__name__)
        return _apply(_BINARY[type(op)], self.value(left), self.value(right))

    def _call(self, node: ast.Call) -> Any:
        args = [self.value(arg) for arg in node.args]
        kwargs = {keyword.arg: self.value(keyword.value) for keyword in node.keywords if keyword.arg}
        if len(kwargs) < len(node.keywords):
            raise UnknownError("**")
        if isinstance(node.func, ast.Attribute):
            owner = self.get(node.func.value)
            if is_array(owner):
                return _apply(_method(node.func.attr), owner, *args, **kwargs)
        function = self.value(node.func)
        if of_jax(function) or any(function is known for known in _BUILTINS):
            return _apply(function, *args, **kwargs)
        raise UnknownError("a call of a user function")


def _method(name: str) -> Callable[..., Any]:
    return lambda array, *args, **kwargs: getattr(array, name)(*args, **kwargs)


def of_jax(function: object) -> bool:
    """Whether it is one of JAX's own array functions: safe to call on abstract values."""
    if type(function) is type(jnp.float32):
        return True
    if not isinstance(function, _FUNCTIONS):
        return False
    package, *path = (getattr(function, "__module__", None) or "").split(".")
    return package == "jax" and (path[1:] if path[:1] == ["_src"] else path)[:1] in [[name] for name in _PURE_MODULES]


def _attribute(owner: Any, name: str) -> Any:
    """An attribute that is stored data, never a property or `__getattr__` of a user's class."""
    if isinstance(owner, types.ModuleType):
        fields = vars(owner)
        return fields[name] if name in fields else _lazy_attribute(owner, name)
    if is_array(owner):
        return getattr(owner, name) if name in STATIC_FIELDS else _apply(lambda array: getattr(array, name), owner)
    named = class_attribute(type(owner), "_fields")
    if isinstance(owner, tuple) and type(named) is tuple and name in named:
        return tuple.__getitem__(owner, named.index(name))
    held = attribute(owner, name)
    if held is MISSING:
        held = class_attribute(type(owner), name)
        if isinstance(held, staticmethod):
            return held.__func__
        if isinstance(held, types.FunctionType | _JITTED):
            return types.MethodType(held, owner)
        if held is not MISSING and class_attribute(type(held), "__get__") is not MISSING:
            raise UnknownError(name)
    if held is MISSING:
        raise UnknownError(name)
    return _unwrapped(held)


def _unwrapped(value: Any) -> Any:
    """The array in a Flax variable; anything else as it is."""
    if not module_of(type(value)).startswith("flax"):
        return value
    inside = list(islice(children(value, lambda cls: False) or (), 2))
    return inside[0][1] if len(inside) == 1 and not inside[0][0] else value


def _lazy_attribute(module: types.ModuleType, name: str) -> Any:
    """JAX's own modules load some names on demand; other modules' `__getattr__` is not called."""
    if module.__name__.split(".")[0] == "jax" and hasattr(module, name):
        return getattr(module, name)
    raise UnknownError(name)


def _item(owner: Any, key: Any) -> Any:
    if is_array(owner):
        return _apply(operator.getitem, owner, key)
    base = next((kind for kind in (dict, list, tuple) if isinstance(owner, kind)), None)
    if base is None or not isinstance(key, (*_NUMBERS, str, slice)):
        raise UnknownError("[]")
    try:
        return base.__getitem__(owner, key)  # pyright: ignore[reportArgumentType, reportCallIssue]
    except (LookupError, TypeError) as error:
        raise UnknownError(str(error)) from None


def _apply(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a function of Python's or JAX's own on plain values, abstractly where one of them is an array."""
    if not all(_plain(value) for value in (*args, *kwargs.values())):
        raise UnknownError("not plain data")
    leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=lambda value: value is None)
    spots = [index for index, leaf in enumerate(leaves) if is_array(leaf)]
    if not spots and (function in _EXPLOSIVE or any(isinstance(leaf, str) for leaf in leaves)):
        raise UnknownError("not evaluated")
    abstract = spots or of_jax(function)

    def run(arrays: list[Any]) -> Any:
        filled = list(leaves)
        for spot, array in zip(spots, arrays, strict=True):
            filled[spot] = array
        args, kwargs = jax.tree.unflatten(tree, filled)
        return function(*args, **kwargs)

    try:
        return jax.eval_shape(run, [_spec(leaves[spot]) for spot in spots]) if abstract else function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the expression may be the very one that fails
        raise UnknownError(str(error)[:80]) from None


def _plain(value: Any) -> bool:
    if type(value) in (tuple, list):
        return all(_plain(part) for part in value)
    if type(value) is dict:
        return all(_plain(part) for part in value.values())
    if type(value) is slice:
        return all(type(part) is int or part is None for part in (value.start, value.stop, value.step))
    constants = isinstance(value, str | np.dtype) or value is None or value is Ellipsis
    return constants or type(value) in _NUMBERS or is_array(value) or _dtype_like(value)


def _dtype_like(value: Any) -> bool:
    return type(value) is type(jnp.float32) or (isinstance(value, type) and issubclass(value, np.generic | int | float))


def _spec(array: Any) -> jax.ShapeDtypeStruct:
    weak = bool(getattr(getattr(array, "aval", array), "weak_type", False))
    return jax.ShapeDtypeStruct(array.shape, array.dtype, weak_type=weak)
