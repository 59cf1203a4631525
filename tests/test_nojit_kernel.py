"""`%jaxnojit` in a real ipykernel: statement, cell, and for later cells."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kernels import Kernel, Outputs, running_kernel

from jaxmagic.fit import unpack
from jaxmagic.records import NoJit, Payload, Report
from jaxmagic.show import REPORT_MIME

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def loaded() -> Iterator[Kernel]:
    with running_kernel() as kernel:
        kernel.run("%load_ext jaxmagic")
        kernel.run("import jax, jax.numpy as jnp, numpy as np")
        kernel.run(
            "@jax.jit\ndef f(x):\n    return x * 2\n"
            "@jax.jit\ndef g(x):\n    print(type(x).__name__)\n    return f(x) + 1\n"
            "@jax.jit\ndef positive(x):\n    return x if x > 0 else -x"
        )
        yield kernel


def report_of(outputs: Outputs) -> Report:
    (shown,) = (one for one in outputs.displays if REPORT_MIME in one)
    return unpack(msgspec.convert(shown[REPORT_MIME], Payload))


def nojit_of(outputs: Outputs) -> NoJit:
    record = report_of(outputs).nojit
    assert record is not None
    return record


def test_a_cell_runs_without_jit_and_displays_its_value(loaded: Kernel):
    outputs = loaded.run("%%jaxnojit\nfloat(g(1.0))")
    assert outputs.stdout == "float\n"
    assert outputs.value == {"text/plain": "3.0"}
    report = report_of(outputs)
    assert (report.mode, report.state) == ("jaxnojit", "finished")
    assert [each.name for each in nojit_of(outputs).functions] == ["g", "f"]


def test_a_statement_runs_without_jit(loaded: Kernel):
    outputs = loaded.run("%jaxnojit float(positive(-2.0))")
    assert outputs.value == {"text/plain": "2.0"}
    assert [each.name for each in nojit_of(outputs).functions] == ["positive"]


def test_only_some_functions_run_in_python(loaded: Kernel):
    outputs = loaded.run("%%jaxnojit --only f\ny = g(jnp.ones(3))")
    record = nojit_of(outputs)
    assert record.scope == "only in f"
    assert [(each.name, each.carrier) for each in record.functions] == [("g", True), ("f", False)]


def test_jit_stays_off_until_it_is_switched_on(loaded: Kernel):
    assert loaded.run("%jaxnojit on").stdout == "jit is off everywhere, until `%jaxnojit off`\n"
    felt = loaded.run("y = positive(-1.0)")
    assert felt.stdout == "jit is off everywhere: positive ×1 ran in Python. `%jaxnojit off` turns it on.\n"
    assert loaded.run("1 + 1").stdout == ""
    traced = loaded.run("%%jaxtrace\ny = positive(-1.0)")
    assert nojit_of(traced).lasting
    assert loaded.run("%jaxnojit status").stdout == "jit is off everywhere, until `%jaxnojit off`\n"
    assert loaded.run("%jaxnojit off").stdout == "jit is on\n"
    assert "TracerBoolConversionError" in str(loaded.run("positive(-1.0)").error)
    assert report_of(loaded.run("%%jaxtrace\ny = f(1.0)")).nojit is None


def test_jit_may_stay_off_in_some_functions_only(loaded: Kernel):
    assert loaded.run("%jaxnojit on --only f").stdout == "jit is off only in f, until `%jaxnojit off`\n"
    assert loaded.run("%jaxnojit --only f,g on").stdout == "jit is off only in f, g, until `%jaxnojit off`\n"
    assert loaded.run("%jaxnojit on --except f").stdout == "jit is off everywhere but in f, until `%jaxnojit off`\n"
    assert loaded.run("y = positive(-1.0); z = f(1.0)").stdout == (
        "jit is off everywhere but in f: positive ×1 ran in Python. `%jaxnojit off` turns it on.\n"
    )
    assert loaded.run("%jaxnojit off").stdout == "jit is on\n"
    assert "TracerBoolConversionError" in str(loaded.run("positive(-1.0)").error)


def test_later_cells_stop_at_breakpoints_and_stay_without_jit_after_an_error_and_an_interrupt(loaded: Kernel):
    loaded.run("%jaxnojit on")
    stopped = loaded.run(
        "@jax.jit\ndef h(x):\n    y = x * 2\n    breakpoint()\n    return y\nh(jnp.float32(21.0))",
        answers=["p float(y)", "c"],
    )
    assert "42.0" in stopped.stdout
    assert loaded.run("positive(-1.0); 1 / 0").error == "ZeroDivisionError: division by zero"
    assert str(loaded.run("raise KeyboardInterrupt").error).startswith("KeyboardInterrupt")
    outputs = loaded.run("%%jaxtrace\nfloat(positive(-2.0))")
    assert outputs.value == {"text/plain": "2.0"}
    (shown,) = (one for one in outputs.displays if REPORT_MIME in one)
    assert "stays off for later cells, until `%jaxnojit off`" in " ".join(shown["text/plain"].split())
    loaded.run("%jaxnojit off")
    assert "TracerBoolConversionError" in str(loaded.run("positive(-1.0)").error)


def test_all_but_some_functions_run_in_python(loaded: Kernel):
    outputs = loaded.run("%%jaxnojit --except f\nfloat(g(1.0))")
    record = nojit_of(outputs)
    assert record.scope == "everywhere but in f"
    assert [each.name for each in record.functions] == ["g"]
    assert [one.name for one in report_of(outputs).compiled] == ["f"]


def test_a_function_of_a_module_of_the_users_is_reached(loaded: Kernel, tmp_path: Path):
    (tmp_path / "mine.py").write_text(
        "import jax\n\ndef inner(x):\n    y = x * 2\n    return y\n\n@jax.jit\ndef outer(x):\n    return inner(x) + 1\n"
    )
    loaded.run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import mine")
    outputs = loaded.run("%%jaxnojit --only mine.inner\nfloat(mine.outer(jnp.float32(20.0)))")
    assert outputs.value == {"text/plain": "41.0"}
    record = nojit_of(outputs)
    assert record.unreached == ()
    assert [(each.name, each.text) for each in record.values if each.span.line == 4] == [("y", "40.")]


def test_the_backend_is_chosen_and_the_magic_runs_inside_and_around_others(loaded: Kernel):
    assert report_of(loaded.run("%%jaxnojit --backend cpu:0\ny = f(1.0)")).backend == "cpu"
    timed = loaded.run("%%time\n%%jaxnojit\nfloat(positive(-1.0))")
    assert timed.value == {"text/plain": "1.0"}
    assert "Wall time" in timed.stdout
    inside = loaded.run("%%jaxnojit --only f\n%jaxnojit positive(-1.0)\nw = f(2.0)")
    assert inside.error is None
    reports = [unpack(msgspec.convert(one[REPORT_MIME], Payload)) for one in inside.displays if REPORT_MIME in one]
    names = [[each.name for each in report.nojit.functions] for report in reports if report.nojit is not None]
    assert sorted(names) == [["f"], ["positive"]]
    assert "TracerBoolConversionError" in str(loaded.run("positive(-1.0)").error)


def test_threads_generators_and_coroutines_run_without_jit_too(loaded: Kernel):
    cell = (
        "%%jaxnojit\nimport asyncio, threading\nresults = []\n"
        "threads = [threading.Thread(target=lambda: results.append(float(positive(-1.0)))) for _ in range(3)]\n"
        "[each.start() for each in threads]; [each.join() for each in threads]\n"
        "async def later(x):\n    await asyncio.sleep(0.01)\n    return float(positive(x))\n"
        "results += await asyncio.gather(later(-2.0), later(-3.0))\n"
        "results += (float(positive(x)) for x in (-4.0, -5.0))\nresults"
    )
    outputs = loaded.run(cell)
    assert outputs.value == {"text/plain": "[1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0]"}
    assert [(each.name, each.calls) for each in nojit_of(outputs).functions] == [("positive", 7)]


def test_a_cell_may_say_otherwise_while_jit_is_off(loaded: Kernel):
    loaded.run("%jaxnojit on")
    outputs = loaded.run("%%jaxnojit --only f\ny = f(1.0)\nz = positive(-1.0)")
    loaded.run("%jaxnojit off")
    assert "TracerBoolConversionError" in str(outputs.error)
    assert [each.name for each in nojit_of(outputs).functions] == ["f"]


def test_jit_is_back_after_an_error_and_after_unloading(loaded: Kernel):
    assert loaded.run("%%jaxnojit\npositive(-1.0)\n1 / 0").error == "ZeroDivisionError: division by zero"
    assert "TracerBoolConversionError" in str(loaded.run("positive(-1.0)").error)
    loaded.run("%jaxnojit on")
    loaded.run("%unload_ext jaxmagic")
    assert "TracerBoolConversionError" in str(loaded.run("positive(-1.0)").error)
    loaded.run("%load_ext jaxmagic")


def test_an_interrupt_ends_the_cell_and_jit_is_back(loaded: Kernel):
    waiting = "import time\nprint('waiting', flush=True)\ntime.sleep(60)"
    sent = []

    def interrupt(outputs: Outputs) -> None:
        if "waiting" in outputs.stdout and not sent:
            sent.append(loaded.interrupt())

    assert str(loaded.run(f"%%jaxnojit\n{waiting}", interrupt).error).startswith("KeyboardInterrupt")
    assert "TracerBoolConversionError" in str(loaded.run("positive(-1.0)").error)


def test_an_interrupted_comparison_leaves_the_variables_and_jit_as_they_were(loaded: Kernel):
    loaded.run("total = 1")
    sent = []

    def interrupt(outputs: Outputs) -> None:
        if "runs twice" in outputs.stdout and not sent:
            time.sleep(1)
            sent.append(loaded.interrupt())

    outputs = loaded.run("%%jaxnojit --compare\ntotal = 2\nwhile True: pass", interrupt)
    assert "interrupted in the run with jit; the run without it was not begun" in outputs.stderr
    assert loaded.run("total").value == {"text/plain": "1"}
    assert "TracerBoolConversionError" in str(loaded.run("positive(-1.0)").error)


def test_the_budget_stops_between_two_lines_inside_of_a_scan(loaded: Kernel):
    cell = (
        "%%jaxnojit --budget 1\n"
        "steps = 0\n"
        "def body(carry, t):\n"
        "    global steps\n"
        "    carry = carry + t\n"
        "    steps = steps + 1\n"
        "    return carry, carry\n"
        "before = 1\n"
        "total, _ = jax.lax.scan(body, 0.0, jnp.arange(1e6))"
    )
    outputs = loaded.run(cell)
    assert re.match(
        r"OverBudget: stopped after line \d of body, in step [\d,]+ of 1,000,000 of a scan", str(outputs.error)
    )
    assert len(outputs.traceback.splitlines()) == 1
    assert loaded.run("before == 1 and steps > 0").value == {"text/plain": "True"}
    assert nojit_of(outputs).stopped.endswith("of 1,000,000 of a scan")
    assert report_of(outputs).state == "interrupted"


def test_long_work_shows_how_far_it_has_come(loaded: Kernel):
    shown = []

    def look(outputs: Outputs) -> None:
        shown.extend(one["text/html"] for one in outputs.displays if "<progress" in one.get("text/html", ""))

    outputs = loaded.run(
        "%%jaxnojit --budget 4\n_ = jax.lax.scan(lambda c, t: (c + t, None), 0.0, jnp.arange(1e6))", look
    )
    assert any(
        re.search(r'<progress value="0\.\d+"></progress> \d s without jit, [\d,]+ operations', one) for one in shown
    )
    assert not any("<progress" in one.get("text/html", "") for one in outputs.displays)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%jaxnojit", "UsageError: %jaxnojit needs a statement"),
        ("%jaxnojit --only f --except g f(1.0)", "UsageError: %jaxnojit: give either the functions"),
        ("%jaxnojit --budget -1 f(1.0)", "UsageError: %jaxnojit: the budget is in seconds"),
        ("%jaxnojit --backend quantum f(1.0)", "UsageError: no device 'quantum' here"),
        ("%%jaxnojit f\nf(1.0)", "UsageError: %%jaxnojit takes no 'f'"),
    ],
)
def test_a_wrong_use_is_said_without_a_traceback(loaded: Kernel, line: str, message: str):
    outputs = loaded.run(line)
    assert message in ANSI.sub("", outputs.stderr + outputs.traceback)


def test_a_comparison_is_in_the_report_as_text_and_page(loaded: Kernel):
    outputs = loaded.run("%%jaxnojit --compare\ny = f(jnp.ones(3))\ny.sum()")
    assert outputs.stdout.startswith("This cell runs twice")
    assert outputs.value == {"text/plain": "Array(6., dtype=float32)"}
    comparison = report_of(outputs).comparison
    assert comparison is not None
    assert [each.name for each in comparison.differences] == ["y", "the cell's value"]
    assert comparison.left_operations == comparison.right_operations > 0
    (shown,) = (one for one in outputs.displays if REPORT_MIME in one)
    for text in (shown["text/plain"], shown["text/html"]):
        assert "Equal to the last bit: 2 arrays compared." in text


def test_a_statement_is_compared(loaded: Kernel):
    comparison = report_of(loaded.run("%jaxnojit --compare f(3.0)")).comparison
    assert comparison is not None
    assert comparison.verdict.startswith("Equal values, but another type")


def test_a_cell_that_awaits_can_not_be_compared(loaded: Kernel):
    outputs = loaded.run("%%jaxnojit --compare\nimport asyncio\nawait asyncio.sleep(0)")
    assert "a cell with a top-level `await` can't be run twice" in ANSI.sub("", outputs.stderr + outputs.traceback)


def test_both_runs_of_a_comparison_are_under_way_when_jit_is_off_for_good(loaded: Kernel):
    loaded.run("%jaxnojit on")
    comparison = report_of(loaded.run("%%jaxnojit --compare\ny = positive(1.0)")).comparison
    loaded.run("%jaxnojit off")
    assert comparison is not None
    assert comparison.verdict.startswith("This code only works without jit")


# ------------------------------------------------------------------------------------------- debugging


STOPS = "@jax.jit\ndef stops(x):\n    y = x * 2\n    breakpoint()\n    return y\n"


def test_a_breakpoint_stops_at_real_values(loaded: Kernel):
    outputs = loaded.run(f"%%jaxnojit\n{STOPS}stops(jnp.float32(21.0))", answers=["p float(y)", "c"])
    assert "42.0" in outputs.stdout
    assert report_of(outputs).state == "finished"


def test_only_one_function_stops_at_its_breakpoint(loaded: Kernel):
    loaded.run("@jax.jit\ndef model(x):\n    return stops(x) + 1")
    loaded.run(STOPS)
    outputs = loaded.run("%%jaxnojit --only stops\nout = model(jnp.float32(21.0))", answers=["p float(y)", "c"])
    assert "42.0" in outputs.stdout
    assert loaded.run("float(out)").value == {"text/plain": "43.0"}


FAILS = "@jax.jit\ndef fails(x):\n    inside = x * 2\n    return inside.item() / 0\n"


def test_debug_opens_where_the_error_was(loaded: Kernel):
    outputs = loaded.run(f"%%jaxnojit\n{FAILS}fails(jnp.float32(21.0))")
    assert "ZeroDivisionError" in str(outputs.error)
    failure = report_of(outputs).failure
    assert failure is not None
    assert failure.span is not None
    assert failure.span.line == 5
    outputs = loaded.run("%debug", answers=["p float(inside)", "q"])
    assert "42.0" in outputs.stdout


def test_pdb_opens_at_once_and_for_this_cell_only(loaded: Kernel):
    outputs = loaded.run("%%jaxnojit --pdb\nfails(jnp.float32(21.0))", answers=["p float(inside)", "q"])
    assert "42.0" in outputs.stdout
    assert loaded.run("get_ipython().call_pdb").value == {"text/plain": "False"}
