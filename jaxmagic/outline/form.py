"""What an outline is made of. No markup, no widths, no colours: those belong to the two ways of showing it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

Tone = Literal["plain", "strong", "dim", "code", "quoted", "hint", "mark", "error", "wrong-result", "slow", "note"]


class Word(NamedTuple):
    """A piece of a line that means one thing. Any string will do: both views make it harmless."""

    text: str
    tone: Tone = "plain"


Line = tuple[Word, ...]


@dataclass(frozen=True)
class Paragraph:
    line: Line
    indent: int = 0


@dataclass(frozen=True)
class Items:
    """A list of facts, one line each."""

    lines: tuple[Line, ...]


@dataclass(frozen=True)
class CodeLine:
    text: str
    number: int | None = None
    marks: tuple[tuple[int, int], ...] = ()
    """Pieces to underline, as character offsets in `text`."""
    notes: Line = ()
    """Comment at the line's end; a line may be broken between two words of it, never inside one."""


@dataclass(frozen=True)
class Code:
    lines: tuple[CodeLine | None, ...]
    """None where lines were left out."""


@dataclass(frozen=True)
class Table:
    head: tuple[str, ...]
    rows: tuple[tuple[Line, ...], ...]
    numeric: tuple[int, ...] = ()
    """Columns of quantities, to be aligned on the right."""


@dataclass(frozen=True)
class Preformatted:
    text: Callable[[], str]
    """Written only when shown: a program can be long."""


@dataclass(frozen=True)
class Section:
    title: Line
    blocks: "tuple[Block, ...]"


@dataclass(frozen=True)
class Fold:
    """Details that a reader opens. Plain text shows them under their summary."""

    summary: Line
    blocks: "tuple[Block, ...]"
    open: bool = False
    optional: bool = False
    """May be left out of a page that grows too large."""


Block = Paragraph | Items | Code | Table | Preformatted | Section | Fold


def line(*parts: str | Word) -> Line:
    """A line of words, plain where only a string is given."""
    return tuple(Word(part) if isinstance(part, str) else part for part in parts)


def prose(text: str) -> Line:
    """A sentence with code between backticks.

    Example:
        >>> [word.tone for word in prose("`x` is a tracer")]
        ['quoted', 'plain']
    """
    tones: tuple[Tone, Tone] = ("plain", "quoted")
    if text.count("`") % 2:
        return (Word(text),)
    return tuple(Word(part, tones[i % 2]) for i, part in enumerate(text.split("`")) if part)
