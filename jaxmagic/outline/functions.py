"""The ledger of compiled functions: how often, why, how long, how much; library functions folded away."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from jaxmagic.outline import units
from jaxmagic.outline.caps import Caps, first
from jaxmagic.outline.characters import short
from jaxmagic.outline.form import Block, Fold, Items, Line, Paragraph, Section, Table, Word, line, prose
from jaxmagic.outline.leaves import NAME
from jaxmagic.outline.places import Places
from jaxmagic.outline.programs import programs_fold
from jaxmagic.records import Argument, Compiled, Report, Trace


def functions_section(report: Report, places: Places, caps: Caps) -> Section | None:
    users = [compiled for compiled in report.compiled if not compiled.library]
    library = [compiled for compiled in report.compiled if compiled.library]
    kept, more = first(users, caps.functions, "function")
    blocks: list[Block] = [ledger(kept)] if kept else []
    for compiled in kept:
        blocks += _function(compiled, report, places, caps)
    blocks += map(Paragraph, more)
    if any(trace.program for compiled in users for trace in compiled.traces):
        blocks.append(Paragraph(_how_to_print(report)))
    blocks += [_library(library, caps)] if library else []
    if not blocks:
        return None
    return Section(line("Compiled functions"), tuple(blocks))


def ledger(functions: Iterable[Compiled]) -> Table:
    """One row a function; the FLOPs, bytes and memory are those of its most expensive program."""
    head = ("Function", "Traces", "Calls", "Trace", "Lower", "Compile", "FLOP", "Bytes", "Peak")
    return Table(head, tuple(map(_row, functions)), numeric=tuple(range(1, 9)))


def _row(compiled: Compiled) -> tuple[Line, ...]:
    traces = compiled.traces
    costs = [trace.cost for trace in traces if trace.cost]
    flops, moved, peak = (
        (
            max((value for value in values if value is not None), default=None)
            for values in zip(*((cost.flops, cost.bytes_accessed, cost.peak_bytes) for cost in costs), strict=True)
        )
        if costs
        else (None, None, None)
    )
    texts = (
        f"{len(traces):,}",
        f"{'' if compiled.calls_exact else '~'}{compiled.calls:,}",
        *(units.seconds(sum(times) or None) for times in zip(*map(_times, traces), strict=True)),
        *(() if traces else (units.UNKNOWN,) * 3),
        units.amount(flops, "").strip(),
        units.amount(moved, "B"),
        units.amount(peak, "B"),
    )
    return (line(Word(short(compiled.name, 32), "code")), *map(line, texts))


def _times(trace: Trace) -> tuple[float, float, float]:
    return trace.trace_s, trace.lower_s, trace.compile_s


def _function(compiled: Compiled, report: Report, places: Places, caps: Caps) -> list[Block]:
    """Why each trace, and what a caller should know of the programs."""
    where = places.name(compiled.span)
    parents = [other.name for other in report.compiled if other.id == compiled.parent]
    inside = f", inside {short(parents[0], NAME)}" if parents else ""
    head = line(
        Word(short(compiled.name, NAME), "code"),
        Word(f", {short(compiled.kind, NAME)}{f', defined on {where}' if where else ''}{inside}", "dim"),
    )
    kept, more = first(_by_reason(compiled.traces), caps.traces, "reason")
    facts = [_reason(number, traces, len(compiled.traces), places) for number, traces in kept]
    facts += [*more, *_donated(compiled), *_constants(compiled)]
    folds = (_arguments(compiled, caps), programs_fold(compiled, report.sources, caps))
    return [Paragraph(head), Items(tuple(facts)), *(fold for fold in folds if fold is not None)]


def _by_reason(traces: Sequence[Trace]) -> list[tuple[int, list[Trace]]]:
    """Traces in a row with the same reason and place, with the number of the first."""
    numbered = groupby(enumerate(traces, 1), key=lambda pair: (pair[1].reason, pair[1].span))
    groups = [list(group) for _, group in numbered]
    return [(group[0][0], [trace for _, trace in group]) for group in groups]


def _reason(number: int, traces: Sequence[Trace], of: int, places: Places) -> Line:
    trace = traces[0]
    where = places.name(trace.span)
    reason = "; ".join(map(str, trace.reason.changes)) or str(trace.reason).rstrip(".")
    facts = [
        ("" if all(trace.calls_exact for trace in traces) else "about ")
        + units.counted(sum(trace.calls for trace in traces), "call"),
        *(["traced before this recording"] if trace.cached else [units.seconds(sum(sum(_times(t)) for t in traces))]),
        *(["executable from the persistent cache"] if trace.persistent_cache else []),
    ]
    last = f"–{number + len(traces) - 1}" if len(traces) > 1 else ""
    return line(
        Word(f"{number}{last}. " if of > 1 else "", "dim"),
        *prose(short(reason, 300)),
        f", by {where}" if where else "",
        Word(f" ({', '.join(facts)})", "dim"),
    )


def _donated(compiled: Compiled) -> list[Line]:
    names = {argument.name: None for trace in compiled.traces for argument in trace.inputs if argument.donated}
    return [line("donated: ", ", ".join(short(name, NAME) for name in names))] if names else []


def _constants(compiled: Compiled) -> list[Line]:
    constants = sorted(dict.fromkeys(c for trace in compiled.traces for c in trace.constants), key=lambda c: -c.bytes)
    if not constants:
        return []
    said = [f"{short(c.name, NAME) or 'unnamed'} {c.aval} {units.amount(c.bytes, 'B')}" for c in constants[:6]]
    rest = [f"{len(constants) - 6} more"] if len(constants) > 6 else []
    return [line("constants baked in: ", ", ".join((*said, *rest)))]


def _arguments(compiled: Compiled, caps: Caps) -> Fold | None:
    """Inputs and outputs of the latest trace."""
    if not compiled.traces:
        return None
    trace = compiled.traces[-1]
    rows = [*_argument_rows("in", trace.inputs), *_argument_rows("out", trace.outputs)]
    if not rows:
        return None
    kept, more = first(rows, caps.arguments, "array")
    which = f" of trace {len(compiled.traces)}" if len(compiled.traces) > 1 else ""
    summary = f"{units.counted(len(trace.inputs), 'input')}, {units.counted(len(trace.outputs), 'output')}{which}"
    table = Table(("", "Name", "Array"), tuple(kept))
    return Fold(line(summary), (table, *map(Paragraph, more)), optional=True)


def _argument_rows(way: str, arguments: Sequence[Argument]) -> list[tuple[Line, ...]]:
    return [
        (
            line(way),
            line(Word(short(argument.name, NAME), "code")),
            line(
                Word(f"{argument.aval or f'static {short(argument.static, NAME)}'}", "hint"),
                " donated" if argument.donated else "",
            ),
        )
        for argument in arguments
    ]


def _library(library: Sequence[Compiled], caps: Caps) -> Fold:
    names = ", ".join(dict.fromkeys(short(compiled.name, 24) for compiled in library[:4]))
    spent = sum(sum(_times(trace)) for compiled in library for trace in compiled.traces)
    kept, more = first(library, caps.functions, "function")
    dots = ", …" if len(library) > 4 else ""
    count = units.counted(len(library), "function")
    summary = f"Also compiled, by libraries: {count} in {units.seconds(spent)} ({names}{dots})"
    return Fold(line(summary), (ledger(kept), *map(Paragraph, more)), optional=True)


def _how_to_print(report: Report) -> Line:
    """Where the programs are, since text has no room for them."""
    if report.title.startswith("%"):
        option = re.search(r"-o\s+(\w+)", report.title)
        name = option[1] if option else "report"
        how = "" if option else "with `-o report` on the magic's line, "
    else:
        name, how = "t.report", ""
    return prose(
        f"To read the programs: {how}`import jaxmagic.text`, then "
        f"`print(jaxmagic.text.program({name}.compiled[0].traces[0].program))`, "
        f"or `print({name}.compiled[0].traces[0].hlo.text)`."
    )
