"""The equations of a program's record, those of regions inside included, and the source that they came from."""

from collections.abc import Iterator

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


def place_of(program: Program, equation: Equation) -> Span | None:
    """The user's expression that an equation came from."""
    return program.frames[equation.frame].span if 0 <= equation.frame < len(program.frames) else None
