"""What came out: printed lines, tapped values, and two runs compared."""

from collections.abc import Callable, Sequence
from itertools import groupby

from jaxmagic.outline import units
from jaxmagic.outline.caps import Caps, first
from jaxmagic.outline.characters import short
from jaxmagic.outline.form import Block, Items, Line, Paragraph, Section, Table, Word, line
from jaxmagic.outline.leaves import NAME
from jaxmagic.outline.places import Places
from jaxmagic.records import Comparison, Difference, Printed, TapSeries

# ------------------------------------------------------------------------------------------ printed


def printed_section(printed: Sequence[Printed], places: Places, caps: Caps) -> Section | None:
    """Lines of output, those of one statement together: the first and the last of many."""
    if not printed:
        return None
    blocks: list[Block] = []
    groups = [list(group) for _, group in groupby(printed, key=lambda one: (one.span, one.source))]
    kept, more = first(groups, caps.printed, "place")
    for group in kept:
        blocks += [Paragraph(_origin(group[0], len(group), places)), Items(_few(group, caps))]
    return Section(line("Printed"), (*blocks, *map(Paragraph, more)))


def _origin(one: Printed, count: int, places: Places) -> Line:
    where = places.name(one.span)
    traced = " while tracing, so once per trace" if one.traced else ""
    times = units.counted(count, "line")
    return line(f"{one.source}{f' on {where}' if where else ''}{traced}", Word(f" ({times})", "dim"))


def _few(lines: Sequence[Printed], caps: Caps) -> tuple[Line, ...]:
    if len(lines) <= caps.printed:
        return tuple(map(_printed, lines))
    half = caps.printed // 2
    gap = line(Word(f"… {units.counted(len(lines) - 2 * half, 'line')} …", "dim"))
    return (*map(_printed, lines[:half]), gap, *map(_printed, lines[-half:]))


def _printed(one: Printed) -> Line:
    lane = (Word(f"lane {', '.join(map(str, one.lane))} ", "dim"),) if one.lane else ()
    return line(*lane, Word(short(one.text, 500), "code"))


# --------------------------------------------------------------------------------------------- taps


def taps_section(taps: Sequence[TapSeries], places: Places, caps: Caps) -> Section | None:
    if not taps:
        return None
    kept, more = first(taps, caps.series, "series", "series")
    odd = [(name, count) for name, count in _ODD.items() if any(map(count, kept))]
    head = ("Value", "Where", "Array", "Events", "Min", "Max", "Mean", *(name for name, _ in odd))
    rows = tuple((*_series(series, places), *(line(f"{count(series):,}") for _, count in odd)) for series in kept)
    table = Table(head, rows, numeric=tuple(range(3, len(head))))
    blocks = (table, *map(Paragraph, more), Paragraph(_cost(taps)))
    return Section(line("Values that came ashore"), blocks)


_ODD: dict[str, Callable[[TapSeries], int]] = {
    "NaN": lambda series: sum(event.summary.nan for event in series.events if event.summary),
    "Inf": lambda series: sum(event.summary.posinf + event.summary.neginf for event in series.events if event.summary),
    "Alerts": lambda series: sum(event.alert for event in series.events),
}
"""Columns for what most runs have nothing of: shown where some series has."""


def _cost(taps: Sequence[TapSeries]) -> Line:
    copied = units.amount(sum(series.bytes for series in taps), "B")
    spent = units.seconds(sum(series.host_s for series in taps))
    dropped = sum(series.dropped for series in taps)
    said = f"; {units.counted(dropped, 'event')} dropped" if dropped else ""
    return line(f"{copied} copied to the host, {spent} spent there{said}")


def _series(series: TapSeries, places: Places) -> tuple[Line, ...]:
    """Over all events that were kept."""
    summaries = [event.summary for event in series.events if event.summary]
    means = [s.mean for s in summaries if s.mean is not None]
    texts = (
        f"{series.total:,}",
        units.number(min((s.min for s in summaries if s.min is not None), default=None)),
        units.number(max((s.max for s in summaries if s.max is not None), default=None)),
        units.number(sum(means) / len(means) if means else None),
    )
    name = f"{'gradient of ' if series.gradient else ''}{short(series.name, 32)}"
    aval = short(str(series.aval), 32)
    return (line(Word(name, "code")), line(places.name(series.span)), line(Word(aval, "hint")), *map(line, texts))


# --------------------------------------------------------------------------------------- comparison


def comparison_section(comparison: Comparison | None, places: Places, caps: Caps) -> Section | None:
    if comparison is None:
        return None
    left, right = short(comparison.left, NAME), short(comparison.right, NAME)
    sides = (
        (left, comparison.left_s, comparison.left_operations),
        (right, comparison.right_s, comparison.right_operations),
    )
    times = ", ".join(f"{side}: {units.seconds(spent)}{_sent(operations)}" for side, spent, operations in sides)
    where = places.name(comparison.first)
    verdict = line(Word(comparison.verdict, "strong"), f" First difference on {where}." if where else "")
    code = places.excerpt(comparison.first)
    blocks = (
        Paragraph(verdict),
        *([code] if code else []),
        *_differences(comparison.differences, caps),
        Paragraph(line(times)),
    )
    return Section(line(f"{left} against {right}"), blocks)


def _sent(operations: int) -> str:
    return f" in {units.counted(operations, 'operation')}" if operations else ""


def _differences(differences: Sequence[Difference], caps: Caps) -> tuple[Block, ...]:
    """A table, what differs first; of Python's own values that are equal, only how many."""
    told = [each for each in differences if each.verdict != "equal" or each.left is not None]
    kept, more = first(sorted(told, key=lambda each: each.verdict == "equal"), caps.names, "name")
    head = ("Name", "Verdict", "Array", "Max abs", "Max rel", "Max ulp")
    rest = len(differences) - len(told)
    equal = [line(Word(f"and {units.counted(rest, 'value')} of Python, equal", "dim"))] if rest else []
    table = [Table(head, tuple(map(_difference, kept)), numeric=(3, 4, 5))] if kept else []
    return (*table, *map(Paragraph, (*more, *equal)))


def _difference(difference: Difference) -> tuple[Line, ...]:
    avals = dict.fromkeys(short(str(aval), 32) for aval in (difference.left, difference.right) if aval)
    numbers = (difference.max_abs, difference.max_rel, difference.max_ulp)
    return (
        line(Word(short(difference.name, 32), "code")),
        line(short(difference.verdict, NAME)),
        line(Word(" against ".join(avals) or units.UNKNOWN, "hint")),
        *(line(units.number(value)) for value in numbers),
    )
