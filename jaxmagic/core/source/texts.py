"""The text of files, cells and executed strings; which label a person knows them by."""

import linecache
import os
import re

from jaxmagic.records import Source, Span

_told: dict[str, tuple[str, int]] = {}
"""Text and first line of code that `linecache` doesn't know: what `%%time` runs, for one."""

_TERMINAL_CELL = re.compile(r"<ipython-input-(\d+)-")


def remember(file: str, text: str, first_line: int = 1) -> None:
    """Makes the text known of code that was compiled under a name without a file behind it, such as `<timed exec>`."""
    _told[file] = (text, first_line)


def lines_of(file: str) -> list[str]:
    """The lines of a file or cell, each with its end; empty where its text is not known."""
    if file in _told:
        text, first_line = _told[file]
        return ["\n"] * (first_line - 1) + text.splitlines(keepends=True)
    return linecache.getlines(file)


def text_of(span: Span) -> str:
    """The source text of a span; empty where the text is not known or has fewer lines."""
    lines = [line.encode() for line in lines_of(span.file)[span.line - 1 : span.end_line]]
    if len(lines) < span.end_line - span.line + 1:
        return ""
    lines[-1] = lines[-1][: span.end_column]
    lines[0] = lines[0][span.column :]
    return b"".join(lines).decode(errors="replace")


def source_record(file: str, cell: int | None = None) -> Source:
    """The whole text of a file as a record.

    Args:
        file: `co_filename` of its code.
        cell: Its execution count, where the caller knows that it is a notebook cell.
    """
    terminal = _TERMINAL_CELL.match(file)
    count = int(terminal[1]) if terminal and cell is None else cell
    name = "timed cell" if file.startswith("<timed ") else os.path.basename(file)
    label = name if count is None else f"cell [{count}]"
    return Source(file, label, count, "".join(lines_of(file)))
