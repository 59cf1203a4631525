"""Functions that draw random numbers of NumPy's or Python's, rewritten to take a key and use `jax.random`."""

import ast
import copy
from typing import Any

from jaxmagic.core.rules.ran import Ran
from jaxmagic.core.rules.rewrite import call, text
from jaxmagic.records import Span

_SAME = {
    "normal": "normal",
    "standard_normal": "normal",
    "gauss": "normal",
    "normalvariate": "normal",
    "randn": "normal",
    "uniform": "uniform",
    "rand": "uniform",
    "random": "uniform",
    "random_sample": "uniform",
    "exponential": "exponential",
    "permutation": "permutation",
    "choice": "choice",
}


def with_key(piece: Ran, names: dict[int, str], calls: list[ast.Call]) -> tuple[str, Span | None]:
    """The function with a parameter `key` and `jax.random` for each draw; empty where a draw has no twin there.

    Args:
        piece: The function.
        names: Full names of the called functions, by the identity of the call.
        calls: The draws, in source order.
    """
    if not isinstance(piece.node, ast.FunctionDef):
        return "", None
    keys = ["key"] if len(calls) == 1 else [f"key{number}" for number in range(1, len(calls) + 1)]
    memo: dict[int, Any] = {}
    changed = copy.deepcopy(piece.node, memo)
    swaps = {}
    for node, key in zip(calls, keys, strict=True):
        twin = _twin(node, names[id(node)], key)
        if twin is None:
            return "", None
        swaps[id(memo[id(node)])] = twin
    _Swaps(swaps).visit(changed)
    changed.args.args.append(ast.arg("key"))
    if len(keys) > 1:
        changed.body.insert(0, ast.parse(f"{', '.join(keys)} = jax.random.split(key, {len(keys)})").body[0])
    given = ", ".join(arg.arg for arg in changed.args.args)
    first = min([piece.node.lineno, *(decorator.lineno for decorator in piece.node.decorator_list)])
    whole = piece.span_of(piece.node)
    replaces = Span(piece.file, first, whole.column, whole.end_line, whole.end_column)
    return f"{text(changed)}\n# with a new key for each call: {changed.name}({given})", replaces


class _Swaps(ast.NodeTransformer):
    def __init__(self, swaps: dict[int, ast.expr]) -> None:
        self.swaps = swaps

    def visit(self, node: ast.AST) -> ast.AST:
        return self.swaps.get(id(node)) or super().visit(node)


def _twin(node: ast.Call, name: str, key: str) -> ast.expr | None:
    """The same draw by `jax.random`, location and scale written out."""
    drawn = name.rpartition(".")[2]
    if drawn not in _SAME:
        return None
    function, key_node = f"jax.random.{_SAME[drawn]}", ast.Name(key, ast.Load())
    shape = next((word.value for word in node.keywords if word.arg in ("size", "shape")), None)
    given = list(node.args)
    if drawn in ("permutation", "choice"):
        return call(function, key_node, *given)
    if drawn in ("randn", "rand"):
        return call(function, key_node, ast.Tuple(given)) if given else call(function, key_node)
    if drawn in ("random", "random_sample", "standard_normal"):
        shape, given = (given[0], []) if given else (shape, given)
    elif len(given) == 3:
        *given, shape = given
    draw = call(function, key_node, *([shape] if shape is not None else []))
    return _moved(draw, function, given) if len(given) in (0, 2) else None


def _moved(draw: ast.Call, function: str, given: list[ast.expr]) -> ast.expr:
    """`loc + scale * normal`, or the bounds of a uniform draw."""
    if not given:
        return draw
    first, second = given
    if function.endswith("uniform"):
        draw.keywords += [ast.keyword("minval", first), ast.keyword("maxval", second)]
        return draw
    return ast.BinOp(first, ast.Add(), ast.BinOp(second, ast.Mult(), draw))
