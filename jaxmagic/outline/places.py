"""Spans → where that is, in words, and the source lines themselves with the piece marked."""

from collections.abc import Sequence

from jaxmagic.outline.characters import short
from jaxmagic.outline.form import Code, CodeLine
from jaxmagic.records import Call, Source, Span


class Places:
    """The sources of one report."""

    def __init__(self, sources: Sequence[Source], calls: Sequence[Call] = ()) -> None:
        self._main = _main(sources, calls)
        self._lines = {source.file: source.text.split("\n") for source in sources}
        self._sources = {source.file: source for source in sources}

    def name(self, span: Span | None) -> str:
        """`line 5` of the cell that ran, `model.py, line 5` of any other source; empty for None."""
        if span is None:
            return ""
        if span.file == self._main:
            return f"line {span.line}"
        source = self._sources.get(span.file)
        return f"{short(source.label if source else span.file, 60)}, line {span.line}"

    def text(self, file: str, line: int) -> str | None:
        """The source line, None where its text is not in the report."""
        source = self._sources.get(file)
        index = line - source.first_line if source else -1
        return self._lines[file][index] if 0 <= index < len(self._lines.get(file, ())) else None

    def excerpt(self, span: Span | None, most: int = 4) -> Code | None:
        """The lines of a span with the span marked; None where their text is not in the report."""
        if span is None or self.text(span.file, span.line) is None:
            return None
        numbers = range(span.line, max(span.line, span.end_line) + 1)
        lines = [self._marked(span, number) for number in numbers[:most]]
        return Code((*lines, None) if len(numbers) > most else tuple(lines))

    def _marked(self, span: Span, number: int) -> CodeLine:
        text = self.text(span.file, number) or ""
        start = offset(text, span.column) if number == span.line else len(text) - len(text.lstrip())
        end = offset(text, span.end_column) if number == span.end_line else len(text.rstrip())
        return CodeLine(text, number, ((start, max(end, start + 1)),) if text else ())


def _main(sources: Sequence[Source], calls: Sequence[Call]) -> str | None:
    """The file whose name goes without saying: the cell that ran, the only cell, or the only source."""
    ran = {call.span.file for call in calls if call.function == "<module>"}
    cells = {source.file for source in sources if source.cell is not None}
    for files in (ran, cells, {source.file for source in sources}):
        if len(files) == 1:
            return next(iter(files))
    return None


def offset(text: str, column: int) -> int:
    """Characters before a UTF-8 column.

    Example:
        >>> offset("名前 = x", 6)
        2
    """
    return column if text.isascii() else len(text.encode("utf-8", "replace")[:column].decode("utf-8", "ignore"))
