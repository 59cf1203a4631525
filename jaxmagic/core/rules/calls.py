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
    """`bfloat16[2]` as `bf16[2]`, with the mesh axes along which it differs inside of shard_map."""
    match = re.fullmatch(r"~?(\w+)\[([\d,]*)\](\{V:.*\})?", spelled)
    if match is None:
        return spelled
    sizes = tuple(int(size) for size in match[2].split(",") if size)
    varying = f" differing over {', '.join(varies_over(spelled))}" if match[3] else ""
    return str(Aval(sizes, match[1], spelled.startswith("~"))) + varying


def varies_over(spelled: str) -> list[str]:
    """Mesh axes along which a value differs, inside of shard_map: `x` of `float32[2]{V:x}`."""
    match = re.search(r"\{V:\(?(.*?)\)?\}", spelled)
    return re.findall(r"\w+", match[1]) if match else []


def made_varying(lax: str, value: ast.expr, axes: list[str]) -> str:
    """`jax.lax.pcast(value, ("x",), to="varying")`."""
    over = ast.Tuple([ast.Constant(axis) for axis in axes])
    return ast.unparse(
        ast.Call(
            ast.parse(f"{lax}.pcast", mode="eval").body, [value, over], [ast.keyword("to", ast.Constant("varying"))]
        )
    )
