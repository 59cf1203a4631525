"""Gradients, conditions, choices: what of a named value comes ashore, and when it stops the run."""

import re
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from jaxmagic.core.taps.conditions import condition
from tests.core.tapped_programs import body, cumulate, layer, product
from tests.core.tapping import Event, same, tap


def test_the_cotangent_of_a_name_comes_ashore():
    def loss(w):
        y = w * 2
        return (y**3).sum()

    w = jnp.array([1.0, 2.0])
    tapped = tap("y", jax.jit(jax.grad(loss)), w, grad=True)
    assert tapped.series("y", gradient=True).values.tolist() == [[12.0, 48.0]]
    assert tapped.values("y").tolist() == [[2.0, 4.0]]
    assert same(tapped.result, jax.grad(loss)(w))


@pytest.mark.parametrize("wrap", [lambda f: f, jax.checkpoint, jax.jit], ids=["plain", "remat", "jit"])
def test_cotangents_in_a_scan_have_the_address_of_their_step(wrap):
    loss = wrap(lambda c: lax.scan(product, c, jnp.array([2.0, 3.0]))[0])
    tapped = tap("y", jax.jit(jax.grad(loss)), 1.0, grad=True)
    assert tapped.events == [
        Event("y", (0,), 2.0),
        Event("y", (1,), 6.0),
        Event("∇y", (1,), 1.0),
        Event("∇y", (0,), 3.0),
    ]


def test_cotangents_under_vmap_are_one_event():
    loss = lambda c: lax.scan(product, c, jnp.array([2.0, 3.0]))[0] ** 2
    tapped = tap("y", jax.jit(jax.vmap(jax.grad(loss))), jnp.array([1.0, 2.0]), grad=True)
    assert tapped.series("y", gradient=True).values.tolist() == [[12.0, 24.0], [36.0, 72.0]]


def test_a_gradient_tap_leaves_forward_mode_alone():
    def cube(x):
        y = x * 1
        return y**3

    assert float(tap("y", jax.jit(jax.hessian(cube)), 2.0, grad=True).result) == 12.0
    assert tap("y", lambda: jax.jvp(cube, (2.0,), (1.0,)), grad=True).error is None


def test_cotangents_of_a_leaf_in_a_container():
    params = {"w": jnp.ones((2, 3)), "b": [jnp.zeros(3), jnp.ones(3)]}

    def loss(params):
        return layer(params, jnp.ones(2)).sum()

    tapped = tap("loss.params['w']", jax.jit(jax.grad(loss)), params, grad=True)
    assert tapped.series("params['w']", gradient=True).values.tolist() == [[[1.0] * 3] * 2]


def test_when_brings_only_what_the_condition_holds_for():
    tapped = tap("d", jax.jit(cumulate), jnp.arange(5.0), when="x > 2")
    assert tapped.events == [Event("d", (2,), 3.0), Event("d", (3,), 6.0), Event("d", (4,), 10.0)]


@pytest.mark.parametrize(("condition", "steps"), [("nan", [2, 3]), ("inf", [1])])
def test_when_nan_tells_nan_from_infinity(condition: str, steps: list[int]):
    def step(c, x):
        d = c * x
        return d, None

    function = jax.jit(lambda xs: lax.scan(step, 1.0, xs))
    tapped = tap("d", function, jnp.array([1.0, jnp.inf, 0.0, 1.0]), when=condition)
    assert [loop[0] for loop in tapped.series("d").loops] == steps


def test_when_under_vmap_brings_all_lanes_once():
    function = jax.jit(jax.vmap(cumulate))
    tapped = tap("d", function, jnp.array([[1.0, 1.0], [1.0, 5.0]]), when="x > 4")
    assert tapped.events == [Event("d", (1,), [2.0, 6.0])]


def test_when_picks_among_the_names_of_a_frame():
    def two(x):
        low = x - 10
        high = x + 10
        return low + high

    tapped = tap("low high", jax.jit(two), 1.0, when="x > 0")
    assert tapped.events == [Event("high", (), 11.0)]


def test_a_condition_that_fits_no_value_is_never_true():
    tapped = tap("d", jax.jit(cumulate), jnp.arange(3.0), when="x[0] > 1")
    assert (tapped.error, tapped.events) == (None, [])
    (line,) = tapped.limits
    assert line.startswith("'x[0] > 1' has no answer for f32[], so it never holds for it (")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"when": "loss > 3"}, "'loss' in 'loss > 3' is not defined; the value itself is called x"),
        ({"alert": "jnp.pi > 3"}, "'jnp.pi > 3' does not ask about the value, which is called x"),
        ({"every": 0}, "every is 0, and must be at least 1"),
        ({"last": -1}, "last is -1, and must be at least 0"),
    ],
)
def test_what_can_not_be_meant_is_refused(options: dict, said: str):
    with pytest.raises(ValueError, match=re.escape(said)):
        tap("d", jax.jit(cumulate), jnp.arange(3.0), **options)


@pytest.mark.parametrize(
    "text", ["[y for y in x.shape]", "(lambda v: v > 1)(x)", "jnp.any(x > abs(-2))", "(z := x) > 1"]
)
def test_an_expression_may_name_what_it_makes_itself(text: str):
    assert condition(text) is not None


def test_an_alert_is_kept_among_any_number_of_events():
    tapped = tap("d", jax.jit(cumulate), jnp.ones(100_000), alert="x == 54_321")
    assert [event.step for event in tapped.series("d").record(0).events if event.alert] == [54_320]


def test_alerts_mark_events():
    tapped = tap("d", jax.jit(cumulate), jnp.arange(4.0), alert="x > 2")
    events = tapped.series("d").record(100).events
    assert [event.alert for event in events] == [False, False, True, True]


def test_every_n_th_event_is_kept():
    tapped = tap("d", jax.jit(cumulate), jnp.ones(10), every=4)
    series = tapped.series("d")
    assert series.steps.tolist() == [0, 4, 8]
    assert series.record(100).dropped == 7


def test_first_and_last_events_are_kept():
    tapped = tap("d", jax.jit(cumulate), jnp.ones(1000), first=2, last=3)
    assert tapped.series("d").steps.tolist() == [0, 1, 997, 998, 999]


def test_large_values_are_reduced_on_the_device():
    function = jax.jit(lambda x: body(x, 0.0)[0])
    x = jnp.arange(5000.0)
    tapped = tap("d", function, x)
    series = tapped.series("d")
    with pytest.raises(ValueError, match=r"d f32\[5000\] was reduced on the device"):
        _ = series.values
    (summary,) = series.summaries
    assert summary is not None
    assert (summary.count, summary.min, summary.max, summary.zero) == (5000, 0.0, 4999.0, 1)
    assert series.record(10).bytes < 1000
    assert tap("d", function, x, keep="values").values("d").shape == (1, 5000)


def test_statistics_can_be_asked_for_of_all_but_the_smallest():
    function = jax.jit(lambda x: body(x, 0.0)[0])
    series = tap("d", function, jnp.arange(100.0), keep="stats").series("d")
    assert (series.summary.mean, series.record(1000).events[0].value) == (49.5, None)
    assert tap("d", function, jnp.arange(4.0), keep="stats").values("d").tolist() == [[0.0, 1.0, 2.0, 3.0]]


def test_the_circuit_breaker_stops_the_run_at_that_step():
    tapped = tap("d", jax.jit(cumulate), jnp.ones(100_000), stop_when="x >= 5")
    line = body.__code__.co_firstlineno + 1
    message = f"stopped because 'x >= 5' holds for d f32[] at line {line} of body(), step 4, loop iteration 4: 5."
    assert str(tapped.error) == message
    assert str(tapped.taps.stopped) == message
    assert tapped.values("d").tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert float(jax.jit(cumulate)(jnp.ones(3))) == 3.0


def test_the_circuit_breaker_stops_a_python_loop_of_calls():
    function = jax.jit(lambda x: body(x, 1.0)[0])
    done = []

    def train():
        done.extend(float(function(float(i))) for i in range(10))

    tapped = tap("d", train, stop_when="x > 3")
    assert str(tapped.error).startswith("stopped because 'x > 3' holds for d f32[]")
    assert done == [1.0, 2.0, 3.0]


def test_a_stopped_run_names_the_gradient():
    loss = lambda c: lax.scan(product, c, jnp.array([2.0, 3.0]))[0]
    tapped = tap("y", jax.jit(jax.grad(loss)), 1.0, grad=True, stop_when="x == 3")
    assert "holds for gradient of y f32[]" in str(tapped.error)


def test_an_interrupt_in_a_loop_ends_it_and_keeps_what_came(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import os, signal, threading, time
            import jax, jax.numpy as jnp
            from jax import lax
            from jaxmagic.core.limits import Limits
            from jaxmagic.core.source.policy import Policy
            from jaxmagic.core.taps.taps import TapOptions, Taps

            def step(c, x):
                d = jnp.tanh(c @ c)
                return d, None

            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
            runs = threading.Event()
            taps = Taps(["d"], TapOptions(), Policy(), Limits())
            taps.on_events(lambda batch: runs.set())
            interrupt = lambda: (runs.wait(), os.kill(os.getpid(), signal.SIGINT))
            threading.Thread(target=interrupt).start()
            taps.start()
            try:
                jax.block_until_ready(jax.jit(lambda c: lax.scan(step, c, None, length=10_000_000))(jnp.eye(60)))
            except KeyboardInterrupt:
                print("interrupted")
            taps.stop()
            print(0 < taps.series()[0].total < 10_000_000)
            print(float(jax.jit(lambda x: x + 1)(1.0)))
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=120, cwd=tmp_path, env=_environment()
    )
    assert done.stdout.split() == ["interrupted", "True", "2.0"], done.stderr


def _environment() -> dict[str, str]:
    import os

    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return {**os.environ, "PYTHONPATH": root, "JAX_PLATFORMS": "cpu"}
