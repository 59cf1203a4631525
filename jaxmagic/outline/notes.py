"""Hints → the comment at the end of a source line: each variable with its arrays, per way of calling the function."""

from collections.abc import Iterator, Sequence

from jaxmagic.outline.characters import short
from jaxmagic.outline.form import Line, Word
from jaxmagic.records import Call, Hint, Leaf

NAME = 60
"""Characters of a name that are worth showing."""

WAYS = 6
"""Ways of calling a function that are worth telling apart on one line."""

Shown = dict[frozenset[str], int]
"""Pytrees spelled out so far, and the line where."""


class Ways:
    """The different ways in which each function was called, numbered per function from 1."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.of: dict[tuple[str, str, int], list[Call]] = {}
        self._number: dict[int, tuple[int, int]] = {}
        for call in calls:
            self.of.setdefault((call.span.file, call.function, call.span.line), []).append(call)
        for ways in self.of.values():
            self._number.update({call.id: (i, len(ways)) for i, call in enumerate(ways, 1)})

    def number(self, call: int) -> tuple[int, int]:
        """Which way this call is, of how many."""
        return self._number.get(call, (1, 1))


def notes_of_line(hints: Sequence[Hint], ways: Ways, shown: Shown, most: int) -> Line:
    """What a reader wants beside one source line.

    Args:
        hints: Those of this line, in order of arrival.
        ways: Of the whole report.
        shown: Pytrees already spelled out above; those of this line are added.
        most: Pieces to show.
    """
    variables: dict[tuple[str, str, str], list[Hint]] = {}
    for hint in sorted(hints, key=_order):
        variables.setdefault((hint.function, hint.name, hint.role), []).append(hint)
    found = [list(_variable(group, ways, shown)) for group in variables.values()]
    pieces = [piece for group in found for piece in (*group[:-1], f"{group[-1]};")]
    if pieces:
        pieces[-1] = pieces[-1].removesuffix(";")
    if len(pieces) > most:
        pieces = [*pieces[:most], f"… {len(pieces) - most} more"]
    return tuple(Word(piece, "hint") for piece in pieces)


def notes_of_definition(calls: Sequence[Call]) -> Line:
    """How a function ran, for the line of its `def`; nothing where there is nothing to say."""
    traced = any(call.traced for call in calls)
    inside = [" in ".join(short(name, NAME) for name in call.transforms) for call in calls]
    verb = "traced" if traced else "ran"
    times = "" if len(calls) == 1 else f" {len(calls)} ways"
    if len(set(inside)) == 1:
        where = [Word(f"in {short(name, NAME)}", "dim") for name in calls[0].transforms]
        return (Word(f"{verb}{times}", "dim"), *where) if where or times else ()
    several = [Word(f"({i}) {where or 'plain Python'}", "dim") for i, where in enumerate(inside[:WAYS], 1)]
    more = [Word(f"… {len(calls) - WAYS} more", "dim")] if len(calls) > WAYS else []
    return (Word(f"{verb}{times}:", "dim"), *several, *more)


def leaf_pieces(leaves: Sequence[Leaf], hidden: int) -> list[str]:
    """The arrays of one value, one piece each: `f32[3,4]`, or `['w1'] f32[3,4]` for a leaf of a pytree."""
    pieces = [f"{short(leaf.path, NAME)} {_leaf(leaf)}".strip() for leaf in leaves]
    return [*pieces, f"… {hidden} more"] if hidden else pieces


def _leaf(leaf: Leaf) -> str:
    return short(str(leaf), 2 * NAME)


def _order(hint: Hint) -> tuple[int, int]:
    return hint.function.count("."), ("argument", "assigned", "returned").index(hint.role)


def _label(hint: Hint) -> str:
    prefix = "lambda " if hint.function.endswith("<lambda>") else ""
    return prefix + ("→" if hint.role == "returned" else f"{short(hint.name, NAME)}:")


def _variable(hints: Sequence[Hint], ways: Ways, shown: Shown) -> Iterator[str]:
    """One variable: the value it had, or each value with the ways it had it in."""
    values: dict[tuple[str, ...], list[int]] = {}
    for hint in hints:
        values.setdefault(tuple(leaf_pieces(hint.leaves, hint.hidden)), []).append(ways.number(hint.call)[0])
    count = max(ways.number(hint.call)[1] for hint in hints)
    label = _label(hints[0])
    kept = list(values.items())[:WAYS]
    for i, (pieces, numbers) in enumerate(kept):
        always = len(set(numbers)) == count
        suffix = "" if always else f" ({_ranges(sorted(set(numbers)))})"
        end = "," if i < len(kept) - 1 or len(values) > WAYS else ""
        joiner = "then" if i and always else ""
        pieces = _spelled_once(pieces, shown, hints[0].span.line)
        yield f"{label} {joiner} {', '.join(pieces[:1])}".replace("  ", " ").strip() + (
            "," if pieces[1:] else suffix + end
        )
        yield from (f"{piece}," for piece in pieces[1:-1])
        yield from (f"{piece}{suffix}{end}" for piece in pieces[1:][-1:])
        label = ""
    if len(values) > WAYS:
        yield f"… {len(values) - WAYS} more"


def _spelled_once(pieces: tuple[str, ...], shown: Shown, number: int) -> tuple[str, ...]:
    if len(pieces) < 3:
        return pieces
    above = shown.setdefault(frozenset(pieces), number)
    return pieces if above == number else (f"as on line {above}",)


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in words: 1, 2, 3, 5 are `1–3, 5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
