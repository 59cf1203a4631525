"""Runs cells under a recording, as `%%jaxtrace` does, and looks at what its rules found."""

import textwrap
from dataclasses import dataclass

from failing_cells import Notebook, replaced

from jaxmagic.core.recording import Options, Recording
from jaxmagic.core.source.spans import text_of
from jaxmagic.records import Finding, Report


@dataclass
class Watched:
    """A notebook whose last cell was recorded."""

    notebook: Notebook
    report: Report

    @property
    def rules(self) -> list[str]:
        return [finding.rule for finding in self.report.findings]

    def found(self, rule: str) -> Finding:
        (finding,) = [finding for finding in self.report.findings if finding.rule == rule]
        return finding

    def marked(self, rule: str) -> str:
        span = self.found(rule).span
        assert span is not None
        return text_of(span)

    def fixed(self, rule: str, change: str = "", to: str = "") -> "Watched":
        """The notebook again with the fix in place, and a call changed to suit it."""
        finding = self.found(rule)
        assert finding.replaces is not None
        cells = []
        for file, cell in self.notebook.cells.items():
            new = replaced(cell, finding.replaces, finding.fix) if file == finding.replaces.file else cell
            cells.append(new.replace(change, to) if change else new)
        return watched(*cells)


def watched(*cells: str) -> Watched:
    """Runs cells in one namespace, the last of them recorded."""
    notebook = Notebook()
    *before, last = [textwrap.dedent(cell).strip() + "\n" for cell in cells]
    for cell in before:
        notebook.run(cell)
    recording = Recording(Options(hlo=False), notebook.told)
    recording.start()
    error = None
    try:
        notebook.run(last)
    except Exception as raised:  # noqa: BLE001 - a failing cell has findings too
        error = raised
    finally:
        recording.stop(error)
    return Watched(notebook, recording.report())
