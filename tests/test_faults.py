"""Each part of jaxmagic made to fail in turn: the cell's results stay, and one line says what was not observed."""

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jaxmagic.records import Report

CELL = """
import jax, jax.numpy as jnp
def helper(x):
    y = x * 2
    return y
@jax.jit
def f(x):
    return helper(x) + 1
print("printed")
values = [f(jnp.float32(n)) for n in range(3)]
float(sum(values))
"""

OURS = {
    "jaxmagic.core.lines.record.LineRecord.entered": "shapes",
    "jaxmagic.core.lines.record.LineRecord.stepped": "shapes",
    "jaxmagic.core.lines.record.LineRecord.left": "shapes",
    "jaxmagic.core.lines.record.LineRecord.hints": "shapes",
    "jaxmagic.core.lines.record.LineRecord.tracing": "trace",
    "jaxmagic.core.capture.tracing.Tracing._enter": "a call of a jitted function",
    "jaxmagic.core.capture.tracing.Tracing._answered": "a trace",
    "jaxmagic.core.capture.tracing.Tracing._begun": "the beginning of a trace",
    "jaxmagic.core.capture.capture.Capture.start": "compiled functions",
    "jaxmagic.core.capture.capture.Capture.compiled": "compiled functions",
    "jaxmagic.core.capture.compiled.program": "the jaxpr of f",
    "jaxmagic.core.capture.compiled.cost": "the cost of f",
    "jaxmagic.core.capture.compiled.constants": "the constants of f",
    "jaxmagic.core.capture.compiled.hlo_listing": "the HLO of f",
    "jaxmagic.core.capture.compiled.stablehlo_listing": "the StableHLO of f",
    "jaxmagic.core.output.prints.origin_of": "printed",
    "jaxmagic.core.session.with_sources": "source text",
    "jaxmagic.core.session.described": "value",
    "jaxmagic.core.rules.observe": "findings",
    "jaxmagic.core.jax_internals.forget_dispatch": "functions jitted before",
}


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jaxmagic")
    yield shell
    shell.run_line_magic("unload_ext", "jaxmagic")
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, magic: str, cell: str = CELL) -> tuple[Any, str]:
    """The cell's value and everything it wrote."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        result = shell.run_cell(f"{magic}\n{cell}", store_history=True)
    result.raise_error()
    return result.result, out.getvalue()


@pytest.mark.parametrize("part", OURS)
def test_a_part_that_fails_is_one_line_in_the_limits(shell, monkeypatch: pytest.MonkeyPatch, part: str):
    def fails(*args: Any, **kwargs: Any) -> Any:
        raise LookupError("made to fail")

    monkeypatch.setattr(part, fails)
    value, out = run(shell, "%%jaxtrace -q -o report")
    report = shell.user_ns["report"]
    assert isinstance(report, Report)
    assert value == 9.0
    assert out.startswith("printed\nOut[")
    assert [line for line in report.limits if "made to fail" in line and OURS[part] in line], report.limits
    assert report.state == "finished"


@pytest.mark.parametrize("view", ["jaxmagic.show.text.render", "jaxmagic.show.html.render", "jaxmagic.show.payload"])
def test_a_view_that_fails_leaves_the_cell_and_the_other_views_alone(shell, monkeypatch: pytest.MonkeyPatch, view: str):
    def fails(*args: Any, **kwargs: Any) -> Any:
        raise LookupError("made to fail")

    monkeypatch.setattr(view, fails)
    value, out = run(shell, "%%jaxtrace -o report")
    assert value == 9.0
    assert "Traceback" not in out
    assert "jaxtrace" in out
    assert shell.user_ns["report"].state == "finished"


def test_a_users_error_is_the_users_error_when_the_explanation_fails(shell, monkeypatch: pytest.MonkeyPatch):
    def fails(*args: Any, **kwargs: Any) -> Any:
        raise LookupError("made to fail")

    monkeypatch.setattr("jaxmagic.core.session.explain", fails)
    with pytest.raises(ZeroDivisionError):
        run(shell, "%%jaxtrace -q -o report", "1 / 0")
    assert shell.user_ns["report"].state == "failed"
    assert shell.user_ns["report"].failure is None
