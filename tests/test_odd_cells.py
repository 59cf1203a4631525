"""Cells that people really write, and that a magic has no right to spoil, in a real kernel."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Kernel, running_kernel


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with running_kernel() as kernel:
        kernel.run("%load_ext jaxmagic\nimport jax, jax.numpy as jnp, numpy as np")
        yield kernel


def report(kernel: Kernel, cell: str) -> str:
    """The text shown below a traced cell."""
    outputs = kernel.run(f"%%jaxtrace\n{cell}")
    return outputs.displays[-1]["text/plain"]


# ------------------------------------------------------------------------------------------- true seconds


def test_compiling_operations_one_by_one_is_not_put_down_to_python(kernel: Kernel):
    kernel.run("%%jaxtrace -o single\njnp.tanh(jnp.ones((3, 7))) @ jnp.ones((7, 5))")
    assert kernel.run("print(single.compiled, single.seconds.compile > 0)").stdout == "() True\n"


# ---------------------------------------------------------------------------------------------------- failures


def test_what_a_callback_raised_is_not_buried_under_the_frames_of_its_traceback(kernel: Kernel):
    shown = report(
        kernel,
        """
def fail(x):
    raise RuntimeError("no such thing")
@jax.jit
def f(x):
    jax.debug.callback(fail, x)
    return x
jax.block_until_ready(f(jnp.ones(3)))
jax.effects_barrier()""",
    )
    message, _, _ = shown.partition("error: the callback `fail` raised")
    assert "RuntimeError: no such thing" in message
    assert 'File "' not in message


def test_the_trace_that_was_one_too_many_is_given_no_made_up_reason(kernel: Kernel):
    outputs = kernel.run(
        "%%jaxtrace --max-traces 1\n@jax.jit\ndef f(x): return x + 1\nfor n in range(3): f(jnp.ones(n))"
    )
    shown = outputs.displays[-1]["text/plain"]
    assert "structure" not in shown
    assert "stopped before JAX had looked at its arguments" in shown


# -------------------------------------------------------------------------------------------- names and flags


def test_a_statement_is_shown_under_the_number_of_its_cell(kernel: Kernel):
    outputs = kernel.run("%jaxtrace y = jnp.ones(3)")
    assert f"── cell [{outputs.count}] ──" in outputs.displays[-1]["text/plain"]


def test_a_block_is_shown_under_the_number_of_its_cell(kernel: Kernel):
    outputs = kernel.run("import jaxmagic\nwith jaxmagic.trace() as t:\n    y = jnp.ones(3)\nprint(t)")
    assert f"── cell [{outputs.count}] ──" in outputs.stdout


def test_quotes_around_a_flags_value_are_no_part_of_it(kernel: Kernel, tmp_path: Path):
    outputs = kernel.run(f'%%jaxtrace -o "quoted" --to "{tmp_path}/a b.jsonl"\nx = jnp.ones(3)')
    assert outputs.status == "ok"
    assert [each.name for each in tmp_path.iterdir()] == ["a b.jsonl"]
    assert kernel.run("print(quoted.state)").stdout == "finished\n"


# ---------------------------------------------------------------------------------------------- interrupts


STOP = """
from jaxmagic.core.recording import Recording
def interrupted(*_):
    raise KeyboardInterrupt
kept, Recording.{method} = Recording.{method}, interrupted
"""


def test_an_interrupt_while_the_report_is_made_ends_the_report_alone(kernel: Kernel):
    kernel.run(STOP.format(method="report"))
    try:
        outputs = kernel.run("%%jaxtrace\nx = jnp.ones(3)\nx.sum()")
    finally:
        kernel.run("Recording.report = kept")
    assert (outputs.status, outputs.stderr, outputs.error) == ("ok", "", None)
    assert "the report: not made (interrupted)" in outputs.displays[-1]["text/plain"]


def test_an_interrupt_at_the_start_takes_everything_off(kernel: Kernel):
    kernel.run(STOP.format(method="running"))
    try:
        outputs = kernel.run("%%jaxtrace\nx = 1")
    finally:
        kernel.run("Recording.running = kept")
    assert outputs.error == "KeyboardInterrupt: "
    assert kernel.run("import sys\nprint(type(sys.stdout).__name__)").stdout == "OutStream\n"


# ----------------------------------------------------------------------------------------- the magic's line


def test_a_file_written_by_another_magic_holds_only_what_was_typed(kernel: Kernel, tmp_path: Path):
    file = tmp_path / "typed.txt"
    kernel.run(f"%%jaxtrace\n%%writefile {file}\nhello\n")
    assert file.read_text() == "hello\n"


def test_another_shell_is_not_given_our_call(kernel: Kernel):
    outputs = kernel.run("%%jaxtrace\n%%bash\necho from bash")
    assert (outputs.status, outputs.stdout) == ("ok", "from bash\n")
    assert "%%jaxtrace: finished" in outputs.displays[-1]["text/plain"]


def test_a_traceback_shows_the_magics_line_and_not_what_stands_for_it(kernel: Kernel):
    traceback = kernel.run("%%jaxtrace --no-hlo\n1 / 0").traceback
    assert "%%jaxtrace --no-hlo" in traceback
    assert "jaxmagic.hooks" not in traceback


def test_other_magics_and_commands_are_shown_as_typed(kernel: Kernel):
    cell = "if True:\n    %precision 4\na = !echo hi\nprint?\nw = %timeit -n1 -r1 -o -q 1 + 1\n!true\n%precision"
    kernel.run(f"%%jaxtrace -q -o typed\n{cell}")
    source = kernel.run("print(next(each.text for each in typed.sources if 'precision' in each.text))").stdout
    assert source.rstrip("\n") == f"%%jaxtrace -q -o typed\n{cell}"


def test_text_that_only_looks_like_a_magic_is_left_alone(kernel: Kernel):
    cell = """text = "get_ipython().run_line_magic('a', 'b')"\nother = [get_ipython().system('true')]"""
    kernel.run(f"%%jaxtrace -q -o alike\n{cell}")
    source = kernel.run("print(next(each.text for each in alike.sources if 'other' in each.text))").stdout
    assert source.rstrip("\n") == f"%%jaxtrace -q -o alike\n{cell}"


def test_a_cell_that_is_indented_as_a_whole_runs(kernel: Kernel):
    outputs = kernel.run("%%jaxtrace\n    n = 3\n    for i in range(n):\n        print(i)")
    assert outputs.stdout == "0\n1\n2\n"


def test_a_nan_found_while_a_program_ran_is_not_called_an_error_of_tracing(kernel: Kernel):
    shown = report(
        kernel,
        """
with jax.debug_nans(True):
    @jax.jit
    def f(v):
        return jnp.log(v - 1)
    f(jnp.zeros(3))""",
    )
    assert "FloatingPointError while running" in shown


def test_an_import_from_the_future_is_shown_as_typed(kernel: Kernel):
    shown = report(kernel, "# first\nfrom __future__ import annotations\nx = jnp.ones(3)\n")
    assert "  1  %%jaxtrace\n  2  # first\n  3  from __future__ import annotations\n  4  x = " in shown


# ------------------------------------------------------------------------------------ long loops without JAX


LONG_LOOP = """
def halve(v):
    s = v.sum()
    return v / s
x = np.ones(3)
for _ in range(2_000):
    x = halve(x)
late = x + 1
def double(q):
    p = q * 2
    return p
last = double(late[:2])
"""


def test_what_follows_a_long_loop_is_seen_in_every_python(kernel: Kernel):
    kernel.run(f"%%jaxtrace -q -o looped\n{LONG_LOOP}")
    names = kernel.run("print(sorted({hint.name for hint in looped.hints}))").stdout
    assert names == "['last', 'late', 'p', 'q', 'return', 's', 'v', 'x']\n"
    limits = kernel.run(
        "import sys; print(*looped.limits) if sys.version_info < (3, 12) else print(looped.limits)"
    ).stdout
    assert limits == "()\n" or "lines that it reaches later are not observed" in limits


def test_statements_are_told_of_only_while_a_cell_is_recorded(kernel: Kernel):
    assert kernel.run("%%jaxtrace -q\nprint('run_code' in vars(get_ipython()))").stdout == "True\n"
    assert kernel.run("print('run_code' in vars(get_ipython()))").stdout == "False\n"


def test_another_tool_that_watches_statements_keeps_watching(kernel: Kernel):
    kernel.run(
        "shell, seen = get_ipython(), []\nold = shell.run_code\n"
        "def mine(code, *args, **kwargs):\n    seen.append(code.co_filename)\n    return old(code, *args, **kwargs)\n"
        "shell.run_code = mine"
    )
    kernel.run("%%jaxtrace -q\nx = 1\ny = 2")
    assert kernel.run("print(len(seen) > 2, shell.run_code is mine)").stdout == "True True\n"
    kernel.run("del shell.run_code")
