"""`%%jaxtrace` in a real ipykernel: a cell runs under it as it runs without it."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kernels import Kernel, Outputs, running_kernel

from jaxmagic.fit import unpack
from jaxmagic.records import Payload, Report
from jaxmagic.show import REPORT_MIME

LOAD = "%load_ext jaxmagic"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def loaded() -> Iterator[Kernel]:
    with running_kernel() as kernel:
        assert kernel.run(LOAD) == Outputs(status="ok", count=1)
        kernel.run("import jax, jax.numpy as jnp, numpy as np")
        yield kernel


def report_of(outputs: Outputs) -> Report:
    (shown,) = (one for one in outputs.displays if REPORT_MIME in one)
    return unpack(msgspec.convert(shown[REPORT_MIME], Payload))


def plain(text: str) -> str:
    return ANSI.sub("", text)


def test_the_last_expression_is_displayed_and_kept(loaded: Kernel):
    outputs = loaded.run("%%jaxtrace\n40 + 2")
    assert outputs.value == {"text/plain": "42"}
    assert loaded.run("_").value == {"text/plain": "42"}
    assert loaded.run(f"Out[{outputs.count}]").value == {"text/plain": "42"}


def test_a_trailing_semicolon_silences_the_value(loaded: Kernel):
    assert loaded.run("%%jaxtrace\n40 + 2;").value is None


def test_the_history_holds_the_cell_as_typed(loaded: Kernel):
    cell = "%%jaxtrace\ntyped = 1"
    count = loaded.run(cell).count
    assert loaded.run(f"get_ipython().history_manager.input_hist_raw[{count}] == {cell!r}").value == {
        "text/plain": "True"
    }


def test_top_level_await_works(loaded: Kernel):
    outputs = loaded.run("%%jaxtrace\nimport asyncio\nawait asyncio.sleep(0, 'slept')")
    assert outputs.value == {"text/plain": "'slept'"}
    assert report_of(outputs).state == "finished"


def test_ast_transformers_see_the_cell(loaded: Kernel):
    loaded.run(
        "import ast\nclass Double(ast.NodeTransformer):\n"
        "    def visit_Constant(self, node):\n"
        "        return ast.copy_location(ast.Constant(node.value * 2), node) if node.value == 21 else node\n"
        "doubling = Double(); get_ipython().ast_transformers.append(doubling)"
    )
    try:
        assert loaded.run("%%jaxtrace\n21").value == {"text/plain": "42"}
    finally:
        loaded.run("get_ipython().ast_transformers.remove(doubling)")


def test_jaxtyping_checks_functions_of_a_traced_cell(loaded: Kernel):
    loaded.run("%load_ext jaxtyping\n%jaxtyping.typechecker beartype.beartype")
    outputs = loaded.run(
        "%%jaxtrace\nfrom jaxtyping import Array, Float\n"
        "def typed(x: Float[Array, '3']): return x\n"
        "jax.jit(typed)(jnp.ones(4))"
    )
    loaded.run("%unload_ext jaxtyping\nget_ipython().ast_transformers.clear()")
    assert outputs.error is not None
    assert "TypeCheckError" in outputs.error


def test_line_magics_and_shell_commands_work_inside(loaded: Kernel):
    outputs = loaded.run(
        "%%jaxtrace\nwhere = %pwd\n!echo from the shell\nshell = !echo kept\nprint(bool(where), shell)"
    )
    assert "from the shell" in outputs.stdout
    assert "True ['kept']" in outputs.stdout


def test_time_may_stand_outside(loaded: Kernel):
    outputs = loaded.run("%%time\n%%jaxtrace\ny = jax.jit(lambda x: x * 2)(1.0)\nprint(y)")
    assert "2.0" in outputs.stdout
    assert "Wall time" in outputs.stdout
    report = report_of(outputs)
    assert [one.name for one in report.compiled] == ["<lambda>"]
    assert report.sources[0].text.startswith("%%jaxtrace\ny = jax.jit(")
    assert report.limits == ()


def test_time_may_stand_inside(loaded: Kernel):
    outputs = loaded.run("%%jaxtrace\n%%time\ny = jax.jit(lambda x: x * 3)(1.0)\nprint(y)")
    assert "3.0" in outputs.stdout
    assert "Wall time" in outputs.stdout
    report = report_of(outputs)
    assert [one.name for one in report.compiled] == ["<lambda>"]
    assert report.sources[0].text.startswith("%%jaxtrace\ny = jax.jit(")
    assert report.limits == ()


def test_capture_outside_takes_the_report_too(loaded: Kernel):
    outputs = loaded.run("%%capture taken\n%%jaxtrace\nprint('captured')")
    assert outputs == Outputs(status="ok", count=outputs.count)
    assert loaded.run("print(taken.stdout)\ntaken.show()").stdout.startswith("captured")


def test_getsource_finds_functions_of_the_cell_at_their_lines(loaded: Kernel):
    outputs = loaded.run(
        "%%jaxtrace\n\nimport inspect\ndef here(x):\n    return x\nprint(inspect.getsourcelines(here))"
    )
    assert outputs.stdout == "(['def here(x):\\n', '    return x\\n'], 4)\n"


def test_debug_opens_the_frame_that_failed(loaded: Kernel):
    loaded.run("%%jaxtrace\ndef inner(value):\n    return 1 / value\ninner(0)")
    frames = loaded.run(
        "import sys; tb = sys.last_traceback\nwhile tb.tb_next: tb = tb.tb_next\nprint(tb.tb_frame.f_locals)"
    )
    assert frames.stdout == "{'value': 0}\n"


def test_the_users_traceback_has_no_frame_of_ours(loaded: Kernel):
    cell = "def inner(value):\n    return 1 / value\ninner(0)"
    traced, bare = loaded.run(f"%%jaxtrace\n{cell}"), loaded.run(f"# plain\n{cell}")
    assert traced.error == bare.error == "ZeroDivisionError: division by zero"
    assert "jaxmagic" not in plain(traced.traceback).replace("__import__('jaxmagic.hooks')", "").replace(
        "%%jaxtrace", ""
    )
    assert plain(traced.traceback).count("Cell In") == plain(bare.traceback).count("Cell In")
    assert traced.status == bare.status == "error"


def test_an_interrupted_cell_is_reported_and_the_kernel_lives_on(loaded: Kernel):
    def interrupt_once_running(outputs: Outputs) -> None:
        if "go" in outputs.stdout and not interrupted:
            interrupted.append(True)
            time.sleep(0.3)
            loaded.interrupt()

    interrupted: list[bool] = []
    outputs = loaded.run(
        "%%jaxtrace\nimport time\nprint('go', flush=True)\nfor _ in range(3000): time.sleep(0.01)",
        interrupt_once_running,
    )
    assert outputs.error is not None
    assert outputs.error.startswith("KeyboardInterrupt")
    assert report_of(outputs).state == "interrupted"
    assert loaded.run("print('alive')").stdout == "alive\n"


def test_braces_and_dollars_in_the_cell_are_left_alone(loaded: Kernel):
    loaded.run("name = 'expanded'")
    assert loaded.run("%%jaxtrace\nprint('{name} $name {{}}')").stdout == "{name} $name {{}}\n"


def test_o_hands_the_report_over_and_q_shows_nothing(loaded: Kernel):
    outputs = loaded.run("%%jaxtrace -q -o seen\ny = jax.jit(lambda x: x + 1)(1.0)")
    assert outputs == Outputs(status="ok", count=outputs.count)
    assert loaded.run("type(seen).__name__, seen.mode, len(seen.compiled)").value == {
        "text/plain": "('Report', 'jaxtrace', 1)"
    }


def test_to_appends_a_line_that_reads_back_as_the_report(loaded: Kernel, tmp_path: Path):
    file = tmp_path / "reports.jsonl"
    for _ in range(2):
        loaded.run(f"%%jaxtrace -q --to {file}\nx = 1")
    reports = [msgspec.json.decode(line, type=Report) for line in file.read_bytes().splitlines()]
    assert [one.state for one in reports] == ["finished", "finished"]


def test_a_file_that_cant_be_written_is_a_limit_not_an_error(loaded: Kernel, tmp_path: Path):
    outputs = loaded.run(f"%%jaxtrace --to {tmp_path / 'missing' / 'file'}\nx = 1")
    assert outputs.status == "ok"
    assert any("not written" in line for line in report_of(outputs).limits)


def test_an_unknown_flag_is_a_usage_error_and_the_cell_does_not_run(loaded: Kernel):
    outputs = loaded.run("%%jaxtrace --fast\nprint('ran')")
    assert outputs.stdout == ""
    assert outputs.status == "error"
    assert "unrecognized arguments: --fast" in outputs.stderr + str(outputs.error)


def test_an_absent_backend_is_an_error_that_lists_what_is_there(loaded: Kernel):
    outputs = loaded.run("%%jaxtrace --backend tpu\nprint('ran')")
    assert outputs.stdout == ""
    assert "no device 'tpu' here; there is cpu:0" in outputs.stderr + str(outputs.error)


def test_a_present_backend_runs_the_cell(loaded: Kernel):
    outputs = loaded.run("%%jaxtrace --backend cpu:0\nprint(jnp.ones(2).devices())")
    assert "CpuDevice(id=0)" in outputs.stdout
    assert report_of(outputs).backend == "cpu"


def test_config_sets_defaults(loaded: Kernel):
    loaded.run("%config JaxMagic.quiet = True")
    try:
        assert loaded.run("%%jaxtrace\nx = 1").displays == []
    finally:
        loaded.run("%config JaxMagic.quiet = False")


def test_help_shows_the_usage(loaded: Kernel):
    loaded.run("%%jaxtrace?")
    usage = loaded.run("print(get_ipython().find_cell_magic('jaxtrace').__doc__)").stdout
    assert "--no-retrace" in usage
    assert "--backend" in usage


def test_the_line_form_runs_one_statement_and_returns_its_value(loaded: Kernel):
    outputs = loaded.run("%jaxtrace jax.jit(lambda text, n: n * 2, static_argnums=0)('a  b', 4)")
    assert outputs.value is not None
    assert "8" in outputs.value["text/plain"]
    statics = [one.static for one in report_of(outputs).compiled[0].traces[0].inputs]
    assert "'a  b'" in statics


def test_two_magics_in_one_cell_are_refused(loaded: Kernel):
    outputs = loaded.run("%%jaxtrace\n%%jaxtrace\nprint('ran')")
    assert outputs.stdout == ""
    assert "can't share a cell" in outputs.stderr + str(outputs.error)


def test_the_panel_is_there_while_the_cell_runs(loaded: Kernel):
    seen: list[set[str]] = []

    def look(outputs: Outputs) -> None:
        if "go" in outputs.stdout and outputs.displays and not seen:
            seen.append(set(outputs.displays[0]))

    outputs = loaded.run("%%jaxtrace\nimport time\nprint('go', flush=True)\ntime.sleep(0.5)", look)
    assert seen
    assert REPORT_MIME not in seen[0]
    assert set(outputs.displays[0]) >= {"text/plain", "text/html", REPORT_MIME}


def test_a_cell_that_prints_ten_thousand_times_loses_no_line(loaded: Kernel):
    outputs = loaded.run("%%jaxtrace\nfor i in range(10_000): print(i)")
    assert outputs.stdout.split() == [str(i) for i in range(10_000)]
    assert report_of(outputs).printed[0].text == "0"


def test_loading_and_unloading_in_any_order_leaves_no_trace(loaded: Kernel):
    snapshot = """
import sys, jax, gc, jaxmagic.hooks
import jaxmagic.core.jax_internals as internals
def state():
    ip = get_ipython()
    tools = [sys.monitoring.get_tool(i) for i in range(6)] if hasattr(sys, 'monitoring') else None
    return (
        [f.__qualname__ for f in ip.input_transformers_cleanup if hasattr(f, '__qualname__')],
        {event: len(found) for event, found in ip.events.callbacks.items()},
        sorted(n for kind in ip.magics_manager.magics.values() for n in kind if 'jax' in n),
        [type(c).__name__ for c in ip.configurables],
        [id(getattr(p.owner, p.name)) for p in internals.PIECES.values()],
        tools, sys.gettrace(), type(sys.stdout).__name__,
    )
"""
    loaded.run("%unload_ext jaxmagic")
    loaded.run(snapshot + "before = state()")
    traced = "%%jaxtrace -q\ny = jax.jit(lambda x: x)(1.)"
    reload, unload = "%reload_ext jaxmagic", "%unload_ext jaxmagic"
    for line in (LOAD, LOAD, reload, traced, reload, unload, unload):
        loaded.run(line)
    outputs = loaded.run("after = state()\nfor b, a in zip(before, after):\n    if a != b: print(b, a)")
    assert outputs.stdout == ""
    assert loaded.run(LOAD).status == "ok"
