"""Which files a report speaks of, and their text."""

from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from jaxmagic.core.cells import Cells
from jaxmagic.core.source.texts import source_record
from jaxmagic.records import Report, Source, Span


def with_sources(report: Report, cells: Cells, first: str | None = None) -> Report:
    """The report with the text of every file it names.

    Args:
        report: Complete but for its sources.
        cells: For the numbers of cells, and their text as typed.
        first: The cell that ran, which is there even where nothing is said of it.
    """
    files = dict.fromkeys([first] if first else [])
    files.update(dict.fromkeys(span.file for span in _spans(report)))
    return msgspec.structs.replace(report, sources=tuple(sources(files, cells)))


def sources(files: Iterable[str], cells: Cells) -> Iterator[Source]:
    """Of the files whose text is known."""
    for file in files:
        source = source_record(file, cells.number(file))
        if source.text:
            yield msgspec.structs.replace(source, text=cells.typed(source.text))


def _spans(report: Report) -> Iterator[Span]:
    spanned = (report.hints, report.calls, report.printed, report.compiled, report.findings, report.taps)
    for record in chain.from_iterable(spanned):
        if record.span is not None:
            yield record.span
    yield from _spans_of_nojit(report)
    for compiled in report.compiled:
        for trace in compiled.traces:
            for program in (trace.program, trace.stablehlo, trace.hlo):
                yield from (frame.span for frame in program.frames) if program is not None else ()
    if report.failure is not None:
        yield from (frame.span for frame in report.failure.frames)
        yield from (finding.span for finding in report.failure.findings if finding.span is not None)


def _spans_of_nojit(report: Report) -> Iterator[Span]:
    if report.nojit is not None:
        records = (*report.nojit.functions, *report.nojit.costs, *report.nojit.values, *report.nojit.traced)
        yield from (record.span for record in records if record.span is not None)
        yield from (record.call for record in report.nojit.traced if record.call is not None)
    if report.comparison is not None and report.comparison.first is not None:
        yield report.comparison.first
