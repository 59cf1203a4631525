"""The equations of a program's record, those of regions inside included, and the source that they came from."""

from collections.abc import Iterator

from jaxmagic.core.rules.contexts import Observed
from jaxmagic.records import Equation, Program, Region, Span


def equations(region: Region) -> Iterator[Equation]:
    """In program order, each before those of its own regions."""
    for equation in region.equations:
        yield equation
        for inner in equation.regions:
            yield from equations(inner)


def placed(program: Program) -> Iterator[tuple[Equation, list[Span]]]:
    """Those that came from the user's source, with their place and those of the calls that led to it, outwards.

    Outer regions come first.
    """
    waiting = [program.root]
    while waiting:
        for equation in waiting.pop().equations:
            waiting += equation.regions
            frame, places = equation.frame, []
            while 0 <= frame < len(program.frames):
                places.append(program.frames[frame].span)
                frame = program.frames[frame].parent
            if places:
                yield equation, places


def chosen(observed: Observed, branching: Span) -> Iterator[list[tuple[Equation, list[Span]]]]:
    """Equations of programs that choose between the results of a `cond` where that stood, as vmap makes them do."""
    for compiled in observed.compiled:
        for trace in compiled.traces:
            found = list(placed(trace.program)) if trace.program is not None else []
            kinds = {equation.primitive for equation, places in found if places[0] == branching}
            if "select_n" in kinds and "cond" not in kinds:
                yield found


def place_of(program: Program, equation: Equation) -> Span | None:
    """The user's expression that an equation came from."""
    return program.frames[equation.frame].span if 0 <= equation.frame < len(program.frames) else None
