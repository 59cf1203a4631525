"""Statements in functions that put a value into something that outlives the call."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import stored
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Span

_MUTATORS = ("append", "extend", "add", "insert", "update", "setdefault", "appendleft", "put")


@dataclass(frozen=True)
class Store:
    """A statement inside a function that puts a value into something that outlives the call."""

    file: str
    function: ast.FunctionDef | ast.Lambda
    statement: ast.AST
    holder: str
    """The outer name: `seen`, `key`, `hooks`."""
    value: ast.expr | None
    """What is stored."""

    @property
    def span(self) -> Span:
        return span_of(self.file, self.statement)

    @property
    def text(self) -> str:
        return source.text_of(self.span)

    @property
    def owner(self) -> str:
        return self.function.name if isinstance(self.function, ast.FunctionDef) else "a lambda"


def stores(file: str) -> Iterator[Store]:
    """Every statement of a file's functions that stores into a global, an outer variable or an object of one."""
    tree = source.tree(file)
    for function in ast.walk(tree) if tree is not None else ():
        if isinstance(function, ast.FunctionDef):
            local = _locals(function)
            for node in _statements(function):
                for holder, value in _stored_outside(node, local):
                    yield Store(file, function, node, holder, value)


def _locals(function: ast.FunctionDef) -> set[str]:
    """Names that belong to the function itself; `self` and its like count as outer, as their objects live on."""
    outer = {name for node in ast.walk(function) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    parameters = {arg.arg for arg in function.args.args} - {"self"}
    made = {name for node in _statements(function) for name in stored(*_plain_targets(node))}
    return (made | parameters) - outer


def _plain_targets(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.Assign(targets=targets):
            return [target for target in targets if isinstance(target, ast.Name | ast.Tuple | ast.List)]
        case ast.For(target=target) | ast.AnnAssign(target=ast.Name() as target) | ast.NamedExpr(target=target):
            return [target]
        case ast.AugAssign(target=ast.Name() as target):
            return [target]
    return []


def _statements(function: ast.AST) -> Iterator[ast.AST]:
    """Statements and calls of a function, without those of functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield child
            yield from _statements(child)


def _stored_outside(node: ast.AST, local: set[str]) -> Iterator[tuple[str, ast.expr | None]]:
    match node:
        case ast.Call(func=ast.Attribute(value=holder, attr=method), args=[*_, value]) if method in _MUTATORS:
            root = root_name(holder)
            if root and root not in local:
                yield root, value
        case ast.Assign(targets=targets, value=value):
            for target in (part for outer in targets for part in _flat(outer)):
                root = root_name(target)
                if root and root not in local:
                    yield root, value


def _flat(target: ast.expr) -> list[ast.expr]:
    return [part for element in target.elts for part in _flat(element)] if isinstance(target, ast.Tuple) else [target]


def root_name(node: ast.expr) -> str:
    """The name that an attribute or item belongs to."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
