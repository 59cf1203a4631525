"""Fixes are made from the user's own syntax: a copy of the tree, some nodes put in the place of others."""

import ast
import textwrap
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from jaxmagic.core.failures.operands import Scope
from jaxmagic.core.failures.sites import Site
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.syntax import span_of
from jaxmagic.core.source.texts import lines_of
from jaxmagic.records import Span

Edit = tuple[Span, str]
"""A piece of the source, and what is to stand there."""

_LONGEST = 60
"""Lines of a fix that changes several places."""

_USUAL = {
    "jax.numpy": "jnp",
    "jax": "jax",
    "jax.lax": "jax.lax",
    "numpy": "np",
    "flax.linen": "nn",
    "flax.nnx": "nnx",
    "equinox": "eqx",
}


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
    keywords = [ast.keyword(name, copied(value)) for name, value in kwargs.items()]
    return ast.Call(expression(function), [copied(arg) for arg in args], keywords)


def extended(node: ast.Call, **words: ast.expr) -> ast.Call:
    """A call with further keywords."""
    return ast.Call(
        node.func, node.args, [*node.keywords, *(ast.keyword(name, value) for name, value in words.items())]
    )


def taking(names: Iterable[str], body: ast.expr) -> ast.Lambda:
    """`lambda a, b: body`."""
    return ast.Lambda(ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, []), body)


def copied(node: Any, swaps: dict[int, ast.AST] | None = None, memo: dict[int, Any] | None = None) -> Any:
    """A copy of a tree.

    Only what belongs to the syntax is copied: a node of a file also knows its parent, and so the whole file.

    Args:
        node: A node, a list of them, or a field of one.
        swaps: What is to stand in the place of some nodes, by their identity.
        memo: Takes the copy of each node, by the node's identity.
    """
    if isinstance(node, list):
        return [copied(part, swaps, memo) for part in node]
    if not isinstance(node, ast.AST) or id(node) in (swaps or ()):
        return node if swaps is None else swaps.get(id(node), node)
    fields = {name: copied(value, swaps, memo) for name, value in ast.iter_fields(node)}
    places = {name: getattr(node, name) for name in node._attributes if hasattr(node, name)}
    made = type(node)(**fields, **places)
    if memo is not None:
        memo[id(node)] = made
    return made


def replaced(tree: ast.AST, old: ast.AST, new: ast.AST) -> Any:
    """A copy of `tree` with `new` where `old` stands."""
    return copied(tree, {id(old): new})


def with_parameters(
    file: str, node: ast.FunctionDef | ast.AsyncFunctionDef, names: list[str], *, in_front: bool = False
) -> tuple[str, Span]:
    """The header of a `def` with further parameters, and its place; after defaults they are keywords only."""
    changed = copied(node)
    if in_front:
        (changed.args.posonlyargs or changed.args.args)[:0] = [ast.arg(name) for name in names]
    else:
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


def with_decorators(file: str, function: ast.FunctionDef) -> Span:
    """A function from its first decorator on."""
    span = span_of(file, function)
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return Span(file, first, function.col_offset, span.end_line, span.end_column)


def merged(edits: list[Edit], *, in_lines: bool = False) -> tuple[str, Span | None]:
    """Several changes of one file as one: the text from the first to the last of them, as it is to read.

    In whole lines, if asked for: what begins or ends in the middle of one can't be read.

    Empty where they are far apart, or in several files.
    """
    edits = sorted(edits, key=lambda edit: (edit[0].line, edit[0].column))
    first, last = edits[0][0], edits[-1][0]
    if any(span.file != first.file for span, _ in edits) or last.end_line - first.line >= _LONGEST:
        return "", None
    whole = Span(first.file, first.line, first.column, last.end_line, last.end_column)
    if (begin := _outermost_line(first.file, first.line, last.end_line)) < first.line:
        column = len(_margin(lines_of(first.file)[begin - 1].encode()))
        whole = first = Span(first.file, begin, column, last.end_line, last.end_column)
    if in_lines:
        begin, end = (lines_of(first.file)[number - 1].rstrip("\n") for number in (first.line, last.end_line))
        whole = Span(first.file, first.line, len(_margin(begin.encode())), last.end_line, len(end.encode()))
    lines = [line.rstrip("\n").encode() for line in source.lines_of(first.file)[: last.end_line]]
    margin = _margin(lines[first.line - 1])
    for span, code in reversed(edits):
        inner = _margin(lines[span.line - 1])
        begin, *rest = code.split("\n")
        new = "\n".join([begin, *(inner + line if line else line for line in rest)]).encode()
        before, after = lines[span.line - 1][: span.column], lines[span.end_line - 1][span.end_column :]
        lines[span.line - 1 : span.end_line] = (before + new + after).split(b"\n")
    tail = len(source.lines_of(first.file)[last.end_line - 1].encode().rstrip(b"\n")) - whole.end_column
    text_of = b"\n".join(lines[first.line - 1 :])
    text_of = text_of[whole.column : len(text_of) - tail]
    return "\n".join(line.removeprefix(margin) for line in text_of.decode().split("\n")), whole


def _margin(line: bytes) -> str:
    return " " * (len(line) - len(line.lstrip()))


def _outermost_line(file: str, first: int, last: int) -> int:
    """The line, at or above the first, that is indented no more than any line from there to the last."""
    lines = lines_of(file)
    margins = [len(_margin(line.encode())) if line.strip() else None for line in lines[:last]]
    least = min((margin for margin in margins[first - 1 :] if margin is not None), default=0)
    while first > 1 and (margins[first - 1] is None or (margins[first - 1] or 0) > least):
        first -= 1
    return first
