"""Report → outline: what a person wants to know first comes first."""

import re

from jaxmagic.outline import units
from jaxmagic.outline.caps import Caps, first
from jaxmagic.outline.characters import short
from jaxmagic.outline.failure import failure_section
from jaxmagic.outline.findings import findings_section, ordered
from jaxmagic.outline.form import Block, Items, Line, Paragraph, Section, Tone, Word, line
from jaxmagic.outline.functions import functions_section
from jaxmagic.outline.leaves import NAME
from jaxmagic.outline.listing import source_sections
from jaxmagic.outline.nojit import nojit_section
from jaxmagic.outline.places import Places
from jaxmagic.outline.values import comparison_section, printed_section, taps_section
from jaxmagic.records import Report

_MAGIC = re.compile(r"\A\s*%%[^\n]*")
_TONES: dict[str, Tone] = {"finished": "strong", "failed": "error", "interrupted": "slow", "running": "note"}


def outline(report: Report, caps: Caps) -> tuple[Block, ...]:
    """Header, failure, findings, values, source with shapes, prints, compiled functions, limits."""
    places = Places(report.sources, report.calls)
    findings = ordered(report.findings)
    sections = (
        failure_section(report, places, caps),
        findings_section(findings, places, caps),
        comparison_section(report.comparison, places, caps),
        nojit_section(report.nojit, places, caps),
        taps_section(report.taps, places, caps),
        *source_sections(report, findings, places, caps),
        printed_section(report.printed, places, caps),
        functions_section(report, places, caps),
        _limits(report, caps),
    )
    return (*_header(report), *(section for section in sections if section is not None))


def _header(report: Report) -> tuple[Paragraph, ...]:
    state = Word(report.state, _TONES[report.state])
    title = line(Word(short(report.title, 120), "strong"), ": ", state, *_seconds(report))
    said = (", ".join(_counts(report)), _nothing(report))
    return tuple(map(Paragraph, (title, *(line(text) for text in said if text), _versions(report))))


def _seconds(report: Report) -> Line:
    spent = report.seconds
    parts = (("tracing", spent.trace), ("lowering", spent.lower), ("compiling", spent.compile))
    known = [f"{name} {units.seconds(value)}" for name, value in parts if value]
    rest = spent.total - sum(value for _, value in parts)
    known += [f"running and Python {units.seconds(rest)}"] if known and rest > 0 else []
    where = f" on {short(report.backend, NAME)}" if report.backend else ""
    details = f" ({', '.join(known)})" if known else ""
    total = units.seconds(spent.total)
    when = f", {total} so far" if report.state == "running" else f" after {total}"
    return line(f"{when}{where}{details}")


def _counts(report: Report) -> list[str]:
    users = [compiled for compiled in report.compiled if not compiled.library]
    library = len(report.compiled) - len(users)
    findings = len(report.findings) + (len(report.failure.findings) if report.failure else 0)
    counts = (
        (len(users), "compiled function"),
        (sum(len(compiled.traces) for compiled in users), "trace"),
        (library, "compiled library function"),
        (findings, "finding"),
        (len(report.taps), "tapped value"),
        (len(report.printed), "printed line"),
    )
    return [units.counted(count, thing) for count, thing in counts if count]


def _nothing(report: Report) -> str:
    """A word on reports in which there is little to see."""
    if report.state != "finished" or report.hints or report.compiled or report.taps or report.nojit or report.limits:
        return ""
    if not any(_MAGIC.sub("", source.text).strip() for source in report.sources):
        return "The cell is empty."
    if report.mode == "jaxtap":
        return "No value came ashore."
    return "No array was seen at a line and no function was compiled."


def _versions(report: Report) -> Line:
    versions = report.versions
    devices = len(report.devices)
    tool = f", {units.seconds(report.seconds.tool)} spent by jaxmagic" if report.seconds.tool else ""
    names = (
        f"JAX {short(versions.jax, 20)}, Python {short(versions.python, 20)}, jaxmagic {short(versions.jaxmagic, 20)}"
    )
    return line(Word(f"{names}, {units.counted(devices, 'device')}{tool}", "dim"))


def _limits(report: Report, caps: Caps) -> Section | None:
    if not report.limits:
        return None
    kept, more = first(report.limits, caps.limits, "limit")
    return Section(
        line("Not observed, or observed twice"), (Items((*(line(short(text, 500)) for text in kept), *more)),)
    )
