"""Functions that draw or read while they are traced, rewritten to take a key, or what they read, as an argument."""

import ast
from typing import Any

from jaxmagic.core.rules.ran import Ran
from jaxmagic.core.rules.rewrite import add_parameters, call, copied, text
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
    "randint": "randint",
    "integers": "randint",
}
_BOUNDS = {
    "normal": ((0.0, ("loc", "mu")), (1.0, ("scale", "sigma"))),
    "uniform": ((0.0, ("low", "a")), (1.0, ("high", "b"))),
}
"""What a draw takes besides its shape, with the usual value and the names it goes by."""


def with_key(piece: Ran, names: dict[int, str], calls: list[ast.Call]) -> tuple[str, Span | None]:
    """The function with a parameter `key` and `jax.random` for each draw; empty where a draw has no twin there.

    Args:
        piece: The function.
        names: Full names of the called functions, by the identity of the call.
        calls: The draws, in source order.
    """
    if not isinstance(piece.node, ast.FunctionDef) or _decides(piece, calls):
        return "", None
    keys = ["key"] if len(calls) == 1 else [f"key{number}" for number in range(1, len(calls) + 1)]
    memo: dict[int, Any] = {}
    changed = copied(piece.node, memo=memo)
    swaps = {}
    for node, key in zip(calls, keys, strict=True):
        twin = _twin(node, names[id(node)], key)
        if twin is None:
            return "", None
        swaps[id(memo[id(node)])] = twin
    _Swaps(swaps).visit(changed)
    add_parameters(changed.args, ["key"])
    if len(keys) > 1:
        changed.body.insert(0, ast.parse(f"{', '.join(keys)} = jax.random.split(key, {len(keys)})").body[0])
    return f"{text(changed)}\n# with a new key for each call: {_called(changed)}", _whole(piece)


def with_argument(piece: Ran, node: ast.expr, name: str) -> tuple[str, Span | None]:
    """The function with a parameter in the place of what it reads; empty where its header can't have one."""
    if not isinstance(piece.node, ast.FunctionDef) or name in piece.local:
        return "", None
    memo: dict[int, Any] = {}
    changed = copied(piece.node, memo=memo)
    _Swaps({id(memo[id(node)]): ast.Name(name, ast.Load())}).visit(changed)
    add_parameters(changed.args, [name])
    return f"{text(changed)}\n# {name} = {piece.text(node)}, at each call: {_called(changed)}", _whole(piece)


def _called(function: ast.FunctionDef) -> str:
    named = [f"{arg.arg}={arg.arg}" for arg in function.args.kwonlyargs]
    return f"{function.name}({', '.join([*(arg.arg for arg in function.args.args if arg.arg != 'self'), *named])})"


def _whole(piece: Ran) -> Span:
    """The function with its decorators."""
    assert isinstance(piece.node, ast.FunctionDef)
    first = min([piece.node.lineno, *(decorator.lineno for decorator in piece.node.decorator_list)])
    whole = piece.span_of(piece.node)
    return Span(piece.file, first, whole.column, whole.end_line, whole.end_column)


class _Swaps(ast.NodeTransformer):
    def __init__(self, swaps: dict[int, ast.expr]) -> None:
        self.swaps = swaps

    def visit(self, node: ast.AST) -> ast.AST:
        return self.swaps.get(id(node)) or super().visit(node)


def _decides(piece: Ran, calls: list[ast.Call]) -> bool:
    """Whether Python itself needs a draw: a traced one can't be the condition of an `if` or a list's index."""
    tests = [node.test for node in piece.own if isinstance(node, ast.If | ast.While | ast.IfExp)]
    return any(draw in ast.walk(test) for draw in calls for test in tests)


def _twin(node: ast.Call, name: str, key: str) -> ast.expr | None:
    """The same draw by `jax.random`, location and scale written out."""
    drawn = name.rpartition(".")[2]
    if drawn not in _SAME:
        return None
    function, key_node = f"jax.random.{_SAME[drawn]}", ast.Name(key, ast.Load())
    named: dict[str | None, ast.expr] = {word.arg: word.value for word in node.keywords}
    shape = named.pop("size", None)
    given = list(node.args)
    if named and _SAME[drawn] not in _BOUNDS:
        return None
    if drawn in ("permutation", "choice"):
        listed = not given or isinstance(given[0], ast.List | ast.Tuple)
        return None if listed else call(function, key_node, *given, *([shape] if shape is not None else []))
    if drawn in ("randint", "integers"):
        return _integers(function, key_node, given, shape) if name.startswith("numpy.") else None
    if drawn in ("randn", "rand"):
        return call(function, key_node, ast.Tuple(given)) if given else call(function, key_node)
    if drawn in ("random", "random_sample", "standard_normal"):
        shape, given = (given[0], []) if given else (shape, given)
    elif len(given) == 3:
        *given, shape = given
    draw = call(function, key_node, *([shape] if shape is not None else []))
    if not given and not named:
        return draw
    bounds = _bounds(_SAME[drawn], given, named)
    return _moved(draw, function, *bounds) if bounds is not None else None


def _bounds(drawn: str, given: list[ast.expr], named: dict[str | None, ast.expr]) -> tuple[ast.expr, ast.expr] | None:
    """Location and scale, or the two bounds; what is not given has its default."""
    found = []
    for place, (usual, names) in enumerate(_BOUNDS.get(drawn, ())):
        named_one = next((named.pop(name) for name in names if name in named), ast.Constant(usual))
        found.append(given[place] if place < len(given) else named_one)
    return (found[0], found[1]) if len(found) == 2 and len(given) <= 2 and not named else None


def _integers(function: str, key: ast.Name, given: list[ast.expr], shape: ast.expr | None) -> ast.expr | None:
    """`randint(low, high, size)`, where one bound alone is the upper one."""
    low, high = (ast.Constant(0), given[0]) if len(given) == 1 else (given[0], given[1]) if given else (None, None)
    shape = given[2] if len(given) == 3 else shape
    return call(function, key, shape or ast.Tuple([], ast.Load()), low, high) if low and high else None


def _moved(draw: ast.Call, function: str, first: ast.expr, second: ast.expr) -> ast.expr:
    """`loc + scale * normal`, or the bounds of a uniform draw."""
    if function.endswith("uniform"):
        draw.keywords += [ast.keyword("minval", first), ast.keyword("maxval", second)]
        return draw
    scaled = ast.BinOp(second, ast.Mult(), draw)
    centred = isinstance(first, ast.Constant) and first.value == 0
    return scaled if centred else ast.BinOp(first, ast.Add(), scaled)
