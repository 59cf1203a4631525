"""What a call in the user's code calls: a jitted function, a function of JAX's, or one of the user's own."""

import ast
from types import FunctionType, MethodType
from typing import Any

import jax

from jaxmagic.core.lines.attributes import MISSING, attribute, class_attribute
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.scopes import assigned, attribute_values, binder, class_of, methods
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.source.syntax import definition

JITTED = type(jax.jit(abs))
_policy = Policy()
_WRAPPERS = 5
"""Decorators around a function that are looked through."""
_TRANSFORMS = ("jax.jit", "jax.vmap", "jax.grad", "jax.value_and_grad", "jax.checkpoint", "jax.remat", "jax.jacfwd")
_TRANSFORMS += ("jax.jacrev", "jax.hessian", "jax.pmap", "equinox.filter_jit", "equinox.filter_grad")
_TRANSFORMS += ("equinox.filter_value_and_grad", "equinox.filter_vmap", "flax.nnx.jit", "flax.nnx.grad")


def is_jitted(observed: Observed, function: ast.expr) -> bool:
    """Whether a name of the notebook is a function made by `jax.jit`."""
    return isinstance(function, ast.Name) and type(observed.namespace.get(function.id)) is JITTED


def own_function(observed: Observed, piece: Ran, function: ast.expr) -> Ran | None:
    """The user's function that an expression names: by its value, in the same file, or a method by its name."""
    match function:
        case ast.Lambda():
            return Ran(piece.file, function, "<lambda>", ())
        case ast.Name(id=name):
            return (
                function_of(observed.namespace.get(name), name)
                or next((each for each in ran(observed) if each.name.rpartition(".")[2] == name), None)
                or _nested(piece, name)
            )
        case ast.Attribute(attr=name) if not dotted(observed, piece, function):
            return next((each for each in ran(observed) if each.name.endswith(f".{name}")), None)
    return None


def function_behind(observed: Observed, piece: Ran, function: ast.expr, depth: int = 0) -> Ran | None:
    """The one function of the user's that a call can only reach, through `jax.jit`, `jax.grad` and the like.

    Unlike `own_function` it answers None rather than guess: a method is found by its object or its class alone.
    """
    match function:
        case ast.Lambda():
            return Ran(piece.file, function, "<lambda>", ())
        case ast.Call(func=transform, args=[inner, *_]) if depth < _WRAPPERS:
            known = dotted(observed, piece, transform) in _TRANSFORMS
            return function_behind(observed, piece, inner, depth + 1) if known else None
        case ast.Name(id=name):
            return _named(observed, piece, name, depth)
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if (owner := class_of(piece)) is not None:
            found = next((method for method in methods(owner) if method.name == name), None)
            if found is None and depth < _WRAPPERS:
                values = attribute_values(owner, name)
                return function_behind(observed, piece, values[0], depth + 1) if len(values) == 1 else None
            return Ran(piece.file, found, f"{owner.name}.{name}", ()) if found is not None else None
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner not in piece.local:
            return function_of(_method(observed.namespace.get(owner), name), name)
    return None


def _named(observed: Observed, piece: Ran, name: str, depth: int) -> Ran | None:
    outer = binder(piece, name)
    home = outer if outer is not None else piece
    nested = _nested(home, name) if not isinstance(home.node, ast.Module) else None
    if nested is not None:
        return nested
    if outer is not None or name in piece.local:
        values = assigned(home, name)
        return function_behind(observed, home, values[0], depth + 1) if len(values) == 1 and depth < _WRAPPERS else None
    return function_of(observed.namespace.get(name), name)


def function_of(value: Any, name: str) -> Ran | None:
    """The user's function behind a value, its decorators looked through; nothing of it runs."""
    if isinstance(value, type):
        value, name = class_attribute(value, "__init__"), "__init__"
    for _ in range(_WRAPPERS):
        if isinstance(value, MethodType):
            value = value.__func__
        if isinstance(value, FunctionType):
            inner = vars(value).get("__wrapped__")
            if inner is None:
                own = _policy.is_user(value.__code__.co_filename)
                node = definition(value.__code__) if own else None
                known = isinstance(node, ast.FunctionDef | ast.Lambda)
                return Ran(value.__code__.co_filename, node, name, ()) if known else None
            value = inner
        else:
            value = _wrapped(value)
    return None


def _wrapped(value: Any) -> Any:
    """What a jitted function, or a library's wrapper like it, was made of."""
    library = (getattr(type(value), "__module__", None) or "").partition(".")[0]
    return getattr(value, "__wrapped__", None) if library in ("jax", "jaxlib", "equinox", "flax", "functools") else None


def _method(owner: Any, name: str) -> Any:
    """A function among the methods of an object, or of a module."""
    held = attribute(owner, name) if owner is not None else MISSING
    return class_attribute(type(owner), name) if held is MISSING else held


def _nested(piece: Ran, name: str) -> Ran | None:
    """A function that is defined inside of the piece, and did not run under our eyes."""
    for node in ast.walk(piece.node):
        if isinstance(node, ast.FunctionDef) and node.name == name and node is not piece.node:
            return Ran(piece.file, node, name, ())
    return None
