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
    target_name: str = ""
    """The variable, where a global or an outer one is itself assigned."""
    default: bool = False
    """Whether the holder is a parameter's default value."""

    @property
    def constant(self) -> bool:
        """Whether no tracer can be stored."""
        return isinstance(self.value, ast.Constant)

    @property
    def span(self) -> Span:
        return span_of(self.file, self.statement)

    @property
    def text(self) -> str:
        return source.text_of(self.span)

    @property
    def owner(self) -> str:
        return self.function.name if isinstance(self.function, ast.FunctionDef) else "a lambda"


def stores(file: str, tree: ast.Module | None = None) -> Iterator[Store]:
    """Every statement of a file's functions that stores into a global, an outer variable or an object of one.

    Args:
        file: Its name.
        tree: What of it to look at, where that is not all.
    """
    tree = tree or source.tree(file)
    for function in ast.walk(tree) if tree is not None else ():
        if isinstance(function, ast.FunctionDef):
            local, defaults = _locals(function), kept_defaults(function)
            for node in _statements(function):
                for target, value in _stored(node):
                    holder = root_name(target)
                    if holder and (holder not in local or holder in defaults or _is_argument(function, target)):
                        named = target.id if isinstance(target, ast.Name) and not isinstance(node, ast.Call) else ""
                        yield Store(file, function, node, holder, value, named, holder in defaults)


def spelled_jit(node: ast.expr) -> bool:
    """Whether a decorator reads as one that compiles: `jax.jit`, `partial(jax.jit, …)`, `eqx.filter_jit`."""
    return any(
        name in ("jit", "filter_jit")
        for part in ast.walk(node)
        for name in [getattr(part, "attr", None) or getattr(part, "id", None)]
    )


def _locals(function: ast.FunctionDef) -> set[str]:
    """Names that belong to the function itself; `self` and its like count as outer, as their objects live on."""
    own = list(_statements(function))
    outer = {name for node in own if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    parameters = {arg.arg for arg in _parameters(function)} - {"self", "cls"}
    made = {name for node in own for name in stored(*_plain_targets(node))}
    return (made | parameters) - outer


def _parameters(function: ast.FunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _is_argument(function: ast.FunctionDef, target: ast.expr) -> bool:
    """Whether it is an attribute of an object that the function got: the object lives on."""
    names = {arg.arg for arg in _parameters(function)}
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in names


def kept_defaults(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """Parameters whose default is a container: made once, and kept from call to call."""
    arguments = function.args
    ordered = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(ordered[len(ordered) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return {arg.arg for arg, default in pairs if isinstance(default, ast.List | ast.Dict | ast.Set)}


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


def _stored(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """What a statement or call stores into, and the value."""
    match node:
        case ast.Call(func=ast.Attribute(value=holder, attr=method), args=args, keywords=keywords):
            for value in [*args[-1:], *(word.value for word in keywords)] if method in _MUTATORS else ():
                yield holder, value
        case ast.Call(func=ast.Name(id="setattr"), args=[holder, _, value]):
            yield ast.Attribute(holder, "_"), value
        case ast.Assign(targets=targets, value=value):
            for target in (part for outer in targets for part in _flat(outer)):
                yield target, value
        case ast.AugAssign(target=target, value=value):
            yield target, value


def _flat(target: ast.expr) -> list[ast.expr]:
    return [part for element in target.elts for part in _flat(element)] if isinstance(target, ast.Tuple) else [target]


def root_name(node: ast.expr) -> str:
    """The name that an attribute or item belongs to."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
