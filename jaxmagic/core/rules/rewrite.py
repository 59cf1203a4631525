"""Fixes are made from the user's own syntax: a copy of the tree, some nodes put in the place of others."""

import ast
import copy
import textwrap
from types import ModuleType
from typing import Any

from jaxmagic.core.failures.operands import Scope
from jaxmagic.core.failures.sites import Site
from jaxmagic.core.source.syntax import span_of
from jaxmagic.core.source.texts import lines_of
from jaxmagic.records import Span

_USUAL = {"jax.numpy": "jnp", "jax": "jax", "jax.lax": "jax.lax", "numpy": "np"}


def alias(scope: Scope, module: str) -> str:
    """How the user's frame spells a module: `jnp` for `jax.numpy`; the usual spelling where it isn't imported."""
    for names in (scope.locals, scope.globals):
        for name, value in list(names.items()):
            if isinstance(value, ModuleType) and value.__name__ == module and not name.startswith("_"):
                return name
    parent, _, child = module.rpartition(".")
    if parent and (owner := alias(scope, parent)) and owner in (*scope.locals, *scope.globals):
        return f"{owner}.{child}"
    return _USUAL.get(module, module)


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def call(function: str, *args: ast.AST, **kwargs: ast.AST) -> ast.Call:
    """`function(args…)`, the arguments being nodes of the user's."""
    keywords = [ast.keyword(name, _copied(value)) for name, value in kwargs.items()]
    return ast.Call(expression(function), [_copied(arg) for arg in args], keywords)


def _copied(node: Any) -> Any:
    return copy.deepcopy(node)


def replaced(tree: ast.AST, old: ast.AST, new: ast.AST) -> Any:
    """A copy of `tree` with `new` where `old` stands."""
    memo: dict[int, Any] = {}
    copied = copy.deepcopy(tree, memo)
    return _Swap(memo[id(old)], new).visit(copied)


class _Swap(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else super().visit(node)


def with_parameters(file: str, node: ast.FunctionDef | ast.AsyncFunctionDef, names: list[str]) -> tuple[str, Span]:
    """The header of a `def` with further parameters, and its place; after defaults they are keywords only."""
    changed = copy.deepcopy(node)
    add_parameters(changed.args, names)
    changed.body, changed.decorator_list = [ast.Pass()], []
    return text(changed).rpartition("\n")[0], _header(file, node)


def add_parameters(arguments: ast.arguments, names: list[str]) -> None:
    """Adds parameters without a default at the end; behind parameters with one, as keywords only."""
    added = [ast.arg(name) for name in names]
    if arguments.defaults or arguments.vararg or arguments.kwonlyargs:
        arguments.kwonlyargs += added
        arguments.kw_defaults += [None for _ in added]
    else:
        arguments.args += added


def _header(file: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Span:
    """From `def` to the colon before the body."""
    inside = [part for part in (*ast.walk(node.args), node.returns) if hasattr(part, "end_lineno")]
    ends: list[Any] = [(part.end_lineno, part.end_col_offset) for part in inside]  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    line, column = max([(node.lineno, node.col_offset), *ends])
    lines = [each.encode() for each in lines_of(file)]
    while b":" not in lines[line - 1][column:]:
        line, column = line + 1, 0
    return Span(file, node.lineno, node.col_offset, line, lines[line - 1].index(b":", column) + 1)


def text(*nodes: ast.AST) -> str:
    """Code of statements or an expression, one after the other."""
    return "\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in nodes)


def indented(code: str, by: str = "    ") -> str:
    return textwrap.indent(code, by)


def whole(site: Site, first: ast.stmt, last: ast.stmt | None = None) -> Span:
    """From the start of one statement to the end of another."""
    begin, end = site.span_of(first), span_of(site.file, last or first)
    return Span(site.file, begin.line, begin.column, end.end_line, end.end_column)


def tupled(names: list[str]) -> str:
    """`x` or `x, y`: how a state of one or several variables is passed."""
    return names[0] if len(names) == 1 else ", ".join(names)


def straight(block: list[ast.stmt]) -> bool:
    """Only assignments to plain names, so that the block is a function of what it reads."""
    for statement in block:
        match statement:
            case ast.Assign(targets=[ast.Name() | ast.Tuple()]) | ast.AugAssign(target=ast.Name()) | ast.Pass():
                continue
        return False
    return True
