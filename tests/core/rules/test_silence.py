"""Well-behaved programs of the libraries that people use: whatever is said of them is a note at most."""

from pathlib import Path
from typing import Any

import pytest
from observed_cells import watched

PROGRAMS = sorted((Path(__file__).parents[2] / "programs").glob("*.py"))


def _marked(program: Path) -> Any:
    """Those that other tests run too need not be quiet on every pair."""
    quiet = program.stem.startswith("quiet_")
    return pytest.param(program, id=program.stem, marks=() if quiet else pytest.mark.one_pair)


@pytest.mark.parametrize("program", [_marked(program) for program in PROGRAMS])
@pytest.mark.filterwarnings("default")  # of libraries
def test_nothing_is_said_against_a_program_that_is_right(program: Path):
    cell = watched(program.read_text())
    assert cell.report.failure is None
    assert [(finding.rule, finding.title) for finding in cell.report.findings if finding.severity != "note"] == []


@pytest.mark.parametrize("name", ["vae", "metropolis", "kmeans", "host_work"])
def test_nor_when_it_runs_as_several_cells(name: str):
    (program,) = [path for path in PROGRAMS if path.stem == f"quiet_{name}"]
    *before, last = program.read_text().split("\n\n\n")
    head, _, rest = last.partition("\n")
    cell = watched("\n\n\n".join([*before, head]), rest)
    assert [(finding.rule, finding.title) for finding in cell.report.findings if finding.severity != "note"] == []
