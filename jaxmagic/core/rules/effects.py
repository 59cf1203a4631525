"""What a compiled function does besides computing: counts, lists and attributes that its program leaves alone."""

import ast
from collections.abc import Iterator

from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.once import Effect, effects, reads
from jaxmagic.core.rules.rewrite import copied, text
from jaxmagic.records import Evidence


@on_cell("effect-once", "note", "a statement with an effect ran while tracing, and not with every call or pass")
def effect_once(observed: Observed) -> Iterator[Cause]:
    """A counter, a list or an attribute that a compiled function changes is changed while the function is traced, once
    for each trace, and not when its program runs: after a hundred steps the counter says one. So it is with what the
    body of a compiled loop changes. Count outside, return what is to be kept, or use `jax.debug.callback`, which runs
    every time.

    Sure: the statement is in the source of a jitted function that was called more often than traced, or of the body of
    a `scan`, `while_loop` or `fori_loop`, which is traced once for all passes. A note, since counting traces, or
    filling a cache, may be what it is there for. A tracer that is stored so is an error of its own (`tracer-kept`);
    what the function also reads makes its program stale (`stale-program`).
    """
    for effect in effects(observed):
        if next(reads(effect), None) is None:
            yield _cause(effect)


def _cause(effect: Effect) -> Cause:
    piece, name = effect.piece, effect.name
    times = {1: "once", 2: "twice"}.get(effect.traces, f"{effect.traces} times")
    shown = " ".join(piece.text(effect.statement).split())
    runs = f"`{name}` was called {effect.calls:,} times" if effect.calls else f"`{name}` is the body of a compiled loop"
    every = "call" if effect.calls else "pass"
    return Cause(
        title=f"`{shown}` ran {times}, though {runs}",
        explanation=f"It changes `{text(effect.target)}` while `{name}` is traced; the compiled program does not do it "
        f"again. If every {every} should, do it outside, return the value, or use `jax.debug.callback`.",
        span=piece.span_of(effect.statement),
        evidence=tuple(Evidence("traced by this call", span) for span in effect.traced[:3]),
        fix=_each_time(effect),
        replaces=piece.span_of(effect.statement),
    )


def _each_time(effect: Effect) -> str:
    """The statement as a callback, which the program runs; empty for a variable, which no expression can bind."""
    match effect.statement:
        case ast.Expr(value=ast.Call() as call):
            change = call
        case ast.AugAssign(target=ast.Attribute(value=owner, attr=name) as target, op=op, value=value):
            new = ast.BinOp(copied(target), op, value)
            change = ast.Call(ast.Name("setattr", ast.Load()), [owner, ast.Constant(name), new], [])
        case _:
            return ""
    return f"jax.debug.callback(lambda: {text(change)})"
