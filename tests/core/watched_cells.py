"""Runs cells under `%%jaxtap --when nan`, looks at what was found, and runs them again with the fix in place."""

import textwrap
from dataclasses import dataclass
from typing import Any

from failing_cells import Notebook, replaced

from jaxmagic.core.source.spans import text_of
from jaxmagic.core.tapping import Tapping
from jaxmagic.core.taps.taps import TapOptions
from jaxmagic.records import Finding, Report

IMPORTS = "import jax, jax.numpy as jnp\n"


@dataclass
class Seen:
    """A notebook whose last cell was watched."""

    notebook: Notebook
    report: Report
    options: dict[str, Any]

    @property
    def findings(self) -> list[Finding]:
        return [finding for finding in self.report.findings if finding.rule.startswith(("nan-", "infinity-"))]

    @property
    def grave(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity != "note"]

    @property
    def limits(self) -> list[str]:
        """What was not observed, but for the rules that no tapped cell is looked at by."""
        return [line for line in self.report.limits if "not looked for in programs with taps" not in line]

    @property
    def finding(self) -> Finding:
        """The one that there is."""
        assert len(self.findings) == 1, (self.findings, self.report.limits, self.report.failure)
        return self.findings[0]

    @property
    def marked(self) -> str:
        assert self.finding.span is not None
        return text_of(self.finding.span)

    @property
    def evidence(self) -> str:
        return "\n".join(evidence.text for evidence in self.finding.evidence)

    def fixed(self) -> "Seen":
        """The notebook again with the fix in the place it names."""
        assert self.finding.fix, self.finding
        assert self.finding.replaces is not None
        cells = [
            replaced(cell, self.finding.replaces, self.finding.fix) if file == self.finding.replaces.file else cell
            for file, cell in self.notebook.cells.items()
        ]
        return seen(*cells, **self.options)


def seen(*cells: str, names: str = "", **options: Any) -> Seen:
    """Runs cells in one namespace, the last of them watched; `when="nan"` unless told otherwise."""
    options = options or {"when": "nan"}
    notebook = Notebook()
    *before, last = [textwrap.dedent(cell).strip() + "\n" for cell in cells]
    for cell in before:
        notebook.run(cell)
    tapping = Tapping(names.split(), TapOptions(**options), cells=notebook.told)
    tapping.start()
    error = None
    try:
        notebook.run(last)
    except Exception as raised:  # noqa: BLE001 - a cell that fails has findings too
        error = raised
    finally:
        tapping.stop(error)
    return Seen(notebook, tapping.report(), options)
