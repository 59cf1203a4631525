"""Which values of which functions are tapped, by name."""

import sys
import threading
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxmagic.core.limits import Limits
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.taps.batches import Batch
from jaxmagic.core.taps.taps import TapOptions, Taps
from tests.core.tapped_programs import body, cumulate, layer, mean_square
from tests.core.tapping import Event, tap


class Model:
    def __init__(self):
        self.w = jnp.full((2,), 3.0)

    def __call__(self, x):
        self.h = x * self.w
        out = {"sum": self.h.sum(), "all": self.h}
        return out


@pytest.fixture
def params():
    return {"w": jnp.ones((2, 3)), "b": [jnp.zeros(3), jnp.ones(3)]}


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


@pytest.mark.parametrize(
    "pattern", ["params['w']", 'params["w"]', "layer.params['w']", "params.w", "layer.*.w", "*['w']"]
)
def test_a_path_into_a_pytree_is_a_name(params, pattern: str):
    tapped = tap(pattern, jax.jit(layer), params, jnp.ones(2))
    assert names(tapped) == {("layer", "params['w']")}
    np.testing.assert_array_equal(tapped.values("params['w']")[0], params["w"])


def test_a_container_means_everything_in_it(params):
    tapped = tap("params", jax.jit(layer), params, jnp.ones(2))
    assert names(tapped) == {("layer", f"params{path}") for path in ("['w']", "['b'][0]", "['b'][1]")}


@pytest.mark.parametrize("pattern", ["params.*", "params.b.*", "params['b'][?]", "params.b[1]"])
def test_a_glob_reaches_into_dicts_and_lists(params, pattern: str):
    tapped = tap(pattern, jax.jit(layer), params, jnp.ones(2))
    assert ("layer", "params['b'][1]") in names(tapped)
    assert len(names(tapped)) == {"params.*": 3, "params.b[1]": 1}.get(pattern, 2)


def test_keys_have_no_statistics():
    def draw(key):
        first, second = jax.random.split(key)
        return jax.random.normal(first), second

    (event,) = tap("first", jax.jit(draw), jax.random.key(0)).series("first").record(10).events
    assert event.summary is None
    assert isinstance(event.value, list)
    assert len(event.value) == 2


def test_attributes_of_a_model_are_names():
    tapped = tap("self.h out['sum']", jax.jit(Model().__call__), jnp.ones(2))
    assert names(tapped) == {("Model.__call__", "self.h"), ("Model.__call__", "out['sum']")}
    assert tapped.values("out['sum']").tolist() == [6.0]


def test_without_names_every_variable_is_tapped():
    tapped = tap("", jax.jit(mean_square), jnp.ones((2, 2)), jnp.ones((3, 2)))
    assert {name for function, name in names(tapped) if function == "mean_square"} == {"w", "x", "h", "loss"}


def test_the_budget_of_a_tap_without_names_is_stated(monkeypatch):
    monkeypatch.setattr("jaxmagic.core.taps.staging.MOST_NAMES", 2)
    tapped = tap("", jax.jit(mean_square), jnp.ones((2, 2)), jnp.ones((3, 2)))
    assert len(names(tapped)) == 2
    assert tapped.limits == ("without names the first 2 variables are tapped; name those that are missing (×2)",)


def test_of_an_unrolled_loop_the_first_turns_are_tapped_unless_named(monkeypatch):
    def unrolled(x):
        for _ in range(3):
            x = x * 2.0
        return x

    monkeypatch.setattr("jaxmagic.core.taps.staging.MOST_TURNS", 2)
    line = unrolled.__code__.co_firstlineno + 2
    told = f"x in unrolled: tapped in the first 2 turns of the unrolled loop at line {line}; name it to tap all"
    assert tap("", jax.jit(unrolled), 1.0).limits == (told,)
    assert tap("x", jax.jit(unrolled), 1.0).limits == ()


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


def test_a_function_called_many_times_gives_one_series_with_steps():
    function = jax.jit(lambda x: body(x, 1.0)[0])
    tapped = tap("d", lambda: [function(float(i)) for i in range(5)])
    series = tapped.series("d")
    assert series.values.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert series.steps.tolist() == [0, 1, 2, 3, 4]
    assert series.loops == [()] * 5


def with_reference(x):
    r = jax.new_ref(x)
    r[...] = r[...] + 1
    total = r[...] * 2
    return total


def test_a_reference_is_read_where_it_is_named():
    assert tap("r", jax.jit(with_reference), 1.0).events == [Event("r", (), 1.0)]


def test_without_names_references_are_left_alone():
    tapped = tap("", jax.jit(with_reference), 1.0)
    assert [event.name for event in tapped.events] == ["x", "total"]
    assert float(tapped.result) == 4.0


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


def unrolled(x):
    total = x
    for power in range(3):
        h = x * 10**power
        total = total + h
    return total


@pytest.mark.parametrize("ring", [False, True], ids=["callback", "ring"])
def test_a_line_that_runs_several_times_in_a_frame_sends_each_of_its_values(ring: bool):
    tapped = tap("h", lambda: [jax.jit(unrolled)(float(x)) for x in (1, 2)], ring=ring)
    assert tapped.values("h").tolist() == [1.0, 10.0, 100.0, 2.0, 20.0, 200.0]
    assert tapped.series("h").steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert tapped.series("h").total == 6


def test_a_name_that_several_programs_send_is_numbered_in_the_order_of_arrival():
    square, cube = (jax.jit(lambda x, n=n: body(x, n)[0]) for n in (2.0, 3.0))
    tapped = tap("d", lambda: [f(float(x)) for x in range(3) for f in (square, cube)])
    assert tapped.values("d").tolist() == [2.0, 3.0, 3.0, 4.0, 4.0, 5.0]
    assert tapped.series("d").steps.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_consumer_hears_of_events_while_the_program_runs():
    heard = []
    taps = Taps(["d"], TapOptions(), Policy(), Limits())
    taps.on_events(lambda batch: heard.extend(zip(batch.steps.tolist(), batch.parcels.values[0].tolist(), strict=True)))
    taps.start()
    try:
        jax.block_until_ready(jax.jit(cumulate)(jnp.ones(3)))
        taps.flush()
        assert heard == [([0], 1.0), ([1], 2.0), ([2], 3.0)]
    finally:
        taps.stop()


def test_a_consumer_that_raises_is_noted_and_harms_nobody():
    limits = Limits()
    taps = Taps(["d"], TapOptions(), Policy(), limits)

    def broken(batch: Batch) -> None:
        raise ZeroDivisionError("division by zero")

    taps.on_events(broken)
    taps.start()
    try:
        assert float(jax.jit(cumulate)(jnp.ones(3))) == 3.0
    finally:
        taps.stop()
    (line,) = limits.lines()
    assert line.startswith("a consumer of tapped values: not observed (ZeroDivisionError: division by zero)")
    assert taps.series()[0].total == 3


def test_another_tool_with_callbacks_is_not_disturbed():
    seen = []

    def step(c, x):
        d = c + x
        jax.debug.callback(lambda v: seen.append(float(v)), d)
        return d, None

    tapped = tap("d", jax.jit(lambda xs: lax.scan(step, 0.0, xs)[0]), jnp.ones(3))
    assert tapped.values("d").tolist() == seen == [1.0, 2.0, 3.0]
