"""Report ↔ the payload that travels and is saved, small enough for a notebook. What is dropped is said."""

import base64
import gzip
from collections.abc import Callable, Iterator, Sequence

import msgspec

from jaxmagic.core.programs.trimming import shortened_listing, trimmed
from jaxmagic.records import PROTOCOL, Compiled, Listing, Payload, Report, TapEvent, TapSeries, Trace

MOST_BYTES = 600_000
"""Of the payload. With the static page and the text, a saved output stays below 1 MB."""

_SAID = "To keep the notebook small, the saved panel leaves out {}; `-o NAME` has everything."


def payload(report: Report, most_bytes: int = MOST_BYTES) -> Payload:
    """Packs a report, the parts that take most room dropped first, until it takes at most `most_bytes`.

    Example:
        >>> payload(report).protocol
        1
    """
    packed = _pack(report)
    for said, smaller in _smaller(report):
        if len(packed) <= most_bytes:
            break
        packed = _pack(msgspec.structs.replace(smaller, limits=(*report.limits, _SAID.format(said))))
    return Payload(protocol=PROTOCOL, version=report.versions.jaxmagic, report=packed)


def unpack(saved: Payload) -> Report:
    """The report in a payload of this protocol.

    Raises:
        ValueError: The payload has another protocol number.
    """
    if saved.protocol != PROTOCOL:
        raise ValueError(
            f"This report was saved by jaxmagic {saved.version} (protocol {saved.protocol}); "
            f"this jaxmagic reads protocol {PROTOCOL}. Run the cell again, or install that version."
        )
    return msgspec.json.decode(gzip.decompress(base64.b64decode(saved.report)), type=Report)


def _pack(report: Report) -> str:
    return base64.b64encode(gzip.compress(msgspec.json.encode(report), 6)).decode()


def _smaller(report: Report) -> Iterator[tuple[str, Report]]:
    """Ever smaller reports, each with what it lacks."""
    if report.compiled:
        yield "programs of library functions", _with_traces(report, lambda trace: trace)
        for text, equations in ((100_000, 20_000), (20_000, 5_000), (5_000, 1_000), (0, 200), (0, 0)):
            what = f"what programs have beyond {text:,} characters of HLO and {equations:,} equations each"
            yield what, _with_traces(report, _cut(text, equations))
    for numbers, events in ((50_000, 100_000), (20_000, 20_000), (5_000, 5_000), (0, 2_000)) if report.taps else ():
        what = f"tapped arrays beyond {numbers:,} numbers in all, and tapped events beyond {events:,}"
        yield what, msgspec.structs.replace(_with_traces(report, _cut(0, 0)), taps=_fewer(report.taps, numbers, events))
    few = msgspec.structs.replace(_without_jit(report), compiled=report.compiled[:100], hints=report.hints[:2_000])
    bare = msgspec.structs.replace(few, printed=report.printed[:200], taps=_fewer(report.taps[:200], 0, 2_000))
    said = "all programs, functions past 100, hints past 2,000, prints past 200"
    said += ", tapped values past 200, tapped events past 2,000" if report.taps else ""
    said += ", values of lines past 1,000, names compared past 500" if report.nojit is not None else ""
    yield said, _with_traces(bare, _cut(0, 0))


def _fewer(taps: tuple[TapSeries, ...], numbers: int, events: int) -> tuple[TapSeries, ...]:
    """Evenly spaced events of each series, the last and the first alert among them, and some of these with a value."""

    def fewer(series: TapSeries) -> TapSeries:
        chosen = {event.number for event in _spaced(series.events, max(1, events // len(taps)))}
        chosen |= {event.number for event in [e for e in series.events if e.alert][:1]}
        kept = [event for event in series.events if event.number in chosen]
        size = max((event.summary.count for event in kept if event.summary), default=1)
        whole = {event.number for event in _spaced(kept, numbers // len(taps) // max(1, size))}
        bare = (e if e.number in whole or size == 1 else msgspec.structs.replace(e, value=None) for e in kept)
        return msgspec.structs.replace(series, events=tuple(bare), dropped=series.total - len(kept))

    return tuple(map(fewer, taps))


def _spaced(events: Sequence[TapEvent], most: int) -> Sequence[TapEvent]:
    if len(events) <= most:
        return events
    return events[::-1][:: -(-len(events) // most)][::-1] if most else ()


def _without_jit(report: Report) -> Report:
    """Fewer of the real values, and of the names compared those that differ first."""
    nojit, comparison = report.nojit, report.comparison
    if nojit is not None:
        nojit = msgspec.structs.replace(nojit, values=nojit.values[:1_000])
    if comparison is not None:
        gravest = sorted(comparison.differences, key=lambda each: each.verdict == "equal")
        comparison = msgspec.structs.replace(comparison, differences=tuple(gravest[:500]))
    return msgspec.structs.replace(report, nojit=nojit, comparison=comparison)


def _with_traces(report: Report, cut: Callable[[Trace], Trace]) -> Report:
    def smaller(function: Compiled) -> Compiled:
        chosen = _cut(0, 0) if function.library else cut
        return msgspec.structs.replace(function, traces=tuple(map(chosen, function.traces)))

    return msgspec.structs.replace(report, compiled=tuple(map(smaller, report.compiled)))


def _cut(characters: int, equations: int) -> Callable[[Trace], Trace]:
    """Shortens the programs of a trace; a program of which nothing would be left goes altogether."""

    def listing(full: Listing | None) -> Listing | None:
        return shortened_listing(full, characters) if full is not None and characters else None

    def cut(trace: Trace) -> Trace:
        program = trimmed(trace.program, equations) if trace.program is not None and equations else None
        return msgspec.structs.replace(
            trace, program=program, stablehlo=listing(trace.stablehlo), hlo=listing(trace.hlo)
        )

    return cut
