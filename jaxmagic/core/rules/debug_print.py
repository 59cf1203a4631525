"""Calls of `print` and `jax.debug.print` in the user's source, and as they should have been written."""

import ast
import string

from jaxmagic.core.rules.rewrite import text
from jaxmagic.core.source import spans as source
from jaxmagic.records import Span


def call_at(span: Span | None) -> ast.Call | None:
    node = source.node_at(span) if span is not None else None
    return node if isinstance(node, ast.Call) and node.args else None


def is_shape(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def values_of(node: ast.Call) -> list[ast.expr]:
    """What is printed beside the format."""
    return [*node.args[1:], *(keyword.value for keyword in node.keywords)]


def in_its_place(span: Span) -> tuple[str, Span | None]:
    """`print("x =", x)` as `jax.debug.print("x = {}", x)`."""
    statement = source.node_at(span) or source.statement_at(span.file, span.line)
    for node in ast.walk(statement) if statement is not None else ():
        match node:
            case ast.Call(func=ast.Name(id="print"), args=[*args], keywords=[]):
                pattern, values = [], []
                for arg in args:
                    literal = arg.value if isinstance(arg, ast.Constant) and isinstance(arg.value, str) else None
                    pattern.append("{}" if literal is None else literal.replace("{", "{{").replace("}", "}}"))
                    values += [] if literal is not None else [arg]
                if any(isinstance(value, ast.JoinedStr | ast.Starred) for value in values):
                    return "", None
                shown = ast.Call(
                    ast.parse("jax.debug.print", mode="eval").body, [ast.Constant(" ".join(pattern)), *values], []
                )
                return text(shown), Span(
                    span.file, node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0
                )
    return "", None


def apart(node: ast.Call) -> str:
    """`jax.debug.print(f"x = {x}")` as `jax.debug.print("x = {}", x)`; empty for calls that have values already."""
    pattern = node.args[0]
    if not isinstance(pattern, ast.JoinedStr) or values_of(node):
        return ""
    formats, values = "", []
    for piece in pattern.values:
        if isinstance(piece, ast.FormattedValue):
            values.append(piece.value)
            given = ast.unparse(piece.format_spec)[2:-1] if piece.format_spec is not None else ""
            formats += f"{{:{given}}}" if given else "{}"
        else:
            formats += ast.literal_eval(piece)
    return text(ast.Call(node.func, [ast.Constant(formats), *values], []))


def with_static_shapes(node: ast.Call) -> str:
    """`jax.debug.print("{s} {}", x, s=x.shape)` as `jax.debug.print(f"{x.shape} {{}}", x)`; empty if it can't be."""
    pattern = node.args[0]
    if not isinstance(pattern, ast.Constant) or not isinstance(pattern.value, str):
        return ""
    pieces = _pieces(pattern.value, node)
    if pieces is None:
        return ""
    kept = [value for value in node.args[1:] if not is_shape(value)]
    keywords = [keyword for keyword in node.keywords if not is_shape(keyword.value)]
    return text(ast.Call(node.func, [ast.JoinedStr(pieces), *kept], keywords))


def _pieces(pattern: str, node: ast.Call) -> list[ast.expr] | None:
    """The format as parts of an f-string; None where its placeholders are numbered."""
    pieces: list[ast.expr] = []
    positional = iter(node.args[1:])
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    for literal, field, spec, _ in string.Formatter().parse(pattern):
        pieces.append(ast.Constant(_escaped(literal)))
        if field is None:
            continue
        value = next(positional, None) if field == "" else named.get(field)
        if value is None:
            return None
        shown = f"{{{field}:{spec}}}" if spec else f"{{{field}}}"
        pieces.append(ast.FormattedValue(value, -1) if is_shape(value) else ast.Constant(shown))
    return pieces


def _escaped(literal: str) -> str:
    return literal.replace("{", "{{").replace("}", "}}")
