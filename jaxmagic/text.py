"""Report → plain text for terminals, logs and saved notebooks."""

from collections.abc import Iterator, Sequence
from functools import singledispatch

from jaxmagic.outline.caps import TEXT
from jaxmagic.outline.characters import columns, cropped, visible
from jaxmagic.outline.form import Block, Code, Fold, Items, Line, Paragraph, Preformatted, Section, Table, Tone, Word
from jaxmagic.outline.jaxprs import program_text as program
from jaxmagic.outline.layout import code_lines, wrapped
from jaxmagic.outline.report import outline
from jaxmagic.outline.tables import table_lines
from jaxmagic.records import Report

__all__ = ["program", "render"]

NARROWEST = 40
"""Columns; a narrower page is not tried."""

_INDENT = "    "
_COLOURS: dict[Tone, str] = {
    "strong": "1",
    "dim": "2",
    "hint": "36",
    "mark": "1;31",
    "error": "1;31",
    "wrong-result": "1;35",
    "slow": "1;33",
    "note": "1;34",
}


def render(report: Report, width: int = 80, color: bool = False) -> str:
    """A report as a person reads it in a terminal.

    Args:
        report: Finished or not.
        width: Columns of the terminal; at least 40 are used.
        color: Put ANSI colours in. Leave it off for files and logs.

    Returns:
        Lines of at most `width` columns, without control characters other than line ends (and the colours asked for).

    Example:
        >>> print(jaxmagic.text.render(report))  # doctest: +SKIP
        %%jaxtrace: finished after 1.26 s on cpu (tracing 4.19 ms, compiling 31 ms, …)
        1 compiled function and 1 of libraries, 1 trace, 0 findings, 5 printed lines
    """
    write = _coloured if color else _plain
    return "\n".join(write(line).rstrip() for line in _page(outline(report, TEXT), max(width, NARROWEST)))


def _page(blocks: Sequence[Block], width: int) -> Iterator[Line]:
    before: Block | None = None
    for block in blocks:
        if before is not None and _apart(before, block):
            yield ()
        yield from _lines(block, width)
        before = block


def _apart(before: Block, block: Block) -> bool:
    """Whether a blank line goes between: before a section, and before what begins something new inside one."""
    if isinstance(block, Section):
        return True
    after_prose = isinstance(before, Paragraph) and not before.indent
    if isinstance(block, Fold):
        return after_prose
    return isinstance(block, Paragraph) and not block.indent and not after_prose


@singledispatch
def _lines(block: Block, width: int) -> Iterator[Line]:
    raise TypeError(f"no text for a {type(block).__name__}")


@_lines.register
def _section(block: Section, width: int) -> Iterator[Line]:
    yield _ruled(block.title, width)
    yield from _page(block.blocks, width)


@_lines.register
def _paragraph(block: Paragraph, width: int) -> Iterator[Line]:
    return wrapped(_with_backticks(block.line), width, _INDENT * block.indent)


@_lines.register
def _items(block: Items, width: int) -> Iterator[Line]:
    for line in block.lines:
        yield from wrapped(_with_backticks(line), width, f"{_INDENT}- ", f"{_INDENT}  ")


@_lines.register
def _code(block: Code, width: int) -> Iterator[Line]:
    numbered = any(line is not None and line.number is not None for line in block.lines)
    indent = Word("  " if numbered else _INDENT * 2)
    return ((indent, *line) for line in code_lines(block, width - len(indent.text)))


@_lines.register
def _table(block: Table, width: int) -> Iterator[Line]:
    return table_lines(block, width)


@_lines.register
def _preformatted(block: Preformatted, width: int) -> Iterator[Line]:
    for text in block.text().split("\n"):
        yield from wrapped((Word(text),), width, _INDENT)


@_lines.register
def _fold(block: Fold, width: int) -> Iterator[Line]:
    yield from wrapped(block.summary, width, f"{_INDENT}+ ", f"{_INDENT}  ")
    if block.open:
        yield from _page(block.blocks, width)


def _ruled(title: Line, width: int) -> Line:
    text = cropped(visible("".join(word.text for word in title)), width - 8)
    return (
        Word("── ", "dim"),
        Word(text, title[0].tone if title[0].tone != "plain" else "strong"),
        Word(f" {'─' * (width - columns(text) - 4)}", "dim"),
    )


def _with_backticks(line: Line) -> Line:
    return tuple(Word(f"`{word.text}`", word.tone) if word.tone == "quoted" else word for word in line)


def _plain(line: Line) -> str:
    return "".join(word.text for word in line)


def _coloured(line: Line) -> str:
    return "".join(_painted(word) for word in line)


def _painted(word: Word) -> str:
    code = _COLOURS.get(word.tone)
    return f"\x1b[{code}m{word.text}\x1b[0m" if code and word.text.strip() else word.text
