"""Branches that vmap turned into a choice between results: both are computed, whichever is taken."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.equations import chosen
from jaxmagic.core.rules.functions_called import function_behind, own_function
from jaxmagic.core.rules.hosting import BRANCHING, effect_in, is_batched
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import text
from jaxmagic.core.source.nodes import name_called
from jaxmagic.records import Evidence, Span

_DEAR = ("scan", "while", "dot_general", "conv_general_dilated", "cholesky", "lu", "qr", "svd", "eigh", "sort", "fft")
"""Operations that are worth a word, where they run in vain."""


_LOOPS = ("jax.lax.scan", "jax.lax.fori_loop", "jax.lax.while_loop", "jax.lax.map")
_DEEPEST = 2


@on_cell("both-branches-run", "slow", "under vmap both branches of a cond are computed for every example")
def both_branches_run(observed: Observed) -> Iterator[Cause]:
    """Under vmap a `cond` or `switch` whose predicate differs from example to example becomes a choice between
    results: all branches are computed for all examples, the dear one too where hardly any example takes it.
    `jax.lax.map` computes only the branch taken, one example after the other.

    Sure: the program has a selection in the place of the branch; without jit, the predicate was batched. Reported only
    where a branch holds a loop, a product of matrices, a decomposition or a sort.
    """
    for piece in ran(observed):
        mapped = any(word.startswith("vmap") for call in piece.calls for word in call.transforms)
        for node in piece.own if mapped else ():
            if isinstance(node, ast.Call) and node.args and dotted(observed, piece, node.func) in BRANCHING:
                dear = _dear(observed, piece, node)
                if dear is not None and effect_in(observed, piece, node) is None:
                    yield _cause(observed, piece, node, dear)


class _Work(NamedTuple):
    primitive: str
    span: Span


def _dear(observed: Observed, piece: Ran, node: ast.Call) -> _Work | None:
    """The dearest operation of the branches, where a program chooses between their results."""
    span, branches = piece.span_of(node), _branches(observed, piece, node)
    spans = [branch.span_of(branch.node) for branch in branches]
    found = next(chosen(observed, span), None)
    if found is not None:
        dear = [(equation, places) for equation, places in found if equation.primitive in _DEAR]
        work = [_Work(equation.primitive, places[0]) for equation, places in dear if _inside(places, spans)]
        return min(work, key=lambda each: _DEAR.index(each.primitive), default=None)
    if piece.compiled or not is_batched(observed, piece, node.args[0]):
        return None
    return next((one for branch in branches if (one := _written(observed, branch)) is not None), None)


def _branches(observed: Observed, piece: Ran, node: ast.Call) -> list[Ran]:
    several = node.args[1] if len(node.args) > 1 else None
    given = several.elts if isinstance(several, ast.List | ast.Tuple) else node.args[1:3]
    found = [own_function(observed, piece, each) for each in given]
    return [each for each in found if each is not None]


def _written(observed: Observed, branch: Ran, depth: int = 0) -> _Work | None:
    """A dear operation in the source of a branch, or of a function that it calls."""
    for node in branch.own:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return _Work("matmul", branch.span_of(node))
        if isinstance(node, ast.Call):
            name = dotted(observed, branch, node.func)
            if name in _LOOPS or name.startswith("jax.numpy.linalg."):
                return _Work(name.rpartition(".")[2], branch.span_of(node))
            inner = function_behind(observed, branch, node.func) if depth < _DEEPEST else None
            if inner is not None and (found := _written(observed, inner, depth + 1)) is not None:
                return found
    return None


def _inside(places: list[Span], functions: list[Span]) -> bool:
    return any(
        place.file == function.file
        and (function.line, function.column) <= (place.line, place.column)
        and (place.end_line, place.end_column) <= (function.end_line, function.end_column)
        for place in places
        for function in functions
    )


def _cause(observed: Observed, piece: Ran, node: ast.Call, work: _Work) -> Cause:
    fix, replaces = _one_by_one(observed, piece)
    return Cause(
        title=f"under vmap all branches of this {name_called(node)} are computed for every example",
        explanation=f"`{' '.join(piece.text(node.args[0]).split())}` differs from example to example, so the branches "
        "became a choice between results that are all computed. `jax.lax.map` in the place of vmap computes only the "
        "branch that is taken, one example after the other; or choose before vmap which examples need it.",
        span=piece.span_of(node),
        evidence=(Evidence(f"runs for every example: {work.primitive}", work.span),),
        fix=fix,
        replaces=replaces,
    )


def _one_by_one(observed: Observed, piece: Ran) -> tuple[str, Span | None]:
    """`jax.vmap(f)(xs)` as `jax.lax.map(f, xs)`."""
    for caller in ran(observed):
        for node in caller.own:
            match node:
                case ast.Call(func=ast.Call(func=mapping, args=[function], keywords=[]), args=[xs], keywords=[]):
                    behind = function_behind(observed, caller, function)
                    own = behind is not None and behind.node is piece.node
                    if own and dotted(observed, caller, mapping) == "jax.vmap":
                        return f"jax.lax.map({text(function)}, {text(xs)})", caller.span_of(node)
    return "", None
