"""Programs that are larger than they need be: Python loops written out, and big arrays baked in."""

import ast
from collections import Counter
from collections.abc import Iterator

from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.equations import placed
from jaxmagic.core.rules.ran import Ran, ran
from jaxmagic.core.rules.rewrite import tupled
from jaxmagic.core.rules.rolled import rolled
from jaxmagic.core.source.nodes import loaded, stored
from jaxmagic.records import Compiled, Evidence, Program, Trace

UNROLLED = 300
"""Equations from the body of one Python loop that are worth a finding."""
BIG = 1_000_000
"""Bytes of a constant that are worth a finding."""


@on_cell("loop-unrolled", "slow", "a Python loop writes its body into the program once for each pass")
def loop_unrolled(observed: Observed) -> Iterator[Cause]:
    """A Python loop in a compiled function runs while it is traced: each pass adds its equations to the program, and
    the time to compile grows with it. `jax.lax.scan` and `fori_loop` hold the body once.

    Sure: the equations are counted by the lines they came from, and where the passes are counted (`range`, `while`)
    those of functions that the body calls too: a model calls each of its layers in such a loop, and each is another.
    Reported from 300 on, where one line made at least ten. The loop is rewritten where its body binds plain names to
    arrays that keep their shape and dtype, and the number of the pass only goes where an array may go.
    """
    own: Counter[tuple[str, int]] = Counter()
    called: Counter[tuple[str, int]] = Counter()
    for program in (trace.program for one in observed.compiled for trace in one.traces if trace.program is not None):
        in_program = _by_line(program)
        own |= in_program[0]  # the largest program counts, not their sum
        called |= in_program[1]
    for piece in ran(observed):
        said: set[ast.AST] = set()
        for loop in piece.own if piece.compiled and called else ():
            if isinstance(loop, ast.For | ast.While | ast.ListComp | ast.GeneratorExp) and loop not in said:
                for cause in _unrolled(observed, piece, loop, called if _is_counted(loop) else own):
                    said.update(ast.walk(loop))  # a loop inside of it is the same cause
                    yield cause


def _is_counted(loop: ast.For | ast.While | ast.ListComp | ast.GeneratorExp) -> bool:
    """Whether the passes do the same over and over, as far as the loop's head tells."""
    if isinstance(loop, ast.While):
        return True
    over = loop.iter if isinstance(loop, ast.For) else loop.generators[0].iter
    return any(isinstance(node, ast.Name) and node.id == "range" for node in ast.walk(over))


def _by_line(program: Program) -> tuple[Counter[tuple[str, int]], Counter[tuple[str, int]]]:
    """Equations of each line, and with those of the functions that the line calls."""
    own: Counter[tuple[str, int]] = Counter()
    called: Counter[tuple[str, int]] = Counter()
    for _, places in placed(program):
        lines = dict.fromkeys((place.file, place.line) for place in places)
        own[next(iter(lines))] += 1
        called.update(lines.keys())
    return own, called


def _unrolled(
    observed: Observed,
    piece: Ran,
    loop: ast.For | ast.While | ast.ListComp | ast.GeneratorExp,
    counts: Counter[tuple[str, int]],
) -> Iterator[Cause]:
    body = loop.body[0] if isinstance(loop, ast.For | ast.While) else loop
    lines = range(body.lineno, (loop.end_lineno or loop.lineno) + 1)
    total = sum(counts[piece.file, line] for line in lines)
    busiest = max(lines, key=lambda line: counts[piece.file, line])
    if total < UNROLLED or counts[piece.file, busiest] < 10:
        return
    fix, replaces = rolled(observed, piece, loop)
    head = loop.target if isinstance(loop, ast.For) else loop.test if isinstance(loop, ast.While) else loop
    what = "`jax.lax.fori_loop` (or `scan`, where passes have inputs or outputs) holds the body once."
    if not isinstance(loop, ast.For | ast.While):
        what = "`jax.vmap` over the passes, or `jax.lax.map`, holds the body once."
    elif not fix:
        what += f" {_way(piece, loop)}"
    yield Cause(
        title=f"`{piece.text(loop).splitlines()[0]}` became {total:,} equations",
        explanation="The loop ran while the function was traced and wrote its body into the program once for each "
        f"pass. {what}",
        span=piece.span_of(head),
        evidence=(Evidence(f"{counts[piece.file, busiest]:,} equations from line {busiest}"),),
        fix=fix,
        replaces=replaces,
    )


def _way(piece: Ran, loop: ast.For | ast.While) -> str:
    """What to write, where the body can't be taken as it is."""
    names = [name for name in stored(*loop.body) if name in loaded(loop)]
    state = tupled(names) if names else "state"
    held = state if len(names) == 1 else f"({state})"
    if isinstance(loop, ast.While):
        return f"Write `{held} = jax.lax.while_loop(condition, body, {held})` with two functions of `{state}`."
    over = piece.text(loop.iter)
    return f"Write `{held}, outs = jax.lax.scan(body, {held}, xs)` with a body of `{state}` and of what `{over}` gives."


@on_cell("big-constant", "slow", "a large array is baked into a compiled program")
def big_constant(observed: Observed) -> Iterator[Cause]:
    """An array that a compiled function reads from outside becomes a constant of the program: it is copied into it,
    folded over at compile time, and stays in memory as long as the program. Pass it as an argument.

    Sure: of the constant and its size. Reported from one megabyte on.
    """
    for one in observed.compiled:
        for trace in one.traces:
            yield from _constants(one, trace)


def _constants(one: Compiled, trace: Trace) -> Iterator[Cause]:
    for constant in trace.constants:
        if constant.bytes >= BIG and not one.library:
            named = f"`{constant.name}`" if constant.name else "an array from outside"
            yield Cause(
                title=f"`{one.name}` has {named} ({constant.aval}, {constant.bytes / 1e6:.3g} MB) baked in",
                explanation="It was read from outside while the function was traced, and is now part of the program. "
                "Pass it as an argument.",
                span=one.span,
            )
