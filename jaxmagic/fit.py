"""Report → the payload that travels and is saved, small enough for a notebook. What is dropped is said."""

import base64
import gzip
from collections.abc import Callable, Iterator

import msgspec

from jaxmagic.records import PROTOCOL, Compiled, Listing, Payload, Program, Region, Report, Trace

MOST_BYTES = 600_000
"""Of the payload. With the static HTML and the text a saved output stays under 1 MB."""

Shrink = Callable[[Trace], Trace]


def payload(report: Report, most_bytes: int = MOST_BYTES) -> Payload:
    """Packs a report, dropping the largest parts first until it takes at most `most_bytes`.

    Example:
        >>> payload(report).protocol
        1
    """
    packed = _pack(report)
    for said, smaller in _steps(report):
        if len(packed) <= most_bytes:
            break
        packed = _pack(msgspec.structs.replace(smaller, limits=(*report.limits, said)))
    return Payload(protocol=PROTOCOL, version=report.versions.jaxmagic, report=packed)


def unpack(saved: Payload) -> Report:
    """The report in a payload of this protocol.

    Raises:
        ValueError: The payload has another protocol number.
    """
    if saved.protocol != PROTOCOL:
        raise ValueError(
            f"This report was saved by jaxmagic {saved.version} (protocol {saved.protocol}); "
            f"this jaxmagic reads protocol {PROTOCOL}. Run the cell again, or install that version."
        )
    return msgspec.json.decode(gzip.decompress(base64.b64decode(saved.report)), type=Report)


def _pack(report: Report) -> str:
    return base64.b64encode(gzip.compress(msgspec.json.encode(report), 6)).decode()


def _steps(report: Report) -> Iterator[tuple[str, Report]]:
    """Ever smaller reports, each with the sentence that says what it lacks."""
    said = "To keep the notebook small, the saved panel leaves out {}; `-o NAME` has everything."
    for what, shrink in (
        ("the programs of library functions", None),
        ("optimized HLO text", lambda t: msgspec.structs.replace(t, hlo=_cut(t.hlo, 0))),
        ("HLO and StableHLO text", lambda t: _without_text(t, 0)),
        ("HLO and StableHLO, and equations past a region's first 400", lambda t: _trim(_without_text(t, 0), 400)),
        ("HLO and StableHLO, and equations past a region's first 40", lambda t: _trim(_without_text(t, 0), 40)),
        ("all programs", lambda t: msgspec.structs.replace(t, hlo=None, stablehlo=None, program=None)),
    ):
        yield said.format(what), _shrunk(report, shrink)
    bare = msgspec.structs.replace(report, compiled=(), hints=report.hints[:2000], printed=report.printed[:500])
    yield said.format("all programs, and hints past the first 2,000"), bare


def _shrunk(report: Report, shrink: Shrink | None) -> Report:
    return msgspec.structs.replace(report, compiled=tuple(_shrunk_function(c, shrink) for c in report.compiled))


def _shrunk_function(compiled: Compiled, shrink: Shrink | None) -> Compiled:
    if compiled.library:
        shrink = _without_programs
    return compiled if shrink is None else msgspec.structs.replace(compiled, traces=tuple(map(shrink, compiled.traces)))


def _without_programs(trace: Trace) -> Trace:
    return msgspec.structs.replace(trace, hlo=None, stablehlo=None, program=None)


def _without_text(trace: Trace, most: int) -> Trace:
    return msgspec.structs.replace(trace, hlo=_cut(trace.hlo, most), stablehlo=_cut(trace.stablehlo, most))


def _cut(listing: Listing | None, most: int) -> Listing | None:
    if listing is None:
        return None
    dropped = listing.dropped + max(0, len(listing.text) - most)
    return msgspec.structs.replace(listing, text=listing.text[:most], instructions=(), frames=(), dropped=dropped)


def _trim(trace: Trace, most: int) -> Trace:
    if trace.program is None:
        return trace
    return msgspec.structs.replace(trace, program=_trimmed(trace.program, most))


def _trimmed(program: Program, most: int) -> Program:
    return msgspec.structs.replace(program, root=_region(program.root, most))


def _region(region: Region, most: int) -> Region:
    kept = tuple(
        msgspec.structs.replace(equation, regions=tuple(_region(inner, most) for inner in equation.regions))
        for equation in region.equations[:most]
    )
    return msgspec.structs.replace(region, equations=kept, hidden=region.hidden + len(region.equations) - len(kept))
