"""Which files' text a report takes along."""

import linecache

from jaxmagic.core.cells import Cells
from jaxmagic.core.sources import with_sources
from jaxmagic.records import Evidence, Failure, Finding, Hint, Operand, Report, Span, Versions


def known(name: str) -> Span:
    file = f"<ipython-input-900-{name}>"
    linecache.cache[file] = (2, None, [f"{name}\n"], file)
    return Span(file, 1, 0, 1, 1)


def test_the_cells_that_evidence_fixes_and_origins_point_at_are_there():
    ran, stored, changed, wrote = (known(name) for name in ("ran", "stored", "changed", "wrote"))
    finding = Finding("leaked-tracer", "error", ran, "", "", (Evidence("here", stored),), "x", changed)
    origin = Hint(wrote, "<module>", 0, "x", "assigned", ())
    failure = Failure("Error", "", ran, (), (Operand("x", None, None, (origin,)),), (finding,))
    report = Report("jaxtrace", "failed", "", Versions("", "", "", ""), failure=failure)
    told = {source.file: source.text for source in with_sources(report, Cells()).sources}
    assert told == {span.file: linecache.getline(span.file, 1) for span in (ran, stored, changed, wrote)}
