"""A run without jit: what ran in Python, what stayed traced, where the time went, and the values at the lines."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from jaxmagic.outline import units
from jaxmagic.outline.caps import Caps, first
from jaxmagic.outline.characters import short
from jaxmagic.outline.form import Block, Items, Line, Paragraph, Section, Table, Word, line
from jaxmagic.outline.leaves import NAME
from jaxmagic.outline.places import Places
from jaxmagic.records import LineCost, LineValue, NoJit, RanInPython, StillTraced, Summary

DEAREST = 8
"""Lines whose cost is shown."""

_LONGEST = 60
"""Characters of one value."""

_ONE_BY_ONE = ("vmap", "pmap")


def nojit_section(nojit: NoJit | None, places: Places, caps: Caps) -> Section | None:
    if nojit is None:
        return None
    kept, more = first(nojit.functions, caps.functions, "function")
    facts = [
        *(_ran(function, places) for function in kept),
        *more,
        *(line(Word("not reached: ", "wrong-result"), short(reason, 400)) for reason in nojit.unreached),
        *(_still_traced(each, places) for each in nojit.traced),
    ]
    blocks: list[Block] = [Paragraph(_head(nojit))]
    blocks += [Items(tuple(facts))] if facts else []
    blocks += [_costs(nojit.costs[:DEAREST], places)] if nojit.costs else []
    return Section(line("Without jit"), tuple(blocks))


def _head(nojit: NoJit) -> Line:
    lasting = " and stays off for later cells, until `%jaxnojit off`" if nojit.lasting else ""
    operations = units.counted(nojit.operations, "operation")
    stopped = Word(f" The budget ended it {short(nojit.stopped, 200)}.", "slow") if nojit.stopped else ""
    return line(f"Jit was off {short(nojit.scope, 200)}{lasting}; {operations} ran one by one.", stopped)


def _ran(function: RanInPython, places: Places) -> Line:
    where = places.name(function.span)
    why = ", because it contains a function asked for" if function.carrier else ""
    times = f" ran in Python {units.counted(function.calls, 'time')}{why}"
    return line(Word(short(function.name, NAME), "code"), times, Word(f" ({where})" if where else "", "dim"))


def _still_traced(each: StillTraced, places: Places) -> Line:
    inside = " in ".join(short(name, NAME) for name in each.transforms)
    called = places.name(each.call)
    way_out = ""
    if each.transforms and each.transforms[0].startswith(_ONE_BY_ONE):
        way_out = "; call it on one example to meet its values one by one"
    return line(
        "still traced by ",
        Word(inside, "strong"),
        ": ",
        Word(short(each.function, NAME), "code"),
        f", called on {called}{way_out}" if called else way_out,
    )


def _costs(costs: Sequence[LineCost], places: Places) -> Table:
    def row(cost: LineCost) -> tuple[Line, ...]:
        text = (places.text(cost.span.file, cost.span.line) or "").strip()
        return (
            line(places.name(cost.span)),
            line(Word(short(text, 60), "code")),
            line(f"{cost.operations:,}"),
            line(units.seconds(cost.seconds)),
        )

    return Table(("Where the time went", "", "Operations", "Time"), tuple(map(row, costs)), numeric=(2, 3))


# ------------------------------------------------------------------------------------- values at lines


def value_notes(values: Sequence[LineValue], caps: Caps) -> Iterator[Line]:
    """The values of one line's variables, one by one, over the runs of the line that were kept."""
    by_name = sorted(values, key=lambda value: value.name)
    groups = [(name, list(group)) for name, group in groupby(by_name, key=lambda value: value.name)]
    for name, group in groups[: caps.leaves]:
        label = "→" if name == "return" else f"{short(name, NAME)} ="
        first, *others = _over_runs(group)
        yield tuple(Word(text, "note") for text in (f"{label} {first}", *others))
    if len(groups) > caps.leaves:
        yield (Word(f"… {len(groups) - caps.leaves} more", "dim"),)


def _over_runs(values: Sequence[LineValue]) -> list[str]:
    """`0.,` `3.,` `5. …` `(run 7) -1. …` `15.,` `17.,` `19.`; one value where all were the same."""
    runs = sorted(values, key=lambda value: value.run)
    texts = [_shown(value) for value in runs]
    if len(set(texts)) == 1:
        return texts[:1]
    shown: list[str] = []
    before = -1
    for value, text in zip(runs, texts, strict=True):
        shown[-1:] = [f"{each}," if value.run == before + 1 else f"{each} …" for each in shown[-1:]]
        label = f"(run {value.run + 1}) " if value.kept == "branch" or before < 0 < value.run else ""
        shown.append(f"{label}{text}")
        before = value.run
    return shown


def _shown(value: LineValue) -> str:
    if value.text:
        return short(value.text, _LONGEST)
    return _range(value.summary) if value.summary else str(value.aval)


def _range(summary: Summary) -> str:
    parts = [f"{count:,} {name}" for count, name in _strange(summary) if count]
    if summary.min is not None and summary.min == summary.max:
        parts.insert(0, f"all {units.number(summary.min)}")
    elif summary.min is not None and summary.max is not None:
        parts.insert(0, f"{units.number(summary.min)} to {units.number(summary.max)}")
    return " and ".join(parts)


def _strange(summary: Summary) -> tuple[tuple[int, str], ...]:
    return (summary.nan, "NaN"), (summary.posinf, "+inf"), (summary.neginf, "-inf")
