"""Whose function is it: the user's, a library's, or JAX's own? Looks through decorators, partials and closures."""

import functools
import os
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import jax

from jaxmagic.core.source.policy import OURS

JAX_FOLDER = os.path.dirname(str(jax.__file__)) + os.sep


IsUser = Callable[[str], bool]
"""Whether a file name (`co_filename`) is the user's code."""

_DEEPEST = 4
"""Closures and containers are searched this deep for a user's function."""


class Subject(NamedTuple):
    """What a jitted function is about. Keeps no function alive: its closure may hold tracers."""

    reference: Callable[[], Any]
    """Gives the user's function, where there is one inside; else the innermost function; None once it is gone."""
    code: CodeType | None
    """Of that function."""
    name: str
    """As a person would say it: `loss`, `grad(loss)`, `Model.step`."""
    identity: tuple
    """Equal for functions made again from the same code in the same way."""
    owner: str
    """`user`, `library` or `jax`."""
    form: tuple[str, ...] = ()
    """Kinds of the wrappers around the function: `grad`, `PjitFunction`, …"""


def subject_of(fun: Any, statics: tuple, is_user: IsUser) -> Subject:
    """Sees through the wrappers of JAX and of libraries around a function given to `jax.jit`.

    Args:
        fun: The function that JAX is about to trace.
        statics: Its static arguments; a library may hand the user's function over in one of them.
        is_user: Whose file it is.
    """
    layers = list(_layers(fun))
    function, inner = layers[-1], layers[-1]
    if not _is_user_function(function, is_user):
        candidates = _functions_inside(layers, statics)
        inner = next((found for found in candidates if _is_user_function(found, is_user)), function)
    owner = "user" if _is_user_function(inner, is_user) else "jax" if _is_jax(function) else "library"
    around = [made for layer in layers[:-1] if (made := _transformation(layer))]
    name = _name(layers, inner)
    for transformation in reversed(around):
        name = f"{transformation}({name})"
    codes = tuple(id(code_of(each)) if code_of(each) else type(each).__name__ for each in (*layers, inner))
    form = (*around, *(type(layer).__name__ for layer in layers))
    return Subject(_weak(inner), code_of(inner), name, (*around, *codes), owner, form)


def namesake(fun: Any, statics: tuple) -> Any:
    """The function that a library jitted, where it gave JAX one of its own by that name; None where it did not."""
    name = getattr(_innermost(fun), "__qualname__", None)
    found = (each for each in _functions_in(statics, 0) if isinstance(each, FunctionType))
    return next((each for each in found if each.__qualname__ == name), None)


def _weak(function: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(function)
    except TypeError:  # a callable object without room for weak references
        return nothing


def nothing() -> None:
    """The reference of a subject whose function is not known."""


def inside_jax(file: str) -> bool:
    """Whether a frame of this file belongs to JAX, or to jaxmagic's wrappers around it."""
    return file.startswith((JAX_FOLDER, OURS))


def code_of(function: Any) -> CodeType | None:
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _layers(fun: Any) -> Iterator[Any]:
    """The function and what it wraps, outermost first."""
    for _ in range(50):
        yield fun
        if isinstance(fun, functools.partial):
            fun = fun.func
        elif isinstance(fun, MethodType):
            fun = fun.__func__
        else:
            inner = _wrapped_by(fun)
            if inner is None:
                return
            fun = inner


def _innermost(fun: Any) -> Any:
    return list(_layers(fun))[-1]


def _wrapped_by(fun: Any) -> Any:
    try:
        return getattr(fun, "__wrapped__", None)
    except Exception:  # noqa: BLE001 - a library may compute it
        return None


def _is_user_function(function: Any, is_user: IsUser) -> bool:
    code = code_of(function)
    return code is not None and (is_user(code.co_filename) or _is_executed(function, code))


def _is_executed(function: Any, code: CodeType) -> bool:
    """Whether the user gave the function's text to `exec`; so do dataclasses, for their special methods."""
    of_main = getattr(function, "__globals__", {}).get("__name__") == "__main__"
    return code.co_filename == "<string>" and of_main and not code.co_name.startswith("__")


def _is_jax(function: Any) -> bool:
    code = code_of(function)
    if code is not None:
        return code.co_filename.startswith(JAX_FOLDER)
    module = getattr(function, "__module__", None) or type(function).__module__
    return isinstance(module, str) and module.split(".")[0] in ("jax", "jaxlib")


def _functions_inside(layers: list[Any], statics: tuple) -> Iterator[Any]:
    """Functions that the layers are about without wrapping them, likeliest first."""
    for layer in layers:
        if isinstance(layer, MethodType):
            yield from methods_of(type(layer.__self__))
        elif isinstance(layer, functools.partial):
            yield from _functions_in(layer.args, 0)
        yield from _functions_in(values_of_cells(layer), 0)
    yield from _functions_in(statics, 0)


def _functions_in(values: Any, depth: int) -> Iterator[Any]:
    """Functions in plain containers and pytree structures, and in the closures of functions found there."""
    if isinstance(values, jax.tree_util.PyTreeDef):
        node = values.node_data()
        yield from methods_of(node[0]) if node else ()
    elif isinstance(values, FunctionType | MethodType | functools.partial):
        function = _innermost(values)
        yield function
        yield from _functions_in(values_of_cells(function), depth + 1)
    elif isinstance(values, tuple | list) and depth <= _DEEPEST:
        for value in values[:50]:
            yield from _functions_in(value, depth + 1)


def methods_of(cls: type) -> Iterator[Any]:
    """What the class itself defines, `__call__` first: flax and equinox jit their own methods of a user's module."""
    body = vars(cls)
    for value in (body.get("__call__"), *body.values()):
        if value is not None and not isinstance(value, type):
            yield _innermost(value)


def values_of_cells(function: Any) -> list[Any]:
    """What a function closes over."""
    values = []
    for cell in getattr(function, "__closure__", None) or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    return values


def _name(layers: list[Any], inner: Any) -> str:
    for layer in layers:
        if isinstance(layer, MethodType) and not isinstance(layer.__self__, type):
            return f"{type(layer.__self__).__name__}.{layer.__name__}"
    name = getattr(inner, "__qualname__", None) or getattr(inner, "__name__", None)
    return name.rpartition("<locals>.")[2] if isinstance(name, str) else type(inner).__name__


def _transformation(layer: Any) -> str:
    """`grad` for the function that `jax.grad` returned; empty for anything else."""
    # JAX puts a wrapper that filters tracebacks around it, which holds it in its closure.
    for part in (layer, *values_of_cells(layer)):
        code = code_of(part)
        if code is not None and code.co_filename.startswith(JAX_FOLDER):
            maker = code.co_qualname.partition(".<locals>")[0]
            if callable(getattr(jax, maker, None)):
                return maker
    return ""
