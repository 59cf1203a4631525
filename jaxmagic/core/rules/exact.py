"""Small integer expressions worked out exactly, with NumPy and Python instead of JAX: indices, sums, array sizes."""

import ast
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from jaxmagic.core.failures.operands import UnknownError, is_tracer
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.functions_called import function_behind
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.core.source.nodes import name_called
from jaxmagic.core.source.syntax import definition

MOST = 1_000_000
"""Elements of an array that are looked at."""

_DEEPEST = 20
_MOST_PASSES = 200
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: _power(a, b),
    ast.MatMult: lambda a, b: _product(a, b),
}
_MAKE = ("arange", "array", "asarray", "full", "abs", "square", "reshape", "ravel", "maximum", "minimum")
_VALUES = {"array": 1, "asarray": 1, "full": 2}
"""How many arguments come before a dtype."""
_REDUCE = ("sum", "prod", "cumsum", "cumprod", "max", "min", "dot")
_FAILS = (UnknownError, ValueError, TypeError, ArithmeticError, IndexError, AttributeError)
"""What working out an expression raises, for the user's may well be wrong."""
_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


class Exact:
    """The values of names and expressions in one piece of code, where they can be told without running it.

    A variable of a loop over a `range` has all of its values at once, in an array.
    """

    def __init__(
        self,
        observed: Observed,
        piece: Ran,
        depth: int = 0,
        site: tuple[Ran, ast.Call] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        """Of one call of the function, or of the only one; where it is known, what names were given in it."""
        self._observed = observed
        self._piece = piece
        self._depth = depth
        self._site = site
        self._given = given or {}
        self._open: set[str] = set()

    def get(self, node: ast.AST | None) -> Any:
        """An `int`, a tuple of them or an integer array; None where it can't be told."""
        try:
            found = None if node is None else self.value(node)
        except _FAILS:
            return None
        return found

    def value(self, node: ast.AST) -> Any:
        """The value of an expression.

        Raises:
            UnknownError: It depends on what only the program itself knows.
        """
        match node:
            case ast.Constant(value=bool() | int() as value):
                return int(value)
            case ast.Name(id=name):
                return self._name(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self.value(part) for part in parts)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -_number(self.value(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return _small(_BINARY[type(op)](_number(self.value(left)), _number(self.value(right))))
            case ast.Subscript(value=ast.Attribute(attr="shape", value=array), slice=axis):
                return self._shape(array)[self.value(axis)]
            case ast.Subscript(value=array, slice=key):
                return np.asarray(self.value(array))[_key(key)]
            case ast.Call():
                return self._call(node)
        raise UnknownError(type(node).__name__)

    # ------------------------------------------------------------------------------------------------- names

    def _name(self, name: str) -> Any:
        if name in self._open or self._depth > _DEEPEST:
            raise UnknownError(name)
        self._open.add(name)
        try:
            return self._bound(name)
        finally:
            self._open.discard(name)

    def _bound(self, name: str) -> Any:
        if name in self._given:
            return self._given[name]
        writes = list(_writes(self._piece, name))
        if any(write is None for write in writes) or len(writes) > 1:
            raise UnknownError(f"{name} changes")
        if writes:
            return self._kept(name) if isinstance(self._piece.node, ast.Module) else self._written(writes[0])
        if name in self._piece.local:
            return self._argument(name)
        return concrete(self._observed.namespace.get(name))

    def _kept(self, name: str) -> Any:
        """Of a variable of the notebook that is written once: worked out, or as it still is."""
        try:
            return self._written(next(_writes(self._piece, name)))
        except _FAILS:
            return concrete(self._observed.namespace.get(name))

    def _written(self, write: ast.AST | None) -> Any:
        match write:
            case (
                ast.For(iter=ast.Call(func=ast.Name(id="range"), args=bounds))
                | ast.comprehension(iter=ast.Call(func=ast.Name(id="range"), args=bounds))
            ):
                return np.arange(*(int(self.value(bound)) for bound in bounds))
            case ast.expr():
                return self.value(write)
        raise UnknownError("not a plain assignment")

    def _argument(self, name: str) -> Any:
        """From the only call of the function in the code that ran, by itself or as the body of a loop."""
        sites = [self._site] if self._site is not None else list(call_sites(self._observed, self._piece))
        names = parameters(self._piece)
        if len(sites) != 1 or name not in names:
            raise UnknownError(name)
        caller, call = sites[0]
        there = Exact(self._observed, caller, self._depth + 5)
        if _mapped(self._observed, caller, call) is not None:
            return self._of_a_loop(there, caller, call, names.index(name))
        given = next((each.value for each in call.keywords if each.arg == name), None)
        index = names.index(name)
        if given is None and index < len(call.args):
            given = call.args[index]
        if given is None or any(isinstance(each, ast.Starred) for each in call.args):
            raise UnknownError(name)
        return there.value(given)

    def _of_a_loop(self, there: "Exact", caller: Ran, call: ast.Call, index: int) -> Any:
        """What the body of a `scan`, a `map` or a `fori_loop` is given in all of its passes."""
        kind = dotted(self._observed, caller, call.func).rpartition(".")[2]
        match kind, index, call.args:
            case ("fori_loop", 0, [first, last, *_]):
                return np.arange(int(there.value(first)), int(there.value(last)))
            case ("scan", 1, [_, _, given, *_]) | ("map", 0, [_, given, *_]) if not isinstance(given, ast.Tuple):
                return _number(there.value(given))
            case ("fori_loop", 1, [first, last, _, start]):
                return self._carried(there.value(start), range(int(there.value(first)), int(there.value(last))), 1)
            case ("scan", 0, [_, start, given]) if not isinstance(given, ast.Tuple):
                return self._carried(there.value(start), _number(there.value(given)), 0)
        raise UnknownError("what a loop carries")

    def _carried(self, value: Any, passes: Sequence[Any], position: int) -> Any:
        """The number that a loop carries, as each pass gets it."""
        result, names = returned(self._piece), parameters(self._piece)
        if position == 0 and isinstance(result, ast.Tuple):
            result = result.elts[0]
        if result is None or len(names) != 2 or len(passes) > _MOST_PASSES or np.ndim(value) or np.ndim(passes) > 1:
            raise UnknownError("what a loop carries")
        values = []
        for each in passes:
            values.append(value)
            given = {names[position]: value, names[1 - position]: int(each)}
            value = Exact(self._observed, self._piece, self._depth + 5, self._site, given).value(result)
        return np.array(values, dtype=object)

    # ------------------------------------------------------------------------------------------------- calls

    def _call(self, node: ast.Call) -> Any:
        named = {each.arg: each.value for each in node.keywords}
        if set(named) - {"axis", "dtype"}:
            raise UnknownError("keywords")
        axis = {"axis": self.value(named["axis"])} if "axis" in named else {}
        name = dotted(self._observed, self._piece, node.func)
        package, _, function = name.rpartition(".")
        if package in ("jax.numpy", "numpy"):
            return self._array_function(
                function, [self.value(arg) for arg in node.args[: _VALUES.get(function, 3)]], axis
            )
        if isinstance(node.func, ast.Attribute) and node.func.attr in (*_REDUCE, "ravel", "reshape"):
            values = [self.value(node.func.value), *map(self.value, node.args)]
            return self._array_function(node.func.attr, values, axis)
        if isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
            return self._shape(node.args[0])[0]
        raise UnknownError("a call of another function")

    def _array_function(self, function: str, values: list[Any], axis: dict[str, Any]) -> Any:
        if function in _TYPES and len(values) == 1:
            return _number(values[0])
        if function not in (*_MAKE, *_REDUCE):
            raise UnknownError(function)
        if function == "arange" and _length(values) > MOST:
            raise UnknownError("too large")
        if function == "full":
            return np.full(values[0], _number(values[1]))
        array, *rest = [_number(value) if function not in ("reshape",) else value for value in values]
        if function == "dot":
            return _product(array, *rest)
        if function in _REDUCE:
            array = _unbounded(array)
        return _small(getattr(np, function)(array, *rest, **axis))

    def _shape(self, node: ast.AST) -> tuple[int, ...]:
        value = self._observed.namespace.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(value, jax.Array | np.ndarray) and not _is_written(self._piece, node):
            return value.shape
        seen = Shapes(self._observed, self._piece).sizes(node) if isinstance(node, ast.Name | ast.Attribute) else None
        return seen if seen is not None else np.shape(self.value(node))


def concrete(value: Any) -> Any:
    """A plain integer, or an array of integers that is there already.

    Raises:
        UnknownError: It is something else.
    """
    if type(value) is int or (isinstance(value, np.ndarray | np.integer) and value.dtype.kind in "iu"):
        return value
    if not isinstance(value, jax.Array) or is_tracer(value) or value.size > MOST or value.dtype.kind not in "iu":
        raise UnknownError(type(value).__name__)
    if not at_hand(value):
        raise UnknownError("not at hand")
    return np.asarray(value).astype(np.int64)


def at_hand(array: jax.Array) -> bool:
    """Whether its values can be read here, at once."""
    return array.is_fully_addressable and not array.is_deleted() and is_ready(array)


def is_ready(array: jax.Array) -> bool:
    """Whether its values are there, so that reading them waits for nothing."""
    return bool(getattr(array, "is_ready", lambda: True)())


def _key(node: ast.expr) -> Any:
    """A key that adds or keeps axes: `[:, None]`, `[..., None]`."""
    match node:
        case ast.Tuple(elts=parts):
            return tuple(_key(part) for part in parts)
        case ast.Slice(lower=None, upper=None, step=None):
            return slice(None)
        case ast.Constant(value=None | types.EllipsisType() as value):
            return value
        case ast.Attribute(attr="newaxis"):
            return None
    raise UnknownError("a part of an array")


def _number(value: Any) -> Any:
    return np.asarray(value, dtype=np.int64) if isinstance(value, tuple) else value


def _small(value: Any) -> Any:
    if np.size(value) > MOST:
        raise UnknownError("too large")
    return value


def _power(base: Any, exponent: Any) -> Any:
    if np.ndim(exponent) or int(exponent) > 200 or int(exponent) < 0:
        raise UnknownError("a large power")
    return _unbounded(base) ** int(exponent)


def _product(left: Any, right: Any) -> Any:
    if np.size(left) * np.size(right) > MOST:
        raise UnknownError("a large product")
    return _unbounded(left) @ _unbounded(right)


def _unbounded(value: Any) -> Any:
    """With Python's integers, which do not wrap; of a long array in double precision, exact to fifteen digits."""
    if isinstance(value, int):
        return value
    return np.asarray(value).astype(object if np.size(value) <= 10_000 else np.float64)


def _length(bounds: list[Any]) -> int:
    return len(range(*map(int, bounds)))


def _writes(piece: Ran, name: str) -> Iterator[ast.AST | None]:  # noqa: C901 - one case for each kind of syntax
    """What is assigned to a name: an expression, the loop whose variable it is, or None for anything else."""
    for node in piece.own:
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                yield value
            case ast.For(target=ast.Name(id=target)) if target == name:
                yield None if any(isinstance(part, ast.Break) for part in ast.walk(node)) else node
            case ast.Assign(targets=targets) if any(_mentions(target, name) for target in targets):
                yield None
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target) if _mentions(target, name):
                yield None
            case ast.comprehension(target=ast.Name(id=target), ifs=[]) if target == name:
                yield node
            case ast.comprehension(target=target) | ast.For(target=target) if _mentions(target, name):
                yield None
            case ast.withitem(optional_vars=ast.expr() as target) if _mentions(target, name):
                yield None
            case ast.NamedExpr(target=ast.Name(id=target)) if target == name:
                yield None
            case ast.Global(names=names) | ast.Nonlocal(names=names) if name in names:
                yield None


def _is_written(piece: Ran, node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and any(True for _ in _writes(piece, node.id))


def _mentions(target: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(target))


def returned(piece: Ran) -> ast.expr | None:
    """What a function gives back, if it says so in one place."""
    if isinstance(piece.node, ast.Lambda):
        return piece.node.body
    results = [node.value for node in piece.own if isinstance(node, ast.Return)]
    return results[0] if len(results) == 1 else None


def parameters(piece: Ran) -> list[str]:
    """Names of the positional parameters, without the `self` of a method."""
    names = [each.arg for each in piece.node.args.args] if not isinstance(piece.node, ast.Module) else []
    return names[1:] if names[:1] == ["self"] else names


def call_sites(observed: Observed, piece: Ran) -> Iterator[tuple[Ran, ast.Call]]:
    """Calls of a function, directly or through `jax.jit`, and of a method by its name, in the code that ran."""
    method = isinstance(piece.node, ast.FunctionDef) and [each.arg for each in piece.node.args.args][:1] == ["self"]
    for caller, call in _calls(observed):
        body = _mapped(observed, caller, call)
        if body is not None:
            found = function_behind(observed, caller, body)
            if found is not None and found.node is piece.node:
                yield caller, call
        elif method and isinstance(call.func, ast.Attribute):
            if call.func.attr == getattr(piece.node, "name", ""):
                yield caller, call
        elif _called(observed, call.func) is piece.node:
            yield caller, call


def keeps_type(observed: Observed, piece: Ran) -> bool:
    """Whether a piece is the body of a loop that starts from an array: what it carries has that array's type."""
    for caller, call in call_sites(observed, piece):
        start = {"fori_loop": 3, "scan": 1}.get(name_called(call), 0) if _mapped(observed, caller, call) else 0
        if start and start < len(call.args) and not isinstance(call.args[start], ast.Constant):
            return True
    return False


def _mapped(observed: Observed, caller: Ran, call: ast.Call) -> ast.expr | None:
    """The function that a call makes the body of a loop."""
    match dotted(observed, caller, call.func), call.args:
        case ("jax.lax.scan" | "jax.lax.map", [body, *_]) | ("jax.lax.fori_loop", [_, _, body, *_]):
            return body
    return None


def _calls(observed: Observed) -> tuple[tuple[Ran, ast.Call], ...]:
    return _calls_of(ran(observed))


@lru_cache(maxsize=1)
def _calls_of(pieces: tuple[Ran, ...]) -> tuple[tuple[Ran, ast.Call], ...]:
    return tuple((piece, node) for piece in pieces for node in piece.own if isinstance(node, ast.Call))


def _called(observed: Observed, function: ast.AST) -> ast.AST | None:
    """The `def` or `lambda` behind the name, or the `jax.jit(…)`, that is called."""
    match function:
        case ast.Call(args=[inner, *_]):
            return _called(observed, inner)
        case ast.Lambda():
            return function
        case ast.Name(id=name):
            value = observed.namespace.get(name)
            for _ in range(5):
                code = getattr(value, "__code__", None)
                if code is not None:
                    return definition(code)
                value = getattr(value, "__wrapped__", None)
    return None
