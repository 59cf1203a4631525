"""Diagnoses, the worst first: the cause, the facts, the way out."""

from collections.abc import Sequence

from jaxmagic.outline.caps import Caps, first
from jaxmagic.outline.characters import short
from jaxmagic.outline.form import Block, Code, CodeLine, Items, Line, Paragraph, Section, Word, line, prose
from jaxmagic.outline.leaves import NAME
from jaxmagic.outline.places import Places
from jaxmagic.records import Evidence, Finding, Severity

SEVERITIES: dict[Severity, str] = {
    "error": "error",
    "wrong-result": "wrong result",
    "slow": "slow",
    "note": "note",
}
"""Worst first, each as a person says it."""


def ordered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The worst first; the numbers that other sections use are positions in this order."""
    order = list(SEVERITIES)
    return tuple(sorted(findings, key=lambda finding: order.index(finding.severity)))


def findings_section(findings: Sequence[Finding], places: Places, caps: Caps) -> Section | None:
    if not findings:
        return None
    kept, more = first(findings, caps.findings, "finding")
    blocks: list[Block] = []
    for number, finding in enumerate(kept, 1):
        blocks += finding_blocks(finding, places, number=number, rank=True)
    return Section(line("Findings"), (*blocks, *map(Paragraph, more)))


def finding_blocks(
    finding: Finding, places: Places, number: int | None = None, excerpt: bool = True, rank: bool = False
) -> list[Block]:
    """One finding. `excerpt` shows its source line, `rank` its severity."""
    head = (f"{number}. " if number else "", Word(_rank(finding), finding.severity), " ") if rank else ()
    code = places.excerpt(finding.span) if excerpt else None
    way_out = "Instead:" if finding.replaces else "Fix:"
    return [
        Paragraph(line(*head, *_strong(finding.title))),
        Paragraph(_reference(finding, places), 1),
        *([code] if code else []),
        *([Paragraph(prose(finding.explanation), 1)] if finding.explanation else []),
        *([Items(tuple(_fact(fact, places) for fact in finding.evidence))] if finding.evidence else []),
        *([Paragraph(line(Word(way_out, "strong")), 1), _fix(finding.fix)] if finding.fix else []),
    ]


def _rank(finding: Finding) -> str:
    word = SEVERITIES[finding.severity]
    return f"{'possibly ' if not finding.sure else ''}{word}:"


def _strong(title: str) -> Line:
    return tuple(Word(word.text, "strong" if word.tone == "plain" else word.tone) for word in prose(title))


def _reference(finding: Finding, places: Places) -> Line:
    times = f", {finding.times:,} times" if finding.times > 1 else ""
    where = places.name(finding.span)
    return line(Word(f"{where}{times}{' · ' if where or times else ''}{short(finding.rule, NAME)}", "dim"))


def _fact(fact: Evidence, places: Places) -> Line:
    where = places.name(fact.span)
    return line(*prose(fact.text), Word(f" ({where})" if where else "", "dim"))


def _fix(fix: str) -> Code:
    return Code(tuple(CodeLine(text) for text in fix.rstrip("\n").split("\n")))
