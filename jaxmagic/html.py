"""Report → static HTML without scripts: for GitHub, exports and notebooks that are not trusted."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from jaxmagic.elements import Markup, element, joined, style_sheet, text_lines
from jaxmagic.outline.caps import Caps
from jaxmagic.outline.form import Block, Code, Fold, Items, Line, Paragraph, Preformatted, Section, Table, Word, line
from jaxmagic.outline.layout import code_lines
from jaxmagic.outline.report import outline
from jaxmagic.records import Report

MOST_BYTES = 250_000
"""Of one page. With the saved panel and the text an output stays under 1 MB."""

CODE_COLUMNS = 88
"""Width to which code and its comments are set."""
LONGEST_CODE = 200
"""Columns of a source line that are kept."""
LONGEST_LINE = 1000
"""Characters of a program's line that are kept."""

_LEAST = 500
"""Spare bytes below which an optional part is not even tried."""


def render(report: Report, most_bytes: int = MOST_BYTES) -> str:
    """A report as one self-contained piece of HTML, readable without its style sheet.

    Args:
        report: Finished or not.
        most_bytes: Of UTF-8. Programs are left out first, then ever more of everything; each time it is said.

    Returns:
        One `<div>`: no script, no link, no attribute but those of `elements.ATTRIBUTES`.
    """
    for caps in (Caps(), Caps().divided(4), Caps().divided(16), Caps().divided(64)):
        blocks = outline(report, caps)
        least = _size(_page(blocks, 0))
        if least <= most_bytes:
            return _page(blocks, most_bytes - least).html
    said = Paragraph(
        line(Word("The rest of this report is too large for a page; use `-o NAME` and NAME itself.", "slow"))
    )
    return _page((*outline(report, Caps().divided(64))[:2], said), 0).html


def _page(blocks: Sequence[Block], spare: int) -> Markup:
    """The page, with as many of the optional folds as fit in `spare` bytes."""
    return element("div", style_sheet(_css()), *_Writer(spare).blocks(blocks), class_="jaxmagic-report")


@cache
def _css() -> str:
    return files("jaxmagic").joinpath("html.css").read_text(encoding="utf-8")


def _size(markup: Markup) -> int:
    return len(markup.html.encode("utf-8"))


class _Writer:
    """Turns blocks into elements and keeps account of the bytes that optional ones may use."""

    def __init__(self, spare: int) -> None:
        self._spare = spare

    def blocks(self, blocks: Sequence[Block]) -> list[Markup]:
        return [self._block(block) for block in blocks]

    def _block(self, block: Block) -> Markup:
        match block:
            case Section():
                title = element("summary", element("strong", *_words(block.title)))
                return element("details", title, *self.blocks(block.blocks), open=True, class_="section")
            case Paragraph():
                return element("p", *_words(block.line), class_="indented" if block.indent else None)
            case Items():
                return element("ul", *(element("li", *_words(words)) for words in block.lines))
            case Code():
                return _code(block)
            case Table():
                return _table(block)
            case Preformatted():
                return element("pre", text_lines(block.text(), LONGEST_LINE))
            case Fold():
                return self._fold(block)

    def _fold(self, fold: Fold) -> Markup:
        body = self._optional(fold) if fold.optional else joined(*self.blocks(fold.blocks))
        return element("details", element("summary", *_words(fold.summary)), body, open=fold.open)

    def _optional(self, fold: Fold) -> Markup:
        body = joined(*self.blocks(fold.blocks)) if self._spare >= _LEAST else None
        if body is None or _size(body) > self._spare:
            return element("p", "Left out to keep the page small.")
        self._spare -= _size(body)
        return body


def _table(table: Table) -> Markup:
    head = (element("th", name, scope="col", **_alignment(table, i)) for i, name in enumerate(table.head))
    rows = (
        element("tr", *(element("td", *_words(words), **_alignment(table, i)) for i, words in enumerate(row)))
        for row in table.rows
    )
    return element("table", element("thead", element("tr", *head)), element("tbody", *rows))


def _alignment(table: Table, column: int) -> dict[str, str]:
    if column in table.numeric:
        return {"class_": "number", "style": "text-align: right"}
    return {"style": "text-align: left"}


def _code(code: Code) -> Markup:
    return element("pre", *_lines(list(code_lines(code, CODE_COLUMNS, LONGEST_CODE))))


def _lines(lines: Sequence[Line]) -> list[Markup]:
    # A real line break in the text of a <pre>: the only one that needs no style sheet.
    return [joined(*map(_word, words), Markup("\n")) for words in lines]


def _words(words: Line) -> list[Markup]:
    return [_word(word) for word in words]


def _word(word: Word) -> Markup:
    match word.tone:
        case "plain":
            return joined(word.text)
        case "strong":
            return element("strong", word.text)
        case "mark":
            return element("mark", word.text)
        case "code" | "quoted":
            return element("code", word.text)
        case "dim" | "hint":
            return element("span", word.text, class_=word.tone)
        case "error" | "wrong-result" | "slow" | "note":
            return element("strong", word.text, class_=word.tone)
