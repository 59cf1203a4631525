"""`%%jaxtrace` in plain IPython, as over ssh: text only, in the cell's one output."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from jaxmagic.records import Report


@pytest.fixture
def ipython(tmp_path: Path):
    """Runs cells in `ipython` and gives what it wrote to its terminal."""

    def run(*cells: str) -> str:
        script = tmp_path / "cells.py"
        script.write_text(_typing(cells))
        command = [sys.executable, "-m", "IPython", "--no-banner", "--quick", "--colors=NoColor", "--simple-prompt"]
        done = subprocess.run(
            [*command, "-i", str(script)],
            input="exit\n",
            capture_output=True,
            text=True,
            env={**os.environ, "IPYTHONDIR": str(tmp_path / "profile"), "COLUMNS": "80"},
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run


def _typing(cells: Sequence[str]) -> str:
    """A script that hands the cells to IPython one after the other, as a person would."""
    return f"for cell in {['%load_ext jaxmagic', *cells]!r}:\n    get_ipython().run_cell(cell, store_history=True)\n"


def report(file: Path) -> Report:
    return msgspec.json.decode(file.read_bytes(), type=Report)


def test_the_report_is_printed_after_the_cells_own_output(ipython):
    out = ipython("%%jaxtrace\nimport jax\nf = jax.jit(lambda x: x * 2)\nprint('own output')\nf(3.0)")
    assert out.index("own output") < out.index("%%jaxtrace: finished")
    assert "x: f32[]*" in out


def test_neither_a_displayed_value_nor_a_traceback_is_taken_for_a_print(ipython, tmp_path: Path):
    ipython("%%jaxtrace -q --to value.json\nprint('printed')\n40 + 2", "%%jaxtrace -q --to error.json\n1 / 0")
    value, error = report(tmp_path / "value.json"), report(tmp_path / "error.json")
    assert [one.text for one in value.printed] == ["printed"]
    assert value.results == ("42",)
    assert error.printed == ()
    assert error.failure is not None
    assert error.failure.type == "ZeroDivisionError"


def test_a_printed_line_knows_its_line_even_in_pieces(ipython, tmp_path: Path):
    ipython("%%jaxtrace -q --to r.json\nprint('a', end='')\nprint('b')\nprint('left open', end='')")
    printed = report(tmp_path / "r.json").printed
    assert [(one.text, one.span.line if one.span else None) for one in printed] == [("ab", 3), ("left open", 4)]


def test_a_debug_print_under_jit_and_a_print_while_tracing_are_told_apart(ipython, tmp_path: Path):
    ipython(
        "import jax",
        "%%jaxtrace -q --to r.json\n@jax.jit\ndef f(x):\n    print('tracing', x)\n    jax.debug.print('x = {}', x)\n"
        "    return x\nf(1.0); f(2.0)",
    )
    printed = report(tmp_path / "r.json").printed
    traced, *run = printed
    assert traced.traced
    assert traced.span is not None
    assert traced.span.line == 4
    assert [(one.text, one.source, one.traced) for one in run] == [
        ("x = 1.0", "jax.debug.print", False),
        ("x = 2.0", "jax.debug.print", False),
    ]


def test_the_value_of_a_cell_is_described_without_copying_a_large_array(ipython, tmp_path: Path):
    ipython("import jax.numpy as jnp", "%%jaxtrace -q --to r.json\njnp.ones((640, 3))")
    assert report(tmp_path / "r.json").results == ("f32[640,3]",)


def test_the_configuration_silences_rules(ipython, tmp_path: Path):
    cell = "import jax.numpy as jnp\nx = jnp.ones(3)\nx.at[0].set(5)\ny = x\n\n"
    ipython("%config JaxMagic.ignore = ['update-dropped']", f"%%jaxtrace -q --to r.json\n{cell}")
    assert report(tmp_path / "r.json").findings == ()
