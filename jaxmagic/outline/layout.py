"""Words to a width: lines broken to fit, comments aligned, carets under what is marked."""

from collections.abc import Iterator, Sequence

from jaxmagic.outline.characters import columns, cropped, visible
from jaxmagic.outline.form import Code, CodeLine, Line, Word

NARROWEST_NOTES = 40
"""Columns that comments get at least, on a page that has them."""
_TAB = "    "


def wrapped(line: Line, width: int, indent: str = "", hanging: str | None = None) -> Iterator[Line]:
    """A line broken at spaces, or anywhere in a word that is wider than the page."""
    hanging = indent if hanging is None else hanging
    current, used = [Word(indent)], len(indent)
    for run in _runs(line, max(8, width - len(hanging))):
        size = sum(columns(word.text) for word in run)
        if used + size > width and len(current) > 1:
            yield _stripped(current)
            current, used = [Word(hanging)], len(hanging)
        if len(current) > 1 or run[0].text != " ":
            current += run
            used += size
    if len(current) > 1:
        yield _stripped(current)


def _runs(line: Line, widest: int) -> Iterator[list[Word]]:
    """What a line may be broken between: spaces, and words with nothing between them."""
    run: list[Word] = []
    for word in line:
        for i, part in enumerate(visible(word.text).split(" ")):
            if i:
                yield from _chopped(run, widest)
                yield [Word(" ", word.tone)]
                run = []
            run += [Word(part, word.tone)] if part else []
    yield from _chopped(run, widest)


def _chopped(run: list[Word], widest: int) -> Iterator[list[Word]]:
    """The run, in pieces if it is wider than the page."""
    if not run:
        return
    if sum(columns(word.text) for word in run) <= widest:
        yield run
        return
    for word in run:
        for i in range(0, len(word.text), widest // 2):
            yield [Word(word.text[i : i + widest // 2], word.tone)]


def _stripped(words: list[Word]) -> Line:
    while words and words[-1].text == " ":
        words = words[:-1]
    return tuple(word for word in words if word.text)


# --------------------------------------------------------------------------------------------- code


def code_lines(code: Code, width: int, longest: int = 0) -> Iterator[Line]:
    """Source lines with their numbers, comments in one column, carets under marked pieces.

    Args:
        code: Numbered or not.
        width: Columns for a line with its comment.
        longest: Columns for a line of code alone, where there may be more than `width`.
    """
    lines = [line for line in code.lines if line is not None]
    gutter = max((len(str(line.number)) for line in lines if line.number is not None), default=0)
    page = _Page(lines, width - gutter - 2, max(width, longest) - gutter - 2)
    for line in code.lines:
        if line is None:
            yield (Word(f"{'⋮':>{gutter}}", "dim"),)
        else:
            number = "" if line.number is None else str(line.number)
            yield from page.lines(line, Word(f"{number:>{gutter}}  ", "dim"))


class _Page:
    """Where code ends and comments begin, beside the line numbers."""

    def __init__(self, lines: Sequence[CodeLine], room: int, longest: int) -> None:
        self._room = room
        self._longest = longest
        most = room - min(NARROWEST_NOTES, room * 5 // 9)
        widths = [columns(_shown(line.text)) for line in lines if line.notes]
        self._column = min(max([width for width in widths if width + 2 <= most], default=0) + 2, most)

    def lines(self, line: CodeLine, gutter: Word) -> Iterator[Line]:
        text, marks = _window(line, self._longest)
        notes = list(_notes(line.notes, self._room - self._column))
        space = self._space(columns(text), notes)
        beside = (Word(" " * space), *notes.pop(0)) if space else ()
        yield (gutter, *_marked(text, marks), *beside)
        blank = " " * columns(gutter.text)
        if marks:
            yield (Word(blank), Word(_carets(text, marks), "error"))
        for words in notes:
            yield (Word(blank + " " * self._column), *words)

    def _space(self, width: int, notes: Sequence[Line]) -> int:
        """Columns between code and its first comment line, 0 where that goes below the code."""
        if not notes:
            return 0
        if width + 2 <= self._column:
            return self._column - width
        first = sum(columns(word.text) for word in notes[0])
        return 2 if len(notes) == 1 and width + 2 + first <= self._room else 0


def _shown(text: str) -> str:
    return visible(text.rstrip().replace("\t", _TAB), 20_000)


def _window(line: CodeLine, room: int) -> tuple[str, list[tuple[int, int]]]:
    """The part of a line to show, cut on the left where a mark would fall outside, and its marks in it."""
    text = _shown(line.text)
    marks = [(len(_shown(line.text[:a] + ".")) - 1, len(_shown(line.text[:b] + ".")) - 1) for a, b in line.marks]
    marks = [(a, b) for a, b in marks if a < len(text)]
    start = (
        max(0, min(a for a, _ in marks) - room // 4) if marks and columns(text) > room and marks[-1][1] > room else 0
    )
    if start:
        text, marks = "…" + text[start + 1 :], [(a - start, b - start) for a, b in marks]
    text = cropped(text, room)
    return text, [(a, min(b, len(text))) for a, b in marks if a < len(text)]


def _marked(text: str, marks: Sequence[tuple[int, int]]) -> Line:
    words, at = [], 0
    for start, end in sorted(marks):
        words += [Word(text[at:start]), Word(text[start:end], "mark")]
        at = end
    return tuple(word for word in (*words, Word(text[at:])) if word.text)


def _carets(text: str, marks: Sequence[tuple[int, int]]) -> str:
    carets = ""
    for start, end in sorted(marks):
        carets += " " * (columns(text[:start]) - len(carets)) + "^" * max(1, columns(text[start:end]))
    return carets


def _notes(notes: Line, width: int) -> Iterator[Line]:
    """Comment lines, broken only between notes."""
    lines: list[list[Word]] = []
    used = width
    for note in notes:
        text = cropped(visible(note.text), width - 4)
        if used + 1 + columns(text) > width:
            lines.append([Word("#   " if lines else "# ", "dim")])
            used = len(lines[-1][0].text) - 1
        else:
            lines[-1].append(Word(" "))
        lines[-1].append(Word(text, note.tone))
        used += 1 + columns(text)
    yield from map(tuple, lines)
