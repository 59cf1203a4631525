"""Results that come in another container than was expected, rewritten to come in that one."""

import ast
from collections.abc import Iterable
from typing import Any


def contained_as(result: ast.expr, wanted: ast.expr | None, rest: str = "") -> ast.expr | None:
    """The same values in the container that another expression makes.

    Args:
        result: What a function returns.
        wanted: An expression of the structure that it should have, from `spelled`.
        rest: A variable of that structure, to take the keys from that a dict lacks.

    Returns:
        The rewritten result; None where other values are wanted, or nothing has to change.
    """
    match result, wanted:
        case (ast.Tuple(elts=given), ast.List(elts=like)) | (ast.List(elts=given), ast.Tuple(elts=like)):
            return type(wanted)(given, ast.Load()) if len(given) == len(like) else None
        case ast.Tuple(elts=[one]) | ast.Tuple(elts=[one, ast.Constant(value=None)]), ast.Name():
            return one
        case ast.Dict(keys=given), ast.Dict(keys=like) if rest and None not in given:
            lacks = _named(like) > _named(given)
            return ast.Dict([None, *given], [ast.Name(rest), *result.values]) if lacks else None
    return None


def spelled(node: ast.expr | None, value: Any) -> ast.expr | None:
    """An expression of a value's structure: as it is written, or made up after the value; a name for an array."""
    leaf = ast.Name("x")
    match node, value:
        case ((ast.Tuple() | ast.List() | ast.Dict()), _):
            return node
        case _, dict():
            return ast.Dict([ast.Constant(key) for key in value], [leaf for _ in value])
        case _, list():
            return ast.List([leaf for _ in value], ast.Load())
        case _, tuple() if type(value) is tuple:
            return ast.Tuple([leaf for _ in value], ast.Load())
    return leaf if hasattr(value, "dtype") or isinstance(value, int | float | complex) else None


def _named(keys: Iterable[ast.expr | None]) -> set[Any]:
    return {key.value for key in keys if isinstance(key, ast.Constant)}
