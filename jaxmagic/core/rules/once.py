"""Statements with an effect in compiled functions: they ran while the function was traced, and not with the program."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from jaxmagic.core.failures.operands import is_array
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.ran import Ran, imports, ran
from jaxmagic.core.rules.scopes import binder
from jaxmagic.core.rules.stores import kept_defaults, root_name
from jaxmagic.core.rules.tracers_kept import tracers
from jaxmagic.core.rules.writes import MUTATORS
from jaxmagic.core.source.nodes import path_to
from jaxmagic.records import Compiled, Leaf, Span

_TOLD = ("write", "writelines", "writerow", "log", "log_metrics", "add_scalar")
_MAKING = ("__init__", "__post_init__", "setup")


@dataclass(frozen=True, eq=False)
class Effect:
    """A statement that changes what outlives the call."""

    piece: Ran
    statement: ast.stmt
    target: ast.expr
    """What it changes: `count`, `self.steps`, `history`."""
    name: str
    """The jitted function that it ran for, or the body of a loop."""
    traced: tuple[Span, ...]
    """The calls for which that was traced, as far as they are known."""
    traces: int
    calls: int
    """How often the function was called; 0 for the body of a loop, which runs in every pass."""


def effects(observed: Observed) -> Iterator[Effect]:
    """Of functions whose programs ran more often than they were traced, and of what loops run in every pass."""
    for piece in ran(observed):
        if not piece.compiled or _last(piece) in _MAKING:
            continue
        one, passes = _program(observed, piece), _as_a_body(piece)
        if one is None and not passes:
            continue
        for node in piece.own:
            target = _changed(node)
            if target is not None and _outlives(observed, piece, target) and not _fills_a_cache(piece, node):
                assert isinstance(node, ast.stmt)
                if one is None:
                    yield Effect(piece, node, target, _last(piece), (), passes, 0)
                    continue
                fresh = [trace for trace in one.traces if not trace.cached]
                spans = tuple(trace.span for trace in fresh if trace.span is not None)
                yield Effect(piece, node, target, one.name, spans, len(fresh), one.calls)


def _as_a_body(piece: Ran) -> int:
    """How often it ran as the body of a compiled loop, where it ran as nothing else."""
    bodies = [call.times for call in piece.calls if call.transforms[:1] and call.transforms[0].endswith(" body")]
    return sum(bodies) if len(bodies) == len(piece.calls) else 0


def _last(piece: Ran) -> str:
    return piece.name.rpartition(".")[2]


def _program(observed: Observed, piece: Ran) -> Compiled | None:
    """The jitted function that a piece ran for, if all its traces were seen and its program ran again."""
    names = {word.partition(" ")[2] for call in piece.calls for word in call.transforms if word.startswith("jit ")}
    found = [
        one
        for one in observed.compiled
        if one.kind == "jit" and not one.library and one.parent is None and (one.name in names or _is(one, piece))
    ]
    fresh = [trace for one in found for trace in one.traces if not trace.cached]
    return found[0] if len(found) == 1 and fresh and found[0].calls > len(fresh) else None


def _is(one: Compiled, piece: Ran) -> bool:
    return one.span is not None and one.span == piece.span_of(piece.node)


def _changed(node: ast.AST) -> ast.expr | None:
    """What a statement changes in place, or binds by a name that may be global."""
    match node:
        case ast.AugAssign(target=target) | ast.Assign(targets=[target]):
            return target if isinstance(target, ast.Name | ast.Attribute | ast.Subscript) else None
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=holder, attr=method))) if method in (*MUTATORS, *_TOLD):
            return holder
    return None


def _outlives(observed: Observed, piece: Ran, target: ast.expr) -> bool:
    """Whether it is a plain thing from outside: no tracer, which is a leak, and no part of a traced argument."""
    root = root_name(target)
    if not root or root in imports(piece.file):
        return False
    if isinstance(target, ast.Name) and not isinstance(target.ctx, ast.Load) and root not in piece.shared:
        return False
    if root in piece.local and not isinstance(piece.node, ast.Module):
        if root in kept_defaults(piece.node) and not (
            isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
        ):
            return not any(leaf.kind == "traced" for leaf in _leaves(observed, piece, root))
        return root == "self" and isinstance(target, ast.Attribute) and not _is_traced(observed, piece, root)
    outer = binder(piece, root)
    if outer is not None:
        return all(not call.traced for each in ran(observed) if each.node is outer.node for call in each.calls)
    held = observed.namespace.get(root)
    return held is not None and not is_array(held) and next(tracers(held), None) is None


def _is_traced(observed: Observed, piece: Ran, name: str) -> bool:
    """Whether an object holds traced arrays, as Flax's modules do, or its method is not the one that is jitted."""
    direct = any(call.transforms[:1] == (f"jit {_last(piece)}",) for call in piece.calls) or bool(_as_a_body(piece))
    named = any(call.transforms and call.transforms[0].endswith(piece.name) for call in piece.calls)
    return not (direct or named) or any(leaf.kind == "traced" for leaf in _leaves(observed, piece, name))


def _leaves(observed: Observed, piece: Ran, name: str) -> Iterator[Leaf]:
    """The arrays that a variable of a piece held."""
    for hint in observed.hints:
        own = (hint.function, hint.span.file) == (piece.name, piece.file)
        if own and (hint.name == name or hint.name.startswith(f"{name}.")):
            yield from hint.leaves


def _fills_a_cache(piece: Ran, node: ast.AST) -> bool:
    """`if n not in table: table[n] = …`, which is meant to run once."""
    for outer in path_to(piece.node, node):
        match outer:
            case ast.If(test=ast.Compare(ops=[ast.NotIn() | ast.Is() | ast.IsNot()])):
                return True
    return False


def reads(effect: Effect) -> Iterator[ast.Name | ast.Attribute]:
    """Where the function computes with what it changes, the change itself and prints left out."""
    shown = ast.unparse(effect.target)
    telling = [node for node in effect.piece.own if isinstance(node, ast.Expr)]
    apart = {part for node in (effect.statement, *telling) for part in ast.walk(node)}
    for node in effect.piece.own:
        match node:
            case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()) if node not in apart:
                if ast.unparse(node) == shown:
                    yield node
