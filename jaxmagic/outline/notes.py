"""Hints → the comment at the end of a source line: each variable with its arrays, per way of calling the function."""

from collections.abc import Sequence

from jaxmagic.outline.caps import Caps
from jaxmagic.outline.characters import short
from jaxmagic.outline.form import Line, Word
from jaxmagic.outline.leaves import NAME, cut, leaf_pieces
from jaxmagic.records import Call, Hint

WAYS = 6
"""Ways of calling a function that are worth telling apart on one line."""

SHORT = 30
"""Characters that a pytree may take each time, rather than be referred to."""

Shown = dict[frozenset[str], int]
"""Pytrees spelled out so far, and the line where."""


class Ways:
    """The different ways in which each function was called, numbered per function from 1."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.of: dict[tuple[str, str, int], list[Call]] = {}
        self._number: dict[int, tuple[int, int]] = {}
        for call in calls:
            self.of.setdefault((call.span.file, call.function, call.span.line), []).append(call)
        # IPython runs each statement of a cell as a module of its own; for a reader they are one.
        functions = [ways for (_, function, _), ways in self.of.items() if function != "<module>"]
        for ways in functions:
            self._number.update({call.id: (i, len(ways)) for i, call in enumerate(ways, 1)})

    def number(self, call: int) -> tuple[int, int]:
        """Which way this call is, of how many."""
        return self._number.get(call, (1, 1))


def notes_of_line(hints: Sequence[Hint], ways: Ways, shown: Shown, caps: Caps) -> Line:
    """What a reader wants beside one source line.

    Args:
        hints: Those of this line, in order of arrival.
        ways: Of the whole report.
        shown: Pytrees already spelled out above; those of this line are added.
        caps: Of which `pieces` and `leaves` count here.
    """
    variables: dict[tuple[str, str, str], list[Hint]] = {}
    for hint in sorted(hints, key=_order):
        variables.setdefault((hint.function, hint.name, hint.role), []).append(hint)
    pieces: list[str] = []
    for group in variables.values():
        pieces = [*pieces[:-1], *(f"{piece};" for piece in pieces[-1:]), *_variable(group, ways, shown, caps)]
    return tuple(Word(piece, "hint") for piece in cut(pieces, caps.pieces))


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


def _order(hint: Hint) -> tuple[int, int]:
    return hint.function.count("."), ("argument", "assigned", "returned").index(hint.role)


def _label(hint: Hint) -> str:
    prefix = "lambda " if hint.function.endswith("<lambda>") else ""
    return prefix + ("→" if hint.role == "returned" else f"{short(hint.name, NAME)}:")


def _variable(hints: Sequence[Hint], ways: Ways, shown: Shown, caps: Caps) -> list[str]:
    """One variable: the value it had, or each value with the ways it had it in."""
    values: dict[tuple[str, ...], set[int]] = {}
    for hint in hints:
        values.setdefault(leaf_pieces(hint.leaves, hint.hidden), set()).add(ways.number(hint.call)[0])
    count = max(ways.number(hint.call)[1] for hint in hints)
    told: list[str] = []
    for leaves, numbers in list(values.items())[:WAYS]:
        pieces = cut(_spelled_once(leaves, shown, hints[0].span.line), caps.leaves)
        if len(numbers) < count:
            pieces[-1] += f" ({_ranges(sorted(numbers))})"
        elif told:
            pieces[0] = f"then {pieces[0]}"
        told += pieces
    told += [f"… {len(values) - WAYS} more"] if len(values) > WAYS else []
    told = [*(f"{piece}," for piece in told[:-1]), told[-1]]
    label = _label(hints[0])
    return [label, *told] if len(label) + len(told[0]) > SHORT else [f"{label} {told[0]}", *told[1:]]


def _spelled_once(leaves: tuple[str, ...], shown: Shown, number: int) -> tuple[str, ...]:
    """The arrays of a pytree, or where they stand above."""
    if len(leaves) < 2 or sum(map(len, leaves)) < SHORT:
        return leaves
    above = shown.setdefault(frozenset(leaves), number)
    return leaves if above == number else (f"as on line {above}",)


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in words: 1, 2, 3, 5 are `1–3, 5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
