"""Calls of JAX's control flow: their arguments, and types as its messages spell them."""

import ast
import re

from jaxmagic.records import Aval, Span

Fix = tuple[str, Span | None]
"""Code, and the span it stands in for."""


def argument(node: ast.Call, index: int, *names: str) -> ast.expr | None:
    for keyword in node.keywords:
        if keyword.arg in names:
            return keyword.value
    return node.args[index] if index < len(node.args) else None


def short_type(spelled: str) -> str:
    """`bfloat16[2]` as `bf16[2]`."""
    match = re.fullmatch(r"~?(\w+)\[([\d,]*)\]", spelled)
    if match is None:
        return spelled
    sizes = tuple(int(size) for size in match[2].split(",") if size)
    return str(Aval(sizes, match[1], spelled.startswith("~")))
