"""Problems that people reported, as they would be run in a notebook: what is found, on which line, with which fix."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from reported_cells import EXPECTED, FOLDER

SCRIPT = Path(__file__).parent / "reported_cells.py"
PROGRAMS = sorted(program.stem for program in FOLDER.glob("*.py"))


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return json.loads(EXPECTED.read_text(encoding="utf-8"))


@pytest.mark.one_pair
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_reported_problem_is_diagnosed(program: str, found: dict[str, Any], expected: dict[str, Any]):
    if program == "tool-kept-tracers-leak-checker" and sys.version_info < (3, 12):
        assert found[program][0] == expected[program][0]  # its second cell takes `sys.settrace`, of which there is one
    else:
        assert found[program] == expected[program]
