"""Functions that the user passed to JAX, found again in the source: their returns and what they return where."""

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

from jaxmagic.core.failures.sites import Site
from jaxmagic.core.lines.attributes import class_attribute, instance_dict, module_of
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import own_nodes
from jaxmagic.core.source.syntax import definition, span_of
from jaxmagic.records import Span

_STEP = re.compile(r"\[(-?\d+)\]|\['([^']*)'\]|\.(\w+)")


@dataclass(frozen=True)
class Function:
    """A `def` or `lambda` and the file it stands in."""

    file: str
    node: ast.FunctionDef | ast.Lambda
    bound: bool = False
    """Whether it was given as a method: its first parameter is taken."""

    @property
    def name(self) -> str:
        return "lambda" if isinstance(self.node, ast.Lambda) else self.node.name

    @property
    def parameters(self) -> list[str]:
        """Those that a call gives by position."""
        return [arg.arg for arg in (*self.node.args.posonlyargs, *self.node.args.args)][self.bound :]

    def returned(self) -> list[ast.expr]:
        """The expressions it can return, inner functions' own returns left out."""
        if isinstance(self.node, ast.Lambda):
            return [self.node.body]
        return [node.value for node in own_nodes(self.node) if isinstance(node, ast.Return) and node.value is not None]

    def assigned(self, name: str) -> ast.expr | None:
        """The last expression assigned to a plain name."""
        found = None
        for node in own_nodes(self.node):
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    found = value
        return found

    def span_of(self, node: ast.AST) -> Span:
        return span_of(self.file, node)

    def text(self, node: ast.AST) -> str:
        return source.text_of(self.span_of(node))


def function_of(site: Site, node: ast.expr | None) -> Function | None:
    """The function that an argument is: a lambda in place, a name of a function with source, or `Model(…).method`."""
    match node:
        case ast.Lambda():
            return Function(site.file, node)
        case ast.Attribute(value=ast.Call(func=made), attr=name) if isinstance(owner := site.scope.get(made), type):
            method = class_attribute(owner, name)
            return function_from(MethodType(method, owner)) if isinstance(method, FunctionType) else None
    return None if node is None else function_from(site.scope.get(node))


def function_from(value: Any) -> Function | None:
    """The source of a function object, through `partial`, methods, `functools.wraps` and objects that can be called."""
    bound = False
    for _ in range(8):
        if isinstance(value, functools.partial):
            value = value.func
        elif isinstance(value, MethodType):
            value, bound = value.__func__, True
        elif "__wrapped__" in instance_dict(value):
            value = instance_dict(value)["__wrapped__"]
        elif module_of(type(value)).startswith("equinox._jit"):
            value = getattr(value, "__wrapped__", None)  # a property of Equinox's own, which holds it in two halves
        elif module_of(type(value)).startswith("equinox"):
            value = next((part for part in instance_dict(value).values() if callable(part)), None)
        else:
            break
    if not isinstance(value, FunctionType):
        value, bound = class_attribute(type(value), "__call__"), True
    if not isinstance(value, FunctionType) or not source.Policy().is_user(value.__code__.co_filename):
        return None
    node = definition(value.__code__)
    file = value.__code__.co_filename
    return Function(file, node, bound) if isinstance(node, ast.FunctionDef | ast.Lambda) else None


def made_from(failing: Failing, function: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
    """What a called name or attribute was assigned from, in the newest file first: `step = jax.jit(…)`."""
    for file, node in failing.nodes():
        if isinstance(node, ast.Assign) and any(_same_name(target, function) for target in node.targets):
            yield file, node.value


def _same_name(target: ast.expr, function: ast.expr | None) -> bool:
    match target, function:
        case (ast.Name(id=one), ast.Name(id=other)) | (ast.Attribute(attr=one), ast.Attribute(attr=other)):
            return one == other
    return False


def at_path(node: ast.expr, path: str) -> ast.expr | None:
    """The part of a tuple, list or dict display that an access path like `[0]['w']` leads to."""
    for index, key, name in _STEP.findall(path):
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements) if index and int(index) < len(elements):
                node = elements[int(index)]
            case ast.Dict(keys=keys, values=values):
                found = [v for k, v in zip(keys, values, strict=True) if getattr(k, "value", None) == (key or name)]
                if not found:
                    return None
                node = found[0]
            case _:
                return None
    return node
