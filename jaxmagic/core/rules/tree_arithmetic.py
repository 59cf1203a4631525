"""Arithmetic on trees of arrays as if they were arrays: `params - 0.1 * grads` of two dicts."""

import ast
from collections.abc import Iterator
from typing import Any

from jaxmagic.core.failures.operands import aval_of
from jaxmagic.core.lines.attributes import class_attribute
from jaxmagic.core.lines.containers import children
from jaxmagic.core.rules.calls import Fix
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.equinox import is_module
from jaxmagic.core.rules.filtered import other_leaves
from jaxmagic.core.rules.rewrite import alias, call, copied, taking, text
from jaxmagic.core.rules.wording import listed
from jaxmagic.records import Evidence

_DEEPEST = 6


@on_error("tree-arithmetic", "a dict or another tree of arrays is added, subtracted or scaled as if it were an array")
def tree_arithmetic(failing: Failing) -> Cause | None:
    """Python's operators don't go into dicts, lists and tuples. `jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)`
    computes with the arrays in them, one by one.

    Sure: Python refused the operator, and the operand holds arrays that no single one can be made of.
    """
    if failing.kind != "TypeError" or not isinstance(failing.node, ast.BinOp | ast.UnaryOp | ast.AugAssign):
        return None
    if not failing.says(
        r"^unsupported operand type|^can't multiply sequence|^bad operand type|requires ndarray or scalar"
    ):
        return None
    whole = _whole(failing, failing.node)
    operands = list(_operands(whole.target if isinstance(whole, ast.AugAssign) else whole))
    operands += list(_operands(whole.value)) if isinstance(whole, ast.AugAssign) else []
    trees = [each for each in operands if _is_tree(failing.scope.get(each))]
    if not trees:
        return None
    unlike = {_structure(failing.scope.get(each)) for each in trees}
    known = len(unlike) == 1 and all(failing.scope.get(each) is not None for each in operands)
    plain = not any(next(other_leaves(failing.scope.get(each)), "") for each in trees)
    fix, replaces = _mapped(failing, whole, trees) if known and plain else ("", None)
    kinds = {text(copied(each)): type(failing.scope.get(each)).__name__ for each in trees}
    names = listed(list(kinds))
    verb = f"is a {next(iter(kinds.values()))}" if len(kinds) == 1 else "are trees"
    return Cause(
        title=f"{names} {verb} of arrays, and operators don't look inside",
        explanation="`jax.tree.map` computes with the arrays in trees of the same structure, one by one.",
        span=failing.site.span_of(whole),
        evidence=tuple(
            Evidence(f"{failing.text(each)}: {_shown(failing.scope.get(each))}", failing.site.span_of(each))
            for each in trees
        ),
        fix=fix,
        replaces=replaces,
    )


def _whole(failing: Failing, node: ast.AST) -> ast.expr | ast.AugAssign:
    """The arithmetic that the failing operator is a part of."""
    for outer in failing.site.around:
        if not isinstance(outer, ast.BinOp | ast.UnaryOp | ast.AugAssign):
            break
        node = outer
    assert isinstance(node, ast.expr | ast.AugAssign)
    return node


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(left=left, right=right):
            yield from (*_operands(left), *_operands(right))
        case ast.UnaryOp(operand=operand):
            yield from _operands(operand)
        case _:
            yield node


def _is_tree(value: Any) -> bool:
    """Whether it is a container of arrays that can't be made one array: with names, or of several shapes."""
    parts = [part for _, part in children(value, lambda cls: False) or ()]
    avals = [aval_of(part) for part in parts]
    if aval_of(value) is not None or not parts or not _holds_arrays(value, 0):
        return False
    named = isinstance(value, dict) or type(class_attribute(type(value), "_fields")) is tuple or is_module(value)
    plain = type(value) in (list, tuple)
    return named or (plain and (None in avals or len({aval.shape for aval in avals if aval is not None}) > 1))


def _holds_arrays(value: Any, depth: int) -> bool:
    if aval_of(value) is not None:
        return True
    parts = children(value, lambda cls: False) if depth < _DEEPEST else None
    return any(_holds_arrays(part, depth + 1) for _, part in parts or ())


def _structure(value: Any, depth: int = 0) -> tuple[Any, ...]:
    parts = children(value, lambda cls: False) if depth < _DEEPEST and aval_of(value) is None else None
    return tuple((step, _structure(part, depth + 1)) for step, part in sorted(parts or (), key=lambda each: each[0]))


def _shown(value: Any) -> str:
    steps = [step for step, _ in children(value, lambda cls: False) or ()]
    more = f" and {len(steps) - 4} more" if len(steps) > 4 else ""
    return f"{type(value).__name__} with {', '.join(steps[:4])}{more}"


def _mapped(failing: Failing, whole: ast.expr | ast.AugAssign, trees: list[ast.expr]) -> Fix:
    spelled = {ast.unparse(each): each for each in trees}
    names = {code: _name(each, at) for at, (code, each) in enumerate(spelled.items())}
    if len(set(names.values())) < len(names):
        names = {code: f"leaf{at}" for at, code in enumerate(spelled, 1)}
    swaps: dict[int, ast.AST] = {id(each): ast.Name(names[ast.unparse(each)]) for each in trees}
    tree_map = f"{alias(failing.scope, 'jax')}.tree.map"
    if isinstance(whole, ast.AugAssign):
        target = copied(whole.target)
        body = ast.BinOp(copied(whole.target, swaps), whole.op, copied(whole.value, swaps))
        return (
            f"{text(target)} = {text(call(tree_map, taking(names.values(), body), *spelled.values()))}",
            failing.site.span_of(whole),
        )
    mapped = call(tree_map, taking(names.values(), copied(whole, swaps)), *spelled.values())
    return text(mapped), failing.site.span_of(whole)


def _name(node: ast.expr, at: int) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return f"leaf{at + 1}"
