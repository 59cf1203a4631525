"""Taps on named values: which names, what they leave behind, what they change, how they stop a run."""

import gc
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxmagic.core.limits import Limits
from jaxmagic.core.policy import Policy
from jaxmagic.core.taps import TapOptions, Taps
from tests.core.tapping import Event, same, tap


def mean_square(w, x):
    h = jnp.tanh(x @ w)
    loss = (h**2).mean()
    return loss


@pytest.fixture
def params():
    return {"w": jnp.ones((2, 3)), "b": [jnp.zeros(3), jnp.ones(3)]}


def layer(params, x):
    y = x @ params["w"] + params["b"][1]
    return y


class Model:
    def __init__(self):
        self.w = jnp.full((2,), 3.0)

    def __call__(self, x):
        self.h = x * self.w
        out = {"sum": self.h.sum(), "all": self.h}
        return out


# ---------------------------------------------------------------------------------------------- names


def names(tapped):
    return {(series.name.function, series.name.name) for series in tapped.taps.series()}


def test_a_plain_name_is_found_in_every_user_function():
    tapped = tap("h", jax.jit(mean_square), jnp.ones((2, 2)), jnp.ones((3, 2)))
    assert names(tapped) == {("mean_square", "h")}
    assert tapped.values("h").shape == (1, 3, 2)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("mean_square.h", {"h"}),
        ("mean_square.*", {"w", "x", "h", "loss", "return"}),
        ("*.loss", {"loss"}),
        ("mean_square", {"return"}),
        ("mean_square.return", {"return"}),
        ("l?ss", {"loss"}),
        ("other.h", set()),
    ],
)
def test_a_pattern_matches(pattern: str, expected: set):
    tapped = tap(pattern, jax.jit(mean_square), jnp.ones((2, 2)), jnp.ones((3, 2)))
    assert {name for _, name in names(tapped)} == expected


@pytest.mark.parametrize("pattern", ["params['w']", 'params["w"]', "layer.params['w']"])
def test_a_path_into_a_pytree_is_a_name(params, pattern: str):
    tapped = tap(pattern, jax.jit(layer), params, jnp.ones(2))
    assert names(tapped) == {("layer", "params['w']")}
    np.testing.assert_array_equal(tapped.values("params['w']")[0], params["w"])


def test_a_container_means_everything_in_it(params):
    tapped = tap("params", jax.jit(layer), params, jnp.ones(2))
    assert names(tapped) == {("layer", f"params{path}") for path in ("['w']", "['b'][0]", "['b'][1]")}


def test_attributes_of_a_model_are_names():
    tapped = tap("self.h out['sum']", jax.jit(Model().__call__), jnp.ones(2))
    assert names(tapped) == {("Model.__call__", "self.h"), ("Model.__call__", "out['sum']")}
    assert tapped.values("out['sum']").tolist() == [6.0]


def test_without_names_every_variable_is_tapped():
    tapped = tap("", jax.jit(mean_square), jnp.ones((2, 2)), jnp.ones((3, 2)))
    assert {name for function, name in names(tapped) if function == "mean_square"} == {"w", "x", "h", "loss"}


def test_the_budget_of_a_tap_without_names_is_stated(monkeypatch):
    monkeypatch.setattr("jaxmagic.core.staging.MOST_NAMES", 2)
    tapped = tap("", jax.jit(mean_square), jnp.ones((2, 2)), jnp.ones((3, 2)))
    assert len(names(tapped)) == 2
    assert tapped.limits == ("without names the first 2 variables are tapped; name those that are missing (×2)",)


def test_an_unknown_name_is_told_with_names_like_it():
    tapped = tap("los h", jax.jit(mean_square), jnp.ones((2, 2)), jnp.ones((3, 2)))
    assert tapped.taps.unknown() == {"los": ("loss",)}


def test_values_of_plain_python_functions_are_tapped_as_well():
    def train():
        value = jnp.zeros(())
        for i in range(3):
            value = value + i
        return value

    tapped = tap("value", train)
    first, loop = tapped.taps.series()
    assert (first.values.tolist(), loop.values.tolist()) == ([0.0], [0.0, 1.0, 3.0])
    assert {series.record(0).transport for series in tapped.taps.series()} == {"read at once"}


def test_the_frame_that_already_runs_is_tapped():
    taps = Taps(["value"], TapOptions(), Policy(), Limits())
    taps.start(sys._getframe())
    try:
        value = jnp.ones(2)
        value = value * 2
    finally:
        taps.stop()
    assert [series.values.tolist() for series in taps.series()] == [[[1.0, 1.0]], [[2.0, 2.0]]]
    assert value.tolist() == [2.0, 2.0]


def test_a_series_knows_its_line_and_its_aval():
    tapped = tap("h", jax.jit(mean_square), jnp.ones((2, 2)), jnp.ones((3, 2)))
    record = tapped.series("h").record(100)
    assert record.span is not None
    assert record.span.line == mean_square.__code__.co_firstlineno + 1
    assert (str(record.aval), record.total, record.dropped) == ("f32[3,2]", 1, 0)
    assert record.bytes == 24


# ------------------------------------------------------------------------------------ what stays behind


def test_a_function_compiled_before_keeps_its_caches():
    traced = []

    @jax.jit
    def function(x):
        traced.append(x)
        d = x + 1
        return d

    function(1.0)
    tapped = tap("d", function, 1.0)
    assert tapped.values("d").tolist() == [2.0]
    assert len(traced) == 2  # once for the taps
    function(1.0)
    assert (len(traced), function._cache_size()) == (2, 1)


def test_a_function_first_called_under_taps_is_clean_afterwards():
    @jax.jit
    def function(x):
        d = x + 1
        return d

    tap("d", function, 1.0)
    assert not jax.make_jaxpr(function)(1.0).effects


def body(c, x):
    d = c + x
    return d, d


def cumulate(xs):
    return lax.scan(body, 0.0, xs)[0]


@pytest.mark.parametrize(
    "transform",
    [lambda f: f, jax.checkpoint, jax.custom_vjp, lambda f: lambda x: lax.cond(x[0] < 1, f, f, x)],
    ids=["scan", "remat", "custom_vjp", "cond"],
)
def test_bodies_traced_under_taps_are_not_reused_without(transform):
    function = transform(cumulate)
    if isinstance(function, jax.custom_vjp):
        function.defvjp(lambda xs: (cumulate(xs), xs), lambda xs, g: (g * xs,))
    xs = jnp.arange(3.0)
    assert len(tap("d", jax.jit(function), xs).events) == 3
    assert not jax.make_jaxpr(function)(xs).effects
    assert len(tap("d", jax.jit(function), xs).events) == 3


def test_functions_are_as_fast_afterwards():
    function = jax.jit(lambda x: x * 2 + 1)
    x = jnp.ones(3)

    def microseconds() -> float:
        function(x)
        times = []
        for _ in range(9):
            begun = time.perf_counter()
            for _ in range(300):
                function(x)
            times.append(time.perf_counter() - begun)
        return min(times)

    before = microseconds()
    tap("d", function, x)
    assert microseconds() < 1.5 * before


def test_nothing_stays_installed():
    from jax.interpreters import batching

    from jaxmagic.core.jax_internals import PIECES

    pieces = {key: getattr(piece.owner, piece.name) for key, piece in PIECES.items()}
    rules = dict(batching.fancy_primitive_batchers)
    tap("d", jax.jit(cumulate), jnp.arange(3.0))
    assert {key: getattr(piece.owner, piece.name) for key, piece in PIECES.items()} == pieces
    assert batching.fancy_primitive_batchers == rules
    assert sys.gettrace() is None


def test_no_tracer_survives_a_trace():
    with jax.checking_leaks():
        tapped = tap("d h", jax.jit(jax.grad(mean_square)), jnp.ones((2, 2)), jnp.ones((3, 2)))
    assert tapped.error is None


def test_no_tracer_survives_a_trace_that_fails():
    def fails(x):
        d = x + 1
        return d + jnp.ones(7)

    function = jax.jit(fails)
    gc.collect()
    before = len([each for each in gc.get_objects() if isinstance(each, jax.core.Tracer)])
    tapped = tap("d", function, jnp.ones(3))
    assert isinstance(tapped.error, TypeError)
    del tapped
    gc.collect()
    assert len([each for each in gc.get_objects() if isinstance(each, jax.core.Tracer)]) == before


def test_a_program_compiled_under_taps_reports_to_the_run_that_is_current():
    def triple(x):
        d = x * 3
        return d

    kept = {}

    def compile_it():
        kept["program"] = jax.jit(triple).lower(1.0).compile()

    first = tap("d", compile_it)
    assert first.events == []
    kept["program"](2.0)
    second = tap("d", lambda: kept["program"](4.0))
    assert second.events == [Event("d", (), 12.0)]
    assert tap("e", lambda: kept["program"](4.0)).events == []


# ----------------------------------------------------------------------------------------- calls, threads


def test_a_function_called_many_times_gives_one_series_with_steps():
    function = jax.jit(lambda x: body(x, 1.0)[0])
    tapped = tap("d", lambda: [function(float(i)) for i in range(5)])
    series = tapped.series("d")
    assert series.values.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert series.steps.tolist() == [0, 1, 2, 3, 4]
    assert series.loops == [()] * 5


def test_two_shapes_are_two_series():
    function = jax.jit(lambda x: body(x, 1.0)[0])
    tapped = tap("d", lambda: (function(jnp.ones(2)), function(jnp.ones(3))))
    assert [str(series.name.aval) for series in tapped.taps.series()] == ["f32[2]", "f32[3]"]


def test_a_function_called_from_threads_is_tapped():
    function = jax.jit(cumulate)
    xs = jnp.arange(3.0)

    def work():
        threads = [threading.Thread(target=function, args=(xs,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    tapped = tap("d", work)
    events = sorted((event.loop, event.value) for event in tapped.events)
    assert events == sorted([((0,), 0.0), ((1,), 1.0), ((2,), 3.0)] * 3)
    assert sorted(tapped.series("d").steps.tolist()) == list(range(9))


def test_tapped_values_are_those_that_the_function_returns():
    def walk(key):
        def step(c, k):
            d = c + jax.random.normal(k, (4,))
            return d, d

        return lax.scan(step, jnp.zeros(4), jax.random.split(key, 10))[1]

    tapped = tap("d", jax.jit(walk), jax.random.key(0))
    assert tapped.values("d").tobytes() == np.asarray(tapped.result).tobytes()


def test_donated_arguments_stay_donated():
    function = jax.jit(lambda x: body(x, 1.0)[0], donate_argnums=0)
    x = jnp.ones(3)
    assert tap("d", function, x).values("d").tolist() == [[2.0, 2.0, 2.0]]
    assert x.is_deleted()


def test_static_arguments_and_partials_are_tapped():
    function = jax.jit(partial(lambda n, x: body(x, n)[0], 3), static_argnums=())
    assert tap("d", function, 1.0).values("d").tolist() == [4.0]
    static = jax.jit(lambda x, n: body(x, n)[0], static_argnums=1)
    assert tap("d", static, 1.0, 5).values("d").tolist() == [6.0]


# ------------------------------------------------------------------------------------------- gradients


def test_the_cotangent_of_a_name_comes_ashore():
    def loss(w):
        y = w * 2
        return (y**3).sum()

    w = jnp.array([1.0, 2.0])
    tapped = tap("y", jax.jit(jax.grad(loss)), w, grad=True)
    assert tapped.series("y", gradient=True).values.tolist() == [[12.0, 48.0]]
    assert tapped.values("y").tolist() == [[2.0, 4.0]]
    assert same(tapped.result, jax.grad(loss)(w))


def product(c, x):
    y = c * x
    z = y * 1
    return z, None


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


def test_cotangents_of_a_leaf_in_a_container(params):
    def loss(params):
        return layer(params, jnp.ones(2)).sum()

    tapped = tap("loss.params['w']", jax.jit(jax.grad(loss)), params, grad=True)
    assert tapped.series("params['w']", gradient=True).values.tolist() == [[[1.0] * 3] * 2]


# ------------------------------------------------------------------------------------ conditions, choices


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
    tapped = tap("d", jax.jit(cumulate), jnp.arange(3.0), when="x.no_such_attribute > 1")
    assert (tapped.error, tapped.events) == (None, [])


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


# ------------------------------------------------------------------------------------------- stopping


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
            from jaxmagic.core.policy import Policy
            from jaxmagic.core.taps import TapOptions, Taps

            def step(c, x):
                d = jnp.tanh(c @ c)
                return d, None

            runs = threading.Event()
            taps = Taps(["d"], TapOptions(), Policy(), Limits())
            taps.on_event(lambda arrival: runs.set())
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


# ------------------------------------------------------------------------------------------- replacing


def test_a_replaced_value_flows_on():
    def function(x):
        y = x * 2
        z = y + 1
        return z

    tapped = tap("z", jax.jit(function), 1.0, replace={"y": lambda x: x * 100})
    assert float(tapped.result) == 201.0
    assert tapped.values("z").tolist() == [201.0]


def test_a_replaced_value_is_differentiated():
    def function(x):
        y = x * 2
        z = y * y
        return z

    assert float(tap("", jax.jit(jax.grad(function)), 1.0, replace={"y": lambda x: 3 * x}).result) == 72.0


def test_a_value_is_replaced_in_a_scan_under_vmap():
    function = jax.jit(jax.vmap(cumulate))
    tapped = tap("d", function, jnp.ones((2, 3)), replace={"body.c": lambda x: x * 0})
    assert tapped.result.tolist() == [1.0, 1.0]


def test_a_scalar_stands_for_an_array_full_of_it():
    def function(x):
        y = x * 2
        return y + 1

    assert tap("q", jax.jit(function), jnp.ones(3), replace={"y": lambda x: 5}).result.tolist() == [6.0] * 3


def test_a_leaf_of_a_container_is_replaced_in_a_copy(params):
    tapped = tap("y", jax.jit(layer), params, jnp.ones(2), replace={"params['w']": jnp.zeros_like})
    assert tapped.result.tolist() == [1.0, 1.0, 1.0]
    assert params["w"].tolist() == [[1.0] * 3] * 2


class Pair(NamedTuple):
    left: jax.Array
    right: jax.Array


def test_a_field_of_a_named_tuple_is_replaced():
    def function(pair):
        return pair.left - pair.right

    tapped = tap("q", jax.jit(function), Pair(jnp.ones(()), jnp.ones(())), replace={"pair.right": lambda x: x * 3})
    assert float(tapped.result) == -2.0


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (lambda x: jnp.ones(4), r"the value set for y at line \d+ of function\(\) has shape \(4,\), not \(3,\)"),
        (lambda x: x > 0, None),
        (lambda x: x * 1j, r"the value set for y at line \d+ of function\(\) has dtype complex64, not float32"),
        (lambda x: x.nothing, r"line \d+ of function\(\): .*nothing"),
    ],
    ids=["shape", "a dtype that fits", "dtype", "error"],
)
def test_a_value_that_does_not_fit_is_an_error_with_the_line(new, message: str | None):
    def function(x):
        y = x * 2
        return y + 1

    tapped = tap("q", jax.jit(function), jnp.ones(3), replace={"y": new})
    if message is None:
        assert tapped.error is None
    else:
        with pytest.raises(Exception, match=message):
            raise tapped.error or AssertionError


def test_a_name_to_replace_that_was_not_found_is_told():
    tapped = tap("q", jax.jit(mean_square), jnp.ones((2, 2)), jnp.ones((3, 2)), replace={"losss": lambda x: x})
    assert tapped.taps.unknown()["losss"] == ("loss",)


def test_what_a_host_function_returns_flows_on():
    seen = []

    def double(value):
        seen.append(value)
        return value * 2

    tapped = tap("d", jax.jit(cumulate), jnp.ones(3), call=double)
    assert float(tapped.result) == 14.0
    assert [float(value) for value in seen] == [1.0, 3.0, 7.0]
    assert isinstance(seen[0], np.ndarray | np.generic)


def test_a_host_function_may_only_look():
    seen = []
    tapped = tap("d", jax.jit(cumulate), jnp.ones(3), call=lambda value: seen.append(float(value)))
    assert (float(tapped.result), seen) == (3.0, [1.0, 2.0, 3.0])


def test_a_host_function_is_called_for_each_lane():
    seen = []
    tapped = tap(
        "d", jax.jit(jax.vmap(lambda x: body(x, 1.0)[0])), jnp.arange(3.0), call=lambda v: seen.append(v.shape)
    )
    assert seen == [(), (), ()]
    assert tapped.result.tolist() == [1.0, 2.0, 3.0]


def test_the_gradient_through_a_host_function_is_zero():
    def function(x):
        y = x * 2
        return y + x

    assert float(tap("y", jax.jit(jax.grad(function)), 1.0, call=lambda value: value).result) == 1.0


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda value: np.ones(3), r"returned shape \(3,\) for d f32\[\] at line \d+ of body\(\), not \(\)"),
        (lambda value: 1j, r"returned dtype complex128 for d f32\[\] at line \d+ of body\(\), not float32"),
        (lambda value: 1 / 0, "division by zero"),
    ],
    ids=["shape", "dtype", "error"],
)
def test_a_bad_return_from_the_host_is_an_error_at_the_users_line(function, message: str):
    tapped = tap("d", jax.jit(cumulate), jnp.ones(3), call=function)
    with pytest.raises(Exception, match=message):
        raise tapped.error or AssertionError
    assert float(jax.jit(cumulate)(jnp.ones(3))) == 3.0


# ---------------------------------------------------------------------------------------------- sinks


def test_a_consumer_hears_of_events_while_the_program_runs():
    heard = []
    taps = Taps(["d"], TapOptions(), Policy(), Limits())
    taps.on_event(lambda arrival: heard.append((arrival.steps, arrival.read().values[0].item())))
    taps.start()
    try:
        jax.block_until_ready(jax.jit(cumulate)(jnp.ones(3)))
        taps.flush()
        assert heard == [((0,), 1.0), ((1,), 2.0), ((2,), 3.0)]
    finally:
        taps.stop()


def test_a_consumer_that_raises_is_noted_and_harms_nobody():
    limits = Limits()
    taps = Taps(["d"], TapOptions(), Policy(), limits)
    taps.on_event(lambda arrival: 1 / 0)
    taps.start()
    try:
        assert float(jax.jit(cumulate)(jnp.ones(3))) == 3.0
    finally:
        taps.stop()
    assert limits.lines() == ("a consumer of tapped values: not observed (ZeroDivisionError: division by zero) (×3)",)
    assert taps.series()[0].total == 3


def test_another_tool_with_callbacks_is_not_disturbed():
    seen = []

    def step(c, x):
        d = c + x
        jax.debug.callback(lambda v: seen.append(float(v)), d)
        return d, None

    tapped = tap("d", jax.jit(lambda xs: lax.scan(step, 0.0, xs)[0]), jnp.ones(3))
    assert tapped.values("d").tolist() == seen == [1.0, 2.0, 3.0]
