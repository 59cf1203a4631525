"""Notebooks executed and exported without anybody looking: nbclient, and nbconvert to HTML."""

import json
from pathlib import Path
from typing import Any

import msgspec
import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

from jaxmagic.fit import unpack
from jaxmagic.records import Payload, Report
from jaxmagic.show import REPORT_MIME

PROGRAMS = Path(__file__).parent / "programs"
MIB = 2**20


def executed(*cells: str, allow_errors: bool = False) -> Any:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in ("%load_ext jaxmagic", *cells)]
    client = NotebookClient(
        notebook, kernel_name="python3", timeout=300, allow_errors=allow_errors, store_widget_state=False
    )
    client.execute()
    return notebook


def report_in(cell: Any) -> Report:
    (bundle,) = (out.data for out in cell.outputs if REPORT_MIME in out.get("data", {}))
    return unpack(msgspec.convert(bundle[REPORT_MIME], Payload))


@pytest.fixture(scope="module")
def notebook() -> Any:
    return executed("%%jaxtrace\nimport jax\nf = jax.jit(lambda x: x * 2)\nf(3.0)")


def test_one_output_holds_the_report_in_every_form(notebook: Any):
    (shown,) = (out for out in notebook.cells[1].outputs if out.output_type == "display_data")
    assert "finished" in shown.data["text/plain"]
    assert "<table" in shown.data["text/html"]
    assert report_in(notebook.cells[1]).state == "finished"


def test_an_exported_page_shows_the_report_without_a_script_of_ours(notebook: Any):
    page = HTMLExporter().from_notebook_node(notebook)[0]
    ours = page[page.index("jaxtrace") :]
    assert "f32[]*" in ours
    assert "__import__" not in ours


def test_a_failing_cell_stops_the_run_and_keeps_its_report():
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        executed("%%jaxtrace\n1 / 0")
    failed = executed("%%jaxtrace\n1 / 0", allow_errors=True).cells[1]
    assert report_in(failed).failure is not None
    assert [out.output_type for out in failed.outputs] == ["display_data", "error"]


def test_more_traces_than_allowed_fail_the_cell():
    loop = "import jax, jax.numpy as jnp\nf = jax.jit(lambda x: x)\nfor n in range(5): f(jnp.ones(n))"
    failed = executed(f"%%jaxtrace --max-traces 2\n{loop}", allow_errors=True).cells[1]
    error = next(out for out in failed.outputs if out.output_type == "error")
    assert error.ename == "TracedTooOften"
    assert "traced 3 times" in error.evalue
    assert error.traceback == [f"TracedTooOften: {error.evalue}", "    f(jnp.ones(n))"]
    (function,) = (one for one in report_in(failed).compiled if not one.library)
    assert [trace.reason.kind for trace in function.traces][:2] == ["first call", "changed"]


@pytest.mark.one_pair
def test_a_twelve_layer_transformers_output_stays_below_a_megabyte_and_says_what_it_lacks():
    program = (PROGRAMS / "flax_transformer.py").read_text().replace("layers=2", "layers=12")
    traced = executed(f"%%jaxtrace --hlo\n{program}").cells[1]
    assert len(json.dumps(traced.outputs)) < MIB
    report = report_in(traced)
    step = next(one for one in report.compiled if one.name == "train_step")
    assert step.traces[0].program is not None
    assert any("To keep the notebook small" in line for line in report.limits) or step.traces[0].hlo is not None


@pytest.mark.one_pair
def test_listings_of_a_very_large_program_are_left_out_unless_asked_for():
    define = "import jax\n@jax.jit\ndef f(x):\n    for _ in range(4_001): x = x + 1\n    return x"
    cells = executed(define, "%%jaxtrace --no-retrace\nf(1.0)", "%%jaxtrace --no-retrace --hlo\nf(1.0)").cells
    left_out, kept = report_in(cells[2]), report_in(cells[3])
    assert left_out.compiled[0].traces[0].hlo is None
    assert any("`--hlo` keeps them" in line for line in left_out.limits)
    assert kept.compiled[0].traces[0].hlo is not None
