"""What failed, where, with which operands and where those came from."""

from jaxmagic.outline.caps import Caps, first
from jaxmagic.outline.characters import short
from jaxmagic.outline.findings import finding_blocks
from jaxmagic.outline.form import Block, Line, Paragraph, Section, Table, Word, line
from jaxmagic.outline.leaves import NAME, cut, leaf_pieces
from jaxmagic.outline.places import Places
from jaxmagic.records import Failure, Hint, Operand, Report

MESSAGE_LINES = 12
MESSAGE = 600
"""Characters of one line of a message."""


def failure_section(report: Report, places: Places, caps: Caps) -> Section | None:
    failure = report.failure
    if failure is None:
        return None
    kind = failure.type.rpartition(".")[2]
    when = f" while {_PHASES[failure.phase]}" if report.state == "failed" else ""
    title = "Interrupted" if report.state == "interrupted" else f"{short(kind, NAME)}{when}"
    blocks = [*_message(failure), *_where(failure, places), *_operands(failure, places)]
    for finding in failure.findings:
        blocks += finding_blocks(finding, places, excerpt=finding.span != failure.span, rank=True)
    return Section(line(Word(title, "error")), tuple(blocks))


_PHASES = {
    "tracing": "tracing",
    "compiling": "compiling",
    "running": "running a compiled program",
    "python": "running Python",
}


def _message(failure: Failure) -> list[Block]:
    lines = [text for text in failure.message.split("\n") if text.strip()]
    kept, more = first(lines, MESSAGE_LINES, "line")
    return [*(Paragraph(line(Word(short(text, MESSAGE), "strong"))) for text in kept), *map(Paragraph, more)]


def _where(failure: Failure, places: Places) -> list[Block]:
    """The failing expression underlined, then the calls that led there."""
    blocks: list[Block] = []
    for i, frame in enumerate(failure.frames[:6]):
        span = failure.span if i == 0 and failure.span else frame.span
        words = _place(frame.function, places.name(span))
        blocks.append(Paragraph(words if i == 0 else line("called from ", *words)))
        excerpt = places.excerpt(span)
        blocks += [excerpt] if excerpt else []
    if not failure.frames and failure.span:
        excerpt = places.excerpt(failure.span)
        blocks += [Paragraph(line(places.name(failure.span))), *([excerpt] if excerpt else [])]
    return blocks


def _place(function: str, where: str) -> Line:
    return line(where) if function == "<module>" else line(where, ", in ", Word(short(function, NAME), "code"))


def _operands(failure: Failure, places: Places) -> list[Block]:
    rows = [row for operand in failure.operands for row in _operand(operand, places)]
    return [Table(("Operand", "Shape", "Came from"), tuple(rows))] if rows else []


def _operand(operand: Operand, places: Places) -> list[tuple[Line, ...]]:
    name = line(Word(short(operand.name, NAME), "code"))
    aval = line(Word(short(str(operand.aval), NAME), "hint") if operand.aval else "no array")
    origins = list(dict.fromkeys(_origin(hint, operand, places) for hint in operand.provenance[:4])) or [line("")]
    return [(name, aval, origins[0]), *((line(""), line(""), origin) for origin in origins[1:])]


def _origin(hint: Hint, operand: Operand, places: Places) -> Line:
    """Where a value was stored, with its arrays where they are not the operand's own."""
    where = places.name(hint.span)
    argument = f", argument of {short(hint.function, NAME)}" if hint.role == "argument" else ""
    pieces = cut(leaf_pieces(hint.leaves, hint.hidden), 4)
    same = hint.name == operand.name and [leaf.aval for leaf in hint.leaves] == [operand.aval]
    value = "" if same else f": {short(hint.name, NAME)} = {', '.join(pieces)}"
    text = places.text(hint.span.file, hint.span.line)
    code = (Word(": "), Word(short(text.strip(), NAME), "code")) if text and same and not argument else ()
    return line(f"{where}{argument}{value}", *code)
