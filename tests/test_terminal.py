"""Our magics in plain IPython, as over ssh: text only, in the cell's one output."""

import os
import re
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

    def run(*cells: str, typed: tuple[str, ...] = ()) -> str:
        script = tmp_path / "cells.py"
        script.write_text(_typing(cells))
        command = [sys.executable, "-m", "IPython", "--no-banner", "--quick", "--colors=NoColor", "--simple-prompt"]
        done = subprocess.run(
            [*command, "-i", str(script)],
            input="\n".join([*typed, "exit", ""]),
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


@pytest.mark.one_pair
def test_neither_a_displayed_value_nor_a_traceback_is_taken_for_a_print(ipython, tmp_path: Path):
    ipython("%%jaxtrace -q --to value.json\nprint('printed')\n40 + 2", "%%jaxtrace -q --to error.json\n1 / 0")
    value, error = report(tmp_path / "value.json"), report(tmp_path / "error.json")
    assert [one.text for one in value.printed] == ["printed"]
    assert value.results == ("42",)
    assert error.printed == ()
    assert error.failure is not None
    assert error.failure.type == "ZeroDivisionError"


@pytest.mark.one_pair
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


@pytest.mark.one_pair
def test_the_value_of_a_cell_is_described_without_copying_a_large_array(ipython, tmp_path: Path):
    ipython("import jax.numpy as jnp", "%%jaxtrace -q --to r.json\njnp.ones((640, 3))")
    assert report(tmp_path / "r.json").results == ("f32[640,3]",)


@pytest.mark.one_pair
def test_the_configuration_silences_rules(ipython, tmp_path: Path):
    cell = "import jax.numpy as jnp\nx = jnp.ones(3)\nx.at[0].set(5)\ny = x\n\n"
    ipython("%config JaxMagic.ignore = ['update-dropped']", f"%%jaxtrace -q --to r.json\n{cell}")
    assert report(tmp_path / "r.json").findings == ()


# ---------------------------------------------------------------------------------------- without jit

DEFINE = (
    "import jax, jax.numpy as jnp\n"
    "@jax.jit\ndef stops(x):\n    y = x * 2\n    breakpoint()\n    z = y + 1\n    return z\n"
    "@jax.jit\ndef fails(x):\n    inside = x * 2\n    return inside.item() / 0\n"
    "@jax.jit\ndef outer(x):\n    return stops(x) + 1"
)


def test_a_breakpoint_stops_in_a_terminal_at_real_values(ipython):
    typed = ("p float(y)", "n", "n", "p float(z)", "c")  # Python 3.13 stops at the breakpoint, before at the next line
    out = ipython(DEFINE, "%%jaxnojit --only stops\nprint('then', outer(jnp.float32(20.0)))", typed=typed)
    assert "40.0" in out
    assert "41.0" in out
    assert "then 42.0" in out
    assert "%%jaxnojit --only stops: finished" in out


def test_a_loops_body_is_stepped_through_in_a_terminal(ipython):
    cell = (
        "%%jaxnojit -q\ndef body(c, t):\n    breakpoint()\n    c = c + t\n    return c, None\n"
        "print('total', jax.lax.scan(body, 0.0, jnp.arange(3.0))[0])"
    )
    out = ipython(DEFINE, cell, typed=("p float(c), float(t)", "c") * 3)
    assert all(f"({c}, {t})" in out for c, t in ((0.0, 0.0), (0.0, 1.0), (1.0, 2.0)))
    assert "total 3.0" in out


@pytest.mark.one_pair
def test_pdb_and_debug_open_in_a_terminal_where_the_error_was(ipython):
    cell = "fails(jnp.float32(21.0))"
    assert "42.0" in ipython(DEFINE, f"%%jaxnojit -q --pdb\n{cell}", typed=("p float(inside)", "q"))
    assert "42.0" in ipython(DEFINE, f"%%jaxnojit -q\n{cell}", "%debug", typed=("p float(inside)", "q"))


def test_a_breakpoint_is_not_ours_once_the_cell_is_over(ipython, tmp_path: Path):
    out = ipython(
        DEFINE, "import sys\nbefore = sys.breakpointhook", "%%jaxnojit -q\nx = 1", "print(sys.breakpointhook is before)"
    )
    assert "True" in out


@pytest.mark.one_pair
def test_long_work_says_in_one_line_of_the_terminal_how_far_it_has_come(ipython):
    cell = "%%jaxnojit -q --budget 3\n_ = jax.lax.scan(lambda c, t: (c + t, None), 0.0, jnp.arange(1e6))"
    loud = ipython(DEFINE, cell.replace(" -q", ""))
    assert re.search(r"  \d% \d s without jit, [\d,]+ operations, step [\d,]+ of 1,000,000 of a scan", loud)
    assert "without jit, " not in ipython(DEFINE, cell).partition("OverBudget")[0]
