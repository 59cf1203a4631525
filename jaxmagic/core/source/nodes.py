"""Inside a syntax tree: what encloses a node, what it works on, which names it reads and writes."""

import ast
from collections.abc import Iterator
from typing import Any


def path_to(tree: ast.AST, node: ast.AST) -> list[ast.AST]:
    """`node` and everything around it, out to `tree`; empty where it is not in there."""
    if tree is node:
        return [node]
    for child in ast.iter_child_nodes(tree):
        if _may_hold(child, node) and (path := path_to(child, node)):
            return [*path, tree]
    return []


def _may_hold(outer: Any, inner: Any) -> bool:
    if not (hasattr(outer, "lineno") and hasattr(inner, "lineno")):
        return True
    first = min([outer.lineno, *(decorator.lineno for decorator in getattr(outer, "decorator_list", ()))])
    return first <= inner.lineno and inner.end_lineno <= outer.end_lineno


def smallest(tree: ast.AST, line: int, column: int, end_line: int, end_column: int) -> ast.AST | None:
    """The smallest expression or statement that covers a place."""
    found = None
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt) and _covers(node, (line, column), (end_line, end_column)):
            found = node
    return found


def _covers(node: Any, begin: tuple[int, int], end: tuple[int, int]) -> bool:
    return (node.lineno, node.col_offset) <= begin and end <= (node.end_lineno, node.end_col_offset)


def loaded(node: ast.AST) -> set[str]:
    """Names that are read."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def stored(*nodes: ast.AST) -> list[str]:
    """Names that are assigned, in order of appearance."""
    parts = [part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)]
    return list(dict.fromkeys(part.id for part in parts if not isinstance(part.ctx, ast.Load)))


def bound_by(statement: ast.AST) -> list[ast.expr]:
    """What a statement binds itself, without its blocks."""
    match statement:
        case ast.Assign(targets=targets):
            return targets
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target) | ast.For(target=target):
            return [target]
        case ast.With(items=items):
            return [item.optional_vars for item in items if item.optional_vars is not None]
    return []


def is_read_first(name: str, body: list[ast.stmt]) -> bool:
    """Whether statements read what a name held before them."""
    for statement in body:
        if name in loaded(statement) or (isinstance(statement, ast.AugAssign) and name in stored(statement)):
            return True
        if name in stored(statement):
            return False
    return False


def is_definition(node: ast.AST) -> bool:
    """Whether a statement defines a function or a class."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function in source order, without those of functions and classes defined inside."""
    for child in ast.iter_child_nodes(function):
        if not (is_definition(child) or isinstance(child, ast.Lambda)):
            yield child
            yield from own_nodes(child)


def name_called(node: ast.Call) -> str:
    """The last name of what is called: `scan` of `jax.lax.scan(…)`; empty for the result of another call."""
    return last_name(node.func)


def last_name(node: ast.expr) -> str:
    """`scan` of `jax.lax.scan` and of `scan`; empty for any other expression."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def parts(node: ast.AST | None) -> list[ast.expr]:  # noqa: C901 - one case for each kind of syntax
    """The sub-expressions that an expression or statement works on: the operands of what failed."""
    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Compare(left=left, comparators=rest):
            return [left, *rest]
        case ast.BoolOp(values=values):
            return values
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.Call():
            return _call_parts(node)
        case ast.Subscript(value=value, slice=key):
            return [value, *_key_parts(key)]
        case ast.JoinedStr(values=values):
            return [part.value for part in values if isinstance(part, ast.FormattedValue)]
        case ast.FormattedValue(value=value) | ast.Starred(value=value) | ast.Attribute(value=value):
            return [value]
        case ast.If(test=test) | ast.While(test=test) | ast.Assert(test=test) | ast.IfExp(test=test):
            return parts(test)
        case ast.AugAssign(target=target, value=value):
            return [target, value]
        case ast.For(iter=iterable):
            return [iterable]
        case ast.ListComp(generators=[first, *_]) | ast.SetComp(generators=[first, *_]):
            return [first.iter]
        case ast.GeneratorExp(generators=[first, *_]) | ast.DictComp(generators=[first, *_]):
            return [first.iter]
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return elements
        case ast.Name():
            return [node]
    return []


def _call_parts(node: ast.Call) -> list[ast.expr]:
    match node.func:
        case ast.Attribute(value=ast.Subscript(value=ast.Attribute(attr="at", value=array), slice=key)):
            receiver = [array, *_key_parts(key)]
        case ast.Attribute(value=owner):
            receiver = [owner]
        case _:
            receiver = []
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    flat = [part for arg in given for part in (parts(arg) if isinstance(arg, ast.Tuple | ast.List) else [arg])]
    return receiver + flat


def _key_parts(key: ast.expr) -> list[ast.expr]:
    match key:
        case ast.Tuple(elts=elements):
            return [part for element in elements for part in _key_parts(element)]
        case ast.Slice(lower=lower, upper=upper, step=step):
            return [part for part in (lower, upper, step) if part is not None]
    return [key]
