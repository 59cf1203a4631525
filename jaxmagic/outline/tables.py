"""A table in columns of characters; where that is too wide for the page, a list of records."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from jaxmagic.outline.characters import columns, visible
from jaxmagic.outline.form import Line, Table, Word
from jaxmagic.outline.layout import wrapped

INDENT = "  "
_BETWEEN = "  "
_NARROWEST = 12


def table_lines(table: Table, width: int) -> Iterator[Line]:
    """The table in at most `width` columns."""
    widths = _widths(table, width - len(INDENT))
    if widths is None:
        yield from _records(table, width)
        return
    yield from _row(tuple((Word(name, "dim"),) for name in table.head), widths, table.numeric)
    for row in table.rows:
        yield from _row(row, widths, table.numeric)


def _widths(table: Table, width: int) -> list[int] | None:
    """Natural widths, the widest column of text narrowed until all fit; None where they can't."""
    rows = [tuple((Word(name),) for name in table.head), *table.rows]
    widths = [max(_columns(row[i]) for row in rows) for i in range(len(table.head))]
    free = [i for i in range(len(widths)) if i not in table.numeric]
    while (over := sum(widths) + len(_BETWEEN) * (len(widths) - 1) - width) > 0:
        widest = max(free, key=lambda i: widths[i], default=None)
        if widest is None or widths[widest] <= _NARROWEST:
            return None
        others = max((widths[i] for i in free if i != widest), default=0)
        widths[widest] = max(_NARROWEST, min(widths[widest] - 1, max(widths[widest] - over, others)))
    return widths


def _columns(line: Line) -> int:
    return sum(columns(visible(word.text)) for word in line)


def _row(row: Sequence[Line], widths: Sequence[int], numeric: Sequence[int]) -> Iterator[Line]:
    cells = [list(wrapped(line, width)) for line, width in zip(row, widths, strict=True)]
    for lines in zip_longest(*cells, fillvalue=()):
        words: list[Word] = [Word(INDENT)]
        for i, (line, width) in enumerate(zip(lines, widths, strict=True)):
            space = Word(" " * (width - _columns(line)))
            words += [Word(_BETWEEN)] if i else []
            words += [space, *line] if i in numeric else [*line, space]
        yield tuple(words)


def _records(table: Table, width: int) -> Iterator[Line]:
    for row in table.rows:
        name, *values = row
        yield from wrapped(name, width, INDENT)
        for head, value in zip(table.head[1:], values, strict=True):
            yield from wrapped((Word(f"{head}: ", "dim"), *value), width, INDENT * 2, INDENT * 3)
