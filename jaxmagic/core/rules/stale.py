"""Compiled programs that are not what their code gives now: changed globals, attributes, closures, helpers."""

import ast
from collections.abc import Iterator

from jaxmagic.core.capture.entries import Stale
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.drifted import changed
from jaxmagic.core.rules.once import Effect, effects, reads
from jaxmagic.core.rules.outside import Outer, as_argument, whole
from jaxmagic.core.rules.rebinding import Rebinding, rebindings
from jaxmagic.core.rules.redefined import Redefined, redefinitions
from jaxmagic.core.rules.rewrite import text
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence


@on_cell("stale-program", "wrong-result", "a cached program was run that its function's code would not give now")
def stale_program(observed: Observed) -> Iterator[Cause]:
    """Jit traces a function once for each kind of arguments. What it read from outside then (a global, an attribute,
    a closure, a helper function) is part of the program; changing it later changes nothing, until some other
    argument type traces again and picks it up. Setting the variable in a notebook and calling again is the usual
    way to meet it.

    Sure: across cells the function was traced a second time, only to be looked at, and gives another program. Which
    name changed is read from the source of the operation that differs. Within one cell: what the function reads,
    itself or by a helper, was set between two calls, or between two passes of a loop that calls it, and no trace came
    after; or the function changes it itself, which happens only while it is traced.

    Not sure: that `g = jax.jit(f)` still runs the `f` of before where a later cell defines `f` anew. It may be kept on
    purpose; it is not reported where the new one is jitted too.
    """
    yield from (_within_the_cell(observed, found) for found in rebindings(observed))
    for effect in effects(observed):
        if (read := next(reads(effect), None)) is not None:
            yield _by_itself(effect, read)
    for stale in observed.stale:
        yield _across_cells(observed, stale)
    yield from map(_older, redefinitions(observed))


def _across_cells(observed: Observed, stale: Stale) -> Cause:
    found = changed(observed, stale)
    names = list(dict.fromkeys(each.read.text for each in found))
    named = " and ".join(f"`{name}`" for name in names[:2]) or "something it reads from outside"
    drift = next((each for each in stale.drifts if each.before != each.after), None)
    values = f"{drift.before} in the program, {drift.after} now" if drift is not None else ""
    if len(found) == 1 and found[0].now and (drift is None or found[0].now != drift.after):
        values = f"{found[0].now} now"
    fix, replaces = (
        as_argument(observed, found[0].read) if len(found) == 1 and found[0].own and stale.drifts else ("", None)
    )
    written = [each for each in found if each.write is not None]
    return Cause(
        title=f"`{stale.name}` ran a program that still uses the old {named}{': ' * bool(values)}{values}",
        explanation=f"{named} was read when `{stale.name}` was traced and is part of the compiled program; "
        "changing it afterwards has no effect on calls that find the program in the cache. Make it an argument.",
        span=stale.call or stale.span,
        evidence=(
            *dict.fromkeys(Evidence(f"changed here: {each.changed_by}", each.write) for each in written[:3]),
            *([Evidence(stale.text)] if not stale.drifts else []),
            *(
                Evidence(f"{each.what}: {each.before} in the program, {each.after} now", each.span)
                for each in stale.drifts[:3]
            ),
        ),
        fix=fix,
        replaces=replaces,
    )


def _within_the_cell(observed: Observed, found: Rebinding) -> Cause:
    piece, cell = found.function, found.caller
    values = [f"{found.before} in the program"] * bool(found.before) + [f"{found.value} now"] * bool(found.value)
    change = cell.text(found.write).splitlines()[0]
    evidence = [Evidence(f"changed here: {change}", cell.span_of(found.write))]
    if found.read is not None:
        evidence.append(
            Evidence(f"read when traced: {found.reader.text(found.read)}", found.reader.span_of(found.read))
        )
    own = found.read is not None and found.reader.node is piece.node
    fix, replaces = as_argument(observed, Outer(piece, whole(piece, found.read))) if own else ("", None)
    return Cause(
        title=f"`{found.name}` ran a program that still uses the old `{found.target}`{': ' * bool(values)}"
        f"{', '.join(values)}",
        explanation=f"It was read when `{found.name}` was traced and is part of the compiled program; "
        f"`{change}` came after, and this call found the program in the cache. "
        "Jitting the same function or bound method again finds it too. Make it an argument.",
        span=cell.span_of(found.call),
        evidence=tuple(evidence),
        fix=fix,
        replaces=replaces,
    )


def _by_itself(effect: Effect, read: ast.expr) -> Cause:
    piece, name, target = effect.piece, effect.name, text(effect.target)
    change = " ".join(piece.text(effect.statement).split())
    first, later = (f"first call in all {effect.calls:,}", "calls") if effect.calls else ("first pass in all", "passes")
    return Cause(
        title=f"`{name}` computes with the `{target}` of its {first}",
        explanation=f"`{change}` runs while `{name}` is traced, and what is then computed with `{target}` is part "
        f"of the compiled program; later {later} neither change nor read it. Make it an argument, and return the new "
        "value.",
        span=piece.span_of(effect.statement),
        evidence=(Evidence(f"read here: {piece.text(read)}", piece.span_of(read)),),
    )


def _older(found: Redefined) -> Cause:
    header, made, statement = text(found.new.node).splitlines()[0], found.made, found.statement
    evidence = [Evidence(f"defined anew here: {header}", found.new.span_of(found.new.node))]
    again = text(made) if made is not None else ""
    if made is not None:
        evidence.append(Evidence(f"made here: {again}", span_of(found.made_in, made)))
    return Cause(
        title=f"`{found.jitted}` still runs the `{found.name}` of before, which has been defined anew",
        explanation=f"`{found.jitted}` was made of the function that `{found.name}` named then; the new definition is "
        f"another function, which `{found.jitted}` does not know. If that is not meant, make `{found.jitted}` again.",
        span=found.call,
        evidence=tuple(evidence),
        fix=f"{again}\n{source.text_of(statement)}" if again and statement is not None else again,
        replaces=statement if again else None,
        sure=False,
    )
