"""`%%jaxtap` in a real ipykernel: values out of running programs, by name, while the cell still runs."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kernels import Kernel, Outputs, running_kernel

from jaxmagic.fit import unpack
from jaxmagic.records import Live, Payload, Report
from jaxmagic.show import REPORT_MIME

PROGRAM = """\
import jax, jax.numpy as jnp, numpy as np
def loss_fn(w, x):
    y = jnp.tanh(w * x)
    loss = (y ** 2).sum()
    return loss
@jax.jit
def train(w, xs):
    def step(w, x):
        grads = jax.grad(loss_fn)(w, x)
        w = w - 0.1 * grads
        return w, w.sum()
    return jax.lax.scan(step, w, xs)
w, xs = jnp.ones(3), jnp.ones((5, 3))
plain_w, plain_sums = train(w, xs)
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with running_kernel() as kernel:
        kernel.run("%load_ext jaxmagic")
        kernel.run(PROGRAM)
        yield kernel


def report_of(outputs: Outputs) -> Report:
    (shown,) = (one for one in outputs.displays if REPORT_MIME in one)
    return unpack(msgspec.convert(shown[REPORT_MIME], Payload))


def printed(kernel: Kernel, code: str) -> str:
    outputs = kernel.run(code)
    assert outputs.status == "ok", outputs.traceback
    return outputs.stdout.strip()


def test_named_values_of_a_function_compiled_earlier_come_ashore_in_order(kernel: Kernel):
    report = report_of(kernel.run("%%jaxtap loss grads\ntapped_w, tapped_sums = train(w, xs)"))
    assert [(one.function, one.name, one.total) for one in report.taps] == [
        ("loss_fn", "loss", 5),
        ("step", "grads", 5),
    ]
    assert [event.loop for event in report.taps[0].events] == [(0,), (1,), (2,), (3,), (4,)]
    assert (
        printed(kernel, "print(bool((plain_w == tapped_w).all()), bool((plain_sums == tapped_sums).all()))")
        == "True True"
    )


def test_the_series_are_arrays_in_python(kernel: Kernel):
    kernel.run("%%jaxtap -q -o t step.w\n_, sums = train(w, xs)")
    assert printed(kernel, "print(sorted(t), t.report.mode)") == "['step.w@10', 'step.w@8'] jaxtap"
    kernel.run("after = t['step.w@10']")
    assert printed(kernel, "print(after.values.shape, after.steps.tolist())") == "(5, 3) [0, 1, 2, 3, 4]"
    assert printed(kernel, "print(np.array_equal(after.values.sum(1), sums))") == "True"
    assert printed(kernel, "print(len(after.to_dataframe()), after.summary.count)") == "5 15"


def test_a_name_that_is_nowhere_is_an_error_with_names_like_it(kernel: Kernel):
    (finding,) = report_of(kernel.run("%%jaxtap los\ntrain(w, xs);")).findings
    assert finding.rule == "tap-name-unknown"
    assert "`loss`" in finding.explanation


def test_a_name_of_two_functions_has_to_be_qualified(kernel: Kernel):
    kernel.run("def a(x):\n    y = x + 1\n    return y\ndef b(x):\n    y = x + 2\n    return a(y)")
    kernel.run("%%jaxtap -q -o t y\njax.jit(b)(1.0)")
    assert printed(kernel, "print(sorted(t), t['a.y'].values)") == "['a.y', 'b.y'] [4.]"
    assert "several functions: 'a.y', 'b.y'" in str(kernel.run("t['y']").error)


def test_gradients_of_named_values_come_too(kernel: Kernel):
    kernel.run("%%jaxtap -q -o t y --grad\nvalue, grad = jax.value_and_grad(loss_fn)(w, xs[0])")
    assert printed(kernel, "print(sorted(t), np.allclose(t['grad y'].values[0], 2 * t['y'].values[0]))") == (
        "['grad y', 'y'] True"
    )


def test_the_circuit_breaker_ends_the_cell_with_one_message_and_a_healthy_kernel(kernel: Kernel):
    kernel.run("kept = 'before'")
    outputs = kernel.run("%%jaxtap loss --stop-when 'x < 1.4'\nkept = 'assigned so far'\nkept = train(w, xs)")
    assert outputs.error is not None
    assert "TapStopped: stopped because 'x < 1.4' holds for loss f32[] at line 4 of loss_fn()" in outputs.error
    assert "step 3, loop iteration 3" in outputs.error
    assert report_of(outputs).state == "interrupted"
    assert printed(kernel, "print(kept, float(train(w, xs)[1][0]) == float(plain_sums[0]))") == "assigned so far True"


def test_a_new_value_flows_on(kernel: Kernel):
    kernel.run("%%jaxtap -q --set 'grads=x * 0'\nfrozen, _ = train(w, xs)")
    assert printed(kernel, "print(bool((frozen == w).all()))") == "True"


def test_a_host_function_sees_each_value_and_its_result_flows_on(kernel: Kernel):
    kernel.run("seen = []\ndef host(value):\n    seen.append(float(value[0]))\n    return value * 0")
    kernel.run("%%jaxtap -q grads --call host\nfrozen, _ = train(w, xs)")
    assert printed(kernel, "print(bool((frozen == w).all()), len(seen))") == "True 5"


def test_a_ring_keeps_the_values_of_a_long_loop_on_the_device(kernel: Kernel):
    kernel.run("%%jaxtap -q -o t w --ring\nringed, _ = train(w, xs)")
    assert printed(kernel, "print(t['step.w@10'].values.shape, bool((ringed == plain_w).all()))") == "(5, 3) True"


def test_the_line_form_taps_one_statement(kernel: Kernel):
    kernel.run("%jaxtap -q -o t loss -- train(w, xs[:2])")
    assert printed(kernel, "print(t)") == "loss: 2 events, 2 kept"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("loss --set nonsense", "--set takes NAME=EXPR"),
        ("loss --when 'x >'", "is not an expression"),
        ("loss --when 'loss > 1'", "the value itself is called x"),
        ("loss --when 'x > 1", "No closing quotation"),
        ("loss --every 0", "every is 0, and must be at least 1"),
        ("loss --call missing", "NameError"),
        ("loss --call 3", "--call takes a function"),
        ("loss --fast", "unrecognized arguments: --fast"),
        ("loss --ring --grad", "a ring is read after the program has ended"),
    ],
)
def test_bad_flags_are_usage_errors_and_the_cell_does_not_run(kernel: Kernel, flags: str, said: str):
    outputs = kernel.run(f"%%jaxtap {flags}\nprint('ran')")
    assert outputs.stdout == ""
    assert said in outputs.stderr + str(outputs.error)


def test_points_reach_the_panel_before_the_cell_ends(kernel: Kernel):
    before: list[int] = []

    def look(outputs: Outputs) -> None:
        if not outputs.stdout:
            before.append(len(outputs.news))

    cell = "%%jaxtap loss\nimport time\nfor _ in range(10):\n    train(w, xs); time.sleep(0.1)\nprint('done')"
    outputs = kernel.run(cell, look)
    assert before[-1] > 0
    news = [msgspec.convert(one["live"], Live) for one in outputs.news]
    assert all(len(one.taps) == 1 and one.taps[0].name == "loss" for one in news)
    numbers = [event.number for one in news for event in one.taps[0].events]
    assert numbers == sorted(set(numbers))
    assert report_of(outputs).taps[0].total == 50


def test_a_long_loop_sends_a_bounded_stream(kernel: Kernel):
    kernel.run(
        "@jax.jit\ndef count(n):\n    def body(i, total):\n        total = total + 1.0\n        return total\n"
        "    return jax.lax.fori_loop(0, n, body, 0.0)\ncount(3)"
    )
    outputs = kernel.run(
        "%%jaxtap body.total -o t\nimport time; began = time.time(); count(100_000); took = time.time() - began"
    )
    took = float(printed(kernel, "print(took)"))
    assert len(outputs.news) <= 20 * took + 2
    assert sum(len(msgspec.json.encode(one)) for one in outputs.news) <= 2**20 * (took + 1)
    assert printed(kernel, "print(t['body.total@4'].total)") == "100000"


def test_after_the_cell_nothing_is_tapped_and_nothing_traced_again(kernel: Kernel):
    kernel.run("traced = 0\n@jax.jit\ndef f(x):\n    global traced; traced += 1\n    y = x * 2\n    return y\nf(1.0)")
    kernel.run("%%jaxtap -q -o t y\nf(2.0)")
    kernel.run("during = traced\nf(3.0); f(4.0)")
    assert printed(kernel, "print(traced - during, t['y'].total)") == "0 1"


def test_what_came_is_written_to_a_file(kernel: Kernel, tmp_path: Path):
    kernel.run(f"%%jaxtap -q loss --to {tmp_path / 'taps.jsonl'}\ntrain(w, xs);")
    report = msgspec.json.decode((tmp_path / "taps.jsonl").read_bytes(), type=Report)
    assert report.taps[0].total == 5


def test_a_nan_is_traced_to_its_expression_also_in_functions_of_earlier_cells(kernel: Kernel):
    kernel.run("@jax.jit\ndef risky(x):\n    z = jnp.log(x)\n    return z.sum()\nrisky(jnp.ones(2))")
    outputs = kernel.run("%%jaxtap --when nan\nfor k in range(3):\n    total = risky(jnp.array([1.0, 1.0 - k]))")
    (finding,) = report_of(outputs).findings
    assert (finding.rule, finding.title) == ("nan-made", "the logarithm of -1 is NaN, in `jnp.log(x)`")
    assert "first in turn k = 2, call 3 of risky: 1 of 2 elements, the first at [1]" in finding.evidence[0].text
    assert finding.fix == "jnp.log(jnp.maximum(x, 1e-12))"


def test_a_gradient_that_is_nan_is_put_down_to_the_function_it_is_of(kernel: Kernel):
    outputs = kernel.run("%%jaxtap --when nan\nbad = jax.grad(lambda v: jnp.sqrt(v @ v))(jnp.zeros(3))")
    (finding,) = report_of(outputs).findings
    assert finding.rule == "nan-gradient"
    assert finding.title == "the gradient is NaN: the derivative of `jnp.sqrt(v @ v)` is infinite at 0"
    fixed = kernel.run(f"%%jaxtap --when nan\ngood = jax.grad(lambda v: {finding.fix})(jnp.zeros(3))")
    assert report_of(fixed).findings == ()
    assert printed(kernel, "print(good)") == "[0. 0. 0.]"


def test_what_is_watched_for_nan_is_left_as_it_was(kernel: Kernel):
    kernel.run("%%jaxtap --when nan\ntotal = risky(jnp.ones(2))")
    kernel.run("from jax._src import pjit")
    assert printed(kernel, "print(pjit._pjit_call_impl_python.__module__, pjit._get_fastpath_data.__module__)") == (
        "jax._src.pjit jax._src.pjit"
    )
