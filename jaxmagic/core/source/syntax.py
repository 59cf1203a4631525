"""Syntax nodes of a file by place: the statement on a line, the node with a span, the definition of a code object."""

import ast
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

from jaxmagic.core.source.stores import Position
from jaxmagic.core.source.texts import lines_of
from jaxmagic.records import Span

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
_COMPREHENSIONS = {
    "<listcomp>": ast.ListComp,
    "<setcomp>": ast.SetComp,
    "<dictcomp>": ast.DictComp,
    "<genexpr>": ast.GeneratorExp,
}


def tree(file: str) -> ast.Module | None:
    """The parsed source of a file; None where its text is unknown or is not Python."""
    return _parsed("".join(lines_of(file)))


@lru_cache(maxsize=128)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text) if text else None
    except (SyntaxError, ValueError):
        return None


def span_of(file: str, node: Any) -> Span:
    return Span(file, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


def node_at(span: Span) -> ast.AST | None:
    """The outermost node with exactly this span; of an expression that is a statement, the expression."""
    wanted = (span.line, span.column, span.end_line, span.end_column)
    around = _path(span.file, span.line, span.column)
    return next((node for node in around if _place(node) == wanted and not isinstance(node, ast.Expr)), None)


def function_at(span: Span) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None:
    """The innermost function around a place."""
    around = _path(span.file, span.line, span.column)
    functions = [node for node in around if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]
    return functions[-1] if functions else None


def statement_at(file: str, line: int, column: int | None = None) -> ast.stmt | None:
    """The innermost statement at a place; without a column, the first that begins or goes on in the line."""
    statements = [node for node in _path(file, line, column) if isinstance(node, ast.stmt)]
    return statements[-1] if statements else None


def statement_span(file: str, position: Position) -> Span:
    """The statement around a place without the statements inside it: of a loop or a `with`, the header."""
    column = position[1] if position[1] >= 0 else None
    statement = statement_at(file, position[0], column)
    if statement is None:
        return Span(file, position[0], max(position[1], 0), position[2], max(position[3], 0))
    line, column = statement.lineno, statement.col_offset
    if not hasattr(statement, "body"):
        return span_of(file, statement)
    ends = [_end(child) for child in ast.iter_child_nodes(statement) if not _is_block(child)]
    end_line, end_column = max((end for end in ends if end is not None), default=(line, column))
    return Span(file, line, column, end_line, end_column)


def definition(code: CodeType) -> ast.AST | None:
    """The `def`, `lambda`, class body or comprehension that a code object was compiled from."""
    body = _first_position(code)
    if body is None:
        return None
    kinds: Any = _COMPREHENSIONS.get(code.co_name, Definition)
    around = [node for node in _path(code.co_filename, body[0], body[1]) if isinstance(node, kinds)]
    made = [node for node in around if _made(node, code, body)]
    return made[-1] if made else None


def definition_span(code: CodeType) -> Span:
    """Where a code object is defined, decorators left out; its first line where there is no source."""
    node = definition(code)
    if node is not None:
        return span_of(code.co_filename, node)
    return Span(code.co_filename, code.co_firstlineno, 0, code.co_firstlineno, 0)


def parameter_span(code: CodeType, name: str) -> Span:
    """Where a parameter stands in the `def` or `lambda`; the definition's first line where there is no source."""
    node = definition(code)
    arguments = getattr(node, "args", None)
    if isinstance(arguments, ast.arguments):
        named = [each for each in ast.walk(arguments) if isinstance(each, ast.arg) and each.arg == name]
        if named:
            return span_of(code.co_filename, named[0])
    return Span(code.co_filename, code.co_firstlineno, 0, code.co_firstlineno, 0)


def return_span(code: CodeType, position: Position) -> Span:
    """The `return` statement around a place; of a lambda, its body."""
    node = definition(code)
    if isinstance(node, ast.Lambda):
        return span_of(code.co_filename, node.body)
    return statement_span(code.co_filename, position)


class _Place(NamedTuple):
    line: int
    column: int
    end_line: int
    end_column: int


def _path(file: str, line: int, column: int | None) -> list[ast.AST]:
    """The nodes around a place, outermost first. Without a column the whole line counts."""
    node: ast.AST | None = tree(file)
    path = []
    while node is not None:
        node = next((child for child in _children(node) if _covers(child, line, column)), None)
        if node is not None:
            path.append(node)
    return path


def _children(node: ast.AST) -> list[ast.AST]:
    """Child nodes that have a place; those without one (arguments, comprehension clauses) are looked through."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        found += [child] if hasattr(child, "lineno") else _children(child)
    return found


def _covers(node: Any, line: int, column: int | None) -> bool:
    first = _first_line(node)
    if column is None:
        return first <= line <= node.end_lineno
    begins = first < line if first < node.lineno else (node.lineno, node.col_offset) <= (line, column)
    return begins and (line, column) < (node.end_lineno, node.end_col_offset)


def _made(node: Any, code: CodeType, body: tuple[int, int]) -> bool:
    """Whether a node can be what `code` was compiled from, rather than a function that stands first inside of it."""
    name = "<lambda>" if isinstance(node, ast.Lambda) else getattr(node, "name", code.co_name)
    # A function's own body begins after it does; where both begin together, it is made by the code around it.
    inside = not isinstance(node, ast.Lambda) or (node.lineno, node.col_offset) != body
    return name == code.co_name and _first_line(node) == code.co_firstlineno and inside


def _first_line(node: Any) -> int:
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])


def _place(node: Any) -> _Place:
    return _Place(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


def _is_block(node: ast.AST) -> bool:
    return isinstance(node, ast.stmt | ast.excepthandler | ast.match_case)


def _end(node: Any) -> tuple[int, int] | None:
    places = [_place(each) for each in [node, *_children(node)] if hasattr(each, "lineno")]
    return max(((place.end_line, place.end_column) for place in places), default=None)


def _first_position(code: CodeType) -> tuple[int, int] | None:
    """The first place inside the body: the prologue has that of the whole definition, or none."""
    for line, _, column, _ in code.co_positions():
        if line and column and line >= code.co_firstlineno:
            return line, column
    return None
