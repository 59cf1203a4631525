"""The opt-in ring: exact where it is used, refused with the reason where it would be wrong."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from jaxmagic.core.taps.ring import ROWS
from jaxmagic.core.taps.taps import TapOptions
from tests.core.tapping import Event, tap


def body(c, x):
    d = c + x
    return d, d


def cumulate(xs):
    return lax.scan(body, 0.0, xs)[0]


def transports(tapped) -> set[str]:
    return {series.record(0).transport.split(",")[0] for series in tapped.taps.series()}


RING = f"ring of the last {ROWS} events"


def test_a_ring_holds_every_step_of_a_short_loop():
    tapped = tap("d", jax.jit(cumulate), jnp.arange(5.0), ring=True)
    series = tapped.series("d")
    assert series.values.tolist() == [0.0, 1.0, 3.0, 6.0, 10.0]
    assert series.steps.tolist() == [0, 1, 2, 3, 4]
    assert transports(tapped) == {RING}
    assert tapped.limits == ()


def test_a_ring_holds_the_last_steps_of_a_long_loop_and_counts_all():
    tapped = tap("d", jax.jit(cumulate), jnp.ones(100_000), ring=True)
    series = tapped.series("d")
    assert series.total == 100_000
    assert series.steps.tolist() == list(range(100_000 - ROWS, 100_000))
    assert series.values.tolist() == [step + 1.0 for step in series.steps]
    assert series.record(0).dropped == 100_000 - ROWS


def test_rings_share_a_clock_so_that_the_order_is_known():
    def outer(c, x):
        e = c * 2
        return cumulate(jnp.stack([e, x])), None

    tapped = tap("d e", jax.jit(lambda: lax.scan(outer, 1.0, jnp.ones(2))), ring=True)
    assert [(event.name, event.value) for event in tapped.events] == [
        ("d", 2.0),
        ("d", 3.0),
        ("e", 2.0),
        ("d", 6.0),
        ("d", 7.0),
        ("e", 6.0),
    ]


def test_calls_go_on_in_the_same_ring():
    function = jax.jit(lambda x: body(x, 1.0)[0])
    tapped = tap("d", lambda: [function(float(i)) for i in range(3)], ring=True)
    assert tapped.values("d").tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (lambda f: jax.jit(jax.vmap(f)), "it can't be written to under vmap"),
        (lambda f: jax.jit(lambda x: jax.grad(f)(x[0])), "it can't be written to under grad"),
        (lambda f: jax.vmap(jax.jit(f)), "it can't be written to under vmap"),
        (lambda f: lambda x: jax.grad(jax.jit(f))(x[0]), "it can't be written to under grad"),
    ],
    ids=["vmap", "grad", "vmap of jit", "grad of jit"],
)
def test_a_ring_is_refused_where_it_would_be_wrong(transform, reason: str):
    function = transform(cumulate)
    tapped = tap("d", function, jnp.ones((2, 3)), ring=True)
    assert tapped.error is None
    assert tapped.series("d").total == 3
    assert any(reason in line for line in tapped.limits), tapped.limits
    assert RING not in transports(tapped)


def test_a_function_with_a_ring_can_be_transformed_afterwards():
    function = jax.jit(cumulate)

    def both(xs):
        return function(xs), jax.vmap(function)(jnp.stack([xs, xs])), jax.grad(lambda xs: function(xs))(xs)

    tapped = tap("d", both, jnp.ones(3), ring=True)
    assert tapped.error is None
    assert [value.tolist() for value in tapped.result] == [3.0, [3.0, 3.0], [1.0, 1.0, 1.0]]


def test_a_body_with_a_ring_can_be_differentiated_elsewhere():
    def both(xs):
        return jax.jit(cumulate)(xs), jax.jit(jax.grad(cumulate))(xs), jax.jit(jax.vmap(cumulate))(jnp.ones((2, 3)))

    tapped = tap("d", both, jnp.ones(3), ring=True)
    assert tapped.error is None
    assert tapped.result[2].tolist() == [3.0, 3.0]


def test_the_condition_of_a_while_loop_is_tapped_by_callback():
    def condition(c):
        k = c * 1
        return k < 2

    function = jax.jit(lambda c: lax.while_loop(condition, lambda c: body(c, 1.0)[0], c))
    tapped = tap("d k", function, 0.0, ring=True)
    assert tapped.values("k").tolist() == [0.0, 1.0, 2.0]
    assert tapped.values("d").tolist() == [1.0, 2.0]


def test_values_larger_than_the_budget_are_refused():
    tapped = tap("d", jax.jit(lambda x: body(x, 1.0)[0]), jnp.ones(1000), ring=True, budget=100_000)
    assert "more than the budget" in tapped.limits[0]
    assert tapped.series("d").total == 1


def test_a_program_that_fails_takes_its_ring_with_it_and_that_is_said():
    def host(value):
        raise ValueError("no")

    def step(c, x):
        d = c + x
        return jax.pure_callback(host, jax.ShapeDtypeStruct((), jnp.float32), d), None

    tapped = tap("d", jax.jit(lambda xs: lax.scan(step, 0.0, xs)), jnp.ones(3), ring=True)
    assert tapped.error is not None
    assert any(line.startswith("the ring of d: not observed") for line in tapped.limits)
    assert float(jax.jit(cumulate)(jnp.ones(3))) == 3.0


def test_a_function_is_clean_of_its_ring_afterwards():
    function = jax.jit(cumulate)
    tap("d", function, jnp.ones(3), ring=True)
    assert not jax.make_jaxpr(function)(jnp.ones(3)).effects
    assert float(function(jnp.ones(3))) == 3.0


@pytest.mark.parametrize("option", [{"grad": True}, {"when": "nan"}, {"stop_when": "nan"}, {"alert": "nan"}])
def test_a_ring_is_not_combined_with_what_needs_the_host_at_once(option):
    with pytest.raises(ValueError, match="a ring is read after the program has ended"):
        TapOptions(ring=True, **option)


def test_the_events_of_a_ring_equal_those_of_callbacks():
    def step(c, x):
        d = jnp.sin(c) + x
        return d, None

    run = lambda **how: tap("d", jax.jit(lambda: lax.scan(step, jnp.zeros(4), jnp.ones((50, 4)))[0]), **how)
    ring, callback = run(ring=True), run()
    assert ring.values("d").tobytes() == callback.values("d").tobytes()
    assert [event.value for event in ring.events] == [event.value for event in callback.events]
    assert isinstance(ring.events[0], Event)
