"""Programs and listings cut to a size: beginnings and ends stay, what went is counted."""

from bisect import bisect_right
from itertools import accumulate

import msgspec

from jaxmagic.records import Equation, Instruction, Listing, Program, Region

LONGEST = 1_000
"""Characters in a line of a shortened listing."""


def trimmed(program: Program, most: int) -> Program:
    """The program with at most `most` equations in all regions together.

    Outer equations come before inner ones: a region keeps its own first and last equations, then what is left
    of `most` is dealt to the regions inside, small ones whole and large ones in equal shares. What was dropped
    stands in `Region.hidden`, inner regions included; frames, numbers of variables and
    `Program.equations` stay as they were. A variable whose equation was dropped may be named by a kept one.
    """
    if program.equations <= most:
        return program
    return msgspec.structs.replace(program, root=_trimmed_region(program.root, most))


def size(region: Region) -> int:
    """Equations in a region and the regions inside, dropped ones not counted."""
    return sum(map(_equation_size, region.equations))


def _equation_size(equation: Equation) -> int:
    return 1 + sum(map(size, equation.regions))


def _trimmed_region(region: Region, most: int) -> Region:
    sizes = [_equation_size(equation) for equation in region.equations]
    if sum(sizes) <= most:
        return region
    inside = sum(sizes) - len(sizes)
    own = min(len(sizes), max((most + 1) // 2, most - inside))
    first, last = (own + 1) // 2, own // 2
    kept = [*region.equations[:first], *region.equations[len(sizes) - last :]]
    dropped = sum(sizes[first : len(sizes) - last]) + sum(
        _hidden(equation) for equation in region.equations[first : len(sizes) - last]
    )
    return msgspec.structs.replace(
        region, equations=_with_smaller_regions(kept, most - own), hidden=region.hidden + dropped
    )


def _hidden(equation: Equation) -> int:
    return sum(region.hidden + sum(map(_hidden, region.equations)) for region in equation.regions)


def _with_smaller_regions(equations: list[Equation], most: int) -> tuple[Equation, ...]:
    share = _fair_share([size(region) for equation in equations for region in equation.regions], most)
    return tuple(
        msgspec.structs.replace(equation, regions=tuple(_trimmed_region(region, share) for region in equation.regions))
        if equation.regions
        else equation
        for equation in equations
    )


def _fair_share(sizes: list[int], most: int) -> int:
    """The largest share such that everyone getting the smaller of it and its size stays within `most`."""
    if sum(sizes) <= most:
        return max(sizes, default=0)
    left = most
    for count, smallest in zip(range(len(sizes), 0, -1), sorted(sizes), strict=True):
        if smallest * count > left:
            return left // count
        left -= smallest
    return 0


def shortened_listing(listing: Listing, most: int) -> Listing:
    """The listing with at most about `most` characters: lines in the middle give way to one that counts them.

    Lines of more than `LONGEST` characters (tuples of a whole model's parameters) lose their middle first.
    """
    if len(listing.text) <= most:
        return listing
    lines = [_shortened_line(line) for line in listing.text.splitlines(keepends=True)]
    first = _fitting(lines[:-1], most // 2)
    last = _fitting(lines[:first:-1], most - most // 2)
    gap = len(lines) - first - last
    kept = [*lines[:first], *lines[len(lines) - last :]]
    instructions = [_moved(each, first, gap) for each in listing.instructions if _is_kept(each.line, first, gap)]
    return msgspec.structs.replace(
        listing,
        text="".join([*kept[:first], f"… {gap:,} lines left out …\n", *kept[first:]]),
        instructions=tuple(instructions),
        dropped=listing.dropped + len(listing.text) - sum(map(len, kept)),
    )


def _shortened_line(line: str) -> str:
    if len(line) <= LONGEST:
        return line
    return f"{line[: LONGEST // 2]} … {line[len(line) - LONGEST // 2 :]}"


def _fitting(lines: list[str], most: int) -> int:
    """How many of the lines, from the first, fit into `most` characters."""
    return bisect_right(list(accumulate(map(len, lines))), most)


def _is_kept(line: int, first: int, gap: int) -> bool:
    return line <= first or line > first + gap


def _moved(instruction: Instruction, first: int, gap: int) -> Instruction:
    if instruction.line <= first:
        return instruction
    return msgspec.structs.replace(instruction, line=instruction.line - gap + 1)
