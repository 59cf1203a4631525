"""The source of every cell and file of the report, with what is known at line ends."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from jaxmagic.outline.caps import Caps
from jaxmagic.outline.form import Block, Code, CodeLine, Line, Paragraph, Section, Word, line
from jaxmagic.outline.nojit import value_notes
from jaxmagic.outline.notes import Shown, Ways, notes_of_definition, notes_of_line
from jaxmagic.outline.places import Places
from jaxmagic.outline.sparks import sparkline
from jaxmagic.outline.units import counted
from jaxmagic.records import Finding, Hint, Report, Source, TapSeries

WHOLE = 40
"""A cell of at most so many lines is shown whole."""


def source_sections(report: Report, findings: Sequence[Finding], places: Places, caps: Caps) -> tuple[Section, ...]:
    """One section for each source in which something is known."""
    ways = Ways(report.calls)
    sections = (_section(source, report, findings, ways, places, caps) for source in report.sources)
    return tuple(section for section in sections if section is not None)


def _section(
    source: Source, report: Report, findings: Sequence[Finding], ways: Ways, places: Places, caps: Caps
) -> Section | None:
    notes = _notes(source, report, findings, ways, caps)
    lines = source.text.rstrip().split("\n")
    last = source.first_line + len(lines) - 1
    known = sorted(number for number in notes if source.first_line <= number <= last)
    if not known:
        return None
    whole = source.cell is not None and len(lines) <= WHOLE
    numbers = range(source.first_line, last + 1) if whole else _with_context(known, source.first_line, last)
    shown = list(numbers)[: caps.source_lines]
    code = Code(tuple(_with_gaps(shown, lambda number: _code_line(places, source, number, notes))))
    blocks: tuple[Block, ...] = (code,)
    if len(shown) < len(list(numbers)):
        rest = counted(len([number for number in known if number > shown[-1]]), "more line")
        blocks += (Paragraph(line(Word(f"… {rest} with something to say, in the report's `hints`", "dim"))),)
    return Section(line(source.label), blocks)


def _notes(source: Source, report: Report, findings: Sequence[Finding], ways: Ways, caps: Caps) -> dict[int, Line]:
    notes: dict[int, Line] = {}
    for (file, function, number), calls in ways.of.items():
        if file == source.file and function.rpartition(".")[2] not in ("<module>", "<lambda>"):
            notes[number] = notes_of_definition(calls)
    shown: Shown = {}
    hints = _by_line(hint for hint in report.hints if hint.span.file == source.file)
    for number in sorted(hints):
        words = notes_of_line(hints[number], ways, shown, caps)
        head = notes.get(number, ())
        notes[number] = (*(_closed(head) if words else head), *words)
    for number, words in _values(source, report, caps):
        notes[number] = (*_closed(notes.get(number, ())), *words)
    for number, words in _marks(source, report, findings):
        before = notes.get(number, ())
        notes[number] = (*(before if words.text.startswith("←") else _closed(before)), words)
    return notes


def _values(source: Source, report: Report, caps: Caps) -> Iterable[tuple[int, Line]]:
    values = [value for value in report.nojit.values if value.span.file == source.file] if report.nojit else []
    for number, group in groupby(values, key=lambda value: value.span.line):
        for words in value_notes(list(group), caps):
            yield number, words


def _closed(words: Line) -> Line:
    return (*words[:-1], Word(f"{words[-1].text};", words[-1].tone)) if words else ()


def _by_line(hints: Iterable[Hint]) -> dict[int, list[Hint]]:
    lines: dict[int, list[Hint]] = {}
    for hint in hints:
        lines.setdefault(hint.span.line, []).append(hint)
    return lines


def _marks(source: Source, report: Report, findings: Sequence[Finding]) -> Iterable[tuple[int, Word]]:
    for series in report.taps:
        if series.span is not None and series.span.file == source.file:
            yield series.span.line, Word(_tapped(series), "note")
    for i, finding in enumerate(findings, 1):
        if finding.span is not None and finding.span.file == source.file:
            yield finding.span.line, Word(f"← finding {i}", finding.severity)
    failure = report.failure
    if failure is not None and failure.span is not None and failure.span.file == source.file:
        said = "interrupted here" if report.state == "interrupted" else "failed here"
        yield failure.span.line, Word(f"← {said}", "error")


def _tapped(series: TapSeries) -> str:
    means = [event.summary.mean for event in series.events if event.summary]
    gradient = "gradient " if series.gradient else ""
    return f"{gradient}{counted(series.total, 'value')} {sparkline(means)}".rstrip()


def _with_context(known: Sequence[int], first: int, last: int) -> list[int]:
    """The lines with something to say, one more on either side, and no gap of a line or two."""
    wanted = sorted({near for number in known for near in range(number - 1, number + 2) if first <= near <= last})
    filled = list(wanted[:1])
    for number in wanted[1:]:
        gap = number - filled[-1]
        filled += range(filled[-1] + 1, number) if gap <= 3 else ()
        filled.append(number)
    return filled


def _with_gaps(numbers: Sequence[int], make) -> Iterable[CodeLine | None]:
    before = None
    for number in numbers:
        if before is not None and number != before + 1:
            yield None
        yield make(number)
        before = number


def _code_line(places: Places, source: Source, number: int, notes: dict[int, Line]) -> CodeLine:
    return CodeLine(places.text(source.file, number) or "", number, (), notes.get(number, ()))
