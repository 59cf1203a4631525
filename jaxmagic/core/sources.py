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
    spanned = (report.hints, report.calls, report.printed, report.compiled, report.taps)
    for record in chain.from_iterable(spanned):
        if record.span is not None:
            yield record.span
    yield from _spans_of_nojit(report)
    for compiled in report.compiled:
        for trace in compiled.traces:
            for program in (trace.program, trace.stablehlo, trace.hlo):
                yield from (frame.span for frame in program.frames) if program is not None else ()
    yield from _spans_of_diagnosis(report)


def _spans_of_diagnosis(report: Report) -> Iterator[Span]:
    """What findings point at: the cause may stand in another cell than the one that ran."""
    findings = report.findings
    if report.failure is not None:
        findings += report.failure.findings
        yield from (frame.span for frame in report.failure.frames)
        yield from (hint.span for operand in report.failure.operands for hint in operand.provenance)
    for finding in findings:
        spans = (finding.span, finding.replaces, *(fact.span for fact in finding.evidence))
        yield from (span for span in spans if span is not None)


def _spans_of_nojit(report: Report) -> Iterator[Span]:
    if report.nojit is not None:
        records = (*report.nojit.functions, *report.nojit.costs, *report.nojit.values, *report.nojit.traced)
        yield from (record.span for record in records if record.span is not None)
        yield from (record.call for record in report.nojit.traced if record.call is not None)
    if report.comparison is not None and report.comparison.first is not None:
        yield report.comparison.first
