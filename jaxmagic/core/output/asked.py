"""Where the user's source asks for a print or a callback that JAX runs later, when no frame of the user's is there."""

import ast
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from jaxmagic.core.source.living import Living
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Span


class Asked(NamedTuple):
    """What is known of it when it runs."""

    kind: Literal["print", "callback"]
    text: str
    """The format that was printed with, or the name of the function that was called back."""


_CALLBACKS = ("callback", "debug_callback", "io_callback", "pure_callback", "call", "id_tap")


def place_of(asked: Asked, sources: Sequence[Living]) -> Span | None:
    """The call in the newest cell or module that has one like it; None where that has several, or none has."""
    for file, tree in reversed(sources):
        found = [node for node in ast.walk(tree) if _is_like(asked, node)]
        if found:
            return span_of(file, found[0]) if len(found) == 1 else None
    return None


def _is_like(asked: Asked, node: ast.AST) -> bool:
    match node:
        case ast.Call(func=function, args=[first, *_]):
            if asked.kind == "print":
                return _is_debug_print(function) and _may_be(first, asked.text)
            return _name(function) in _CALLBACKS and _name(first) == asked.text
    return False


def _is_debug_print(function: ast.expr) -> bool:
    """`jax.debug.print`, or the same with its options given first; the builtin is a bare name."""
    match function:
        case ast.Attribute(attr="print"):
            return True
        case ast.Call(func=ast.Attribute(attr="print")):
            return True
    return False


def _may_be(pattern: ast.expr, text: str) -> bool:
    match pattern:
        case ast.Constant(value=str(constant)):
            return constant == text
        case ast.JoinedStr(values=values):
            parts = [re.escape(str(each.value)) if isinstance(each, ast.Constant) else ".*" for each in values]
            return re.fullmatch("".join(parts), text, re.DOTALL) is not None
    return False


def _name(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Lambda():
            return "<lambda>"
        case ast.Call(func=inner):
            return _name(inner)
    return ""
