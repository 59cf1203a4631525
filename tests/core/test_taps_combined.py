"""Choices, alerts and the circuit breaker inside of nests of loops and transformations."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from tests.core.tapped_programs import body
from tests.core.tapping import tap

ONES = jnp.ones((3, 4))


def nested(c):
    return lax.scan(lambda c, xs: (lax.scan(body, c, xs)[0], None), c, ONES)[0]


def counted(c):
    return lax.while_loop(lambda c: c < 12, lambda c: body(c, 1.0)[0], c)


NESTS: dict[str, Any] = {
    "scan in scan": (jax.jit(nested), 0.0),
    "grad": (jax.jit(jax.grad(lambda c: nested(c) ** 2)), 0.0),
    "vmap": (jax.jit(jax.vmap(nested)), jnp.zeros(2)),
    "vmap of grad": (jax.jit(jax.vmap(jax.grad(lambda c: nested(c) ** 2))), jnp.zeros(2)),
    "grad of vmap": (jax.jit(jax.grad(lambda c: jax.vmap(nested)(c * jnp.ones(2)).sum())), 0.0),
    "remat": (jax.jit(jax.grad(jax.checkpoint(nested))), 0.0),
    "while": (jax.jit(counted), 0.0),
    "vmap of while": (jax.jit(jax.vmap(counted)), jnp.zeros(2)),
}


def address(name: str, step: int) -> tuple[int, ...]:
    return (step,) if "while" in name else (step // 4, step % 4)


@pytest.mark.parametrize("name", NESTS)
@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"every": 5}, [0, 5, 10]),
        ({"first": 2, "last": 1}, [0, 1, 11]),
        ({"every": 5, "first": 1, "last": 1}, [0, 10]),
        ({"when": "x > 9"}, [9, 10, 11]),
        ({"when": "x > 9", "every": 2}, [9, 11]),
    ],
)
def test_the_same_events_are_chosen_in_every_nest(name: str, options: dict, steps: list[int]):
    function, c = NESTS[name]
    tapped = tap("d", function, c, **options)
    assert tapped.series("d").loops == [address(name, step) for step in steps]
    assert tapped.series("d").total == (3 if "when" in options else 12)
    assert tapped.result.tolist() == function(c).tolist()


@pytest.mark.parametrize("name", NESTS)
def test_alerts_mark_the_same_events_in_every_nest(name: str):
    events = tap("d", *NESTS[name], alert="x > 9").series("d").record(100).events
    assert [event.loop for event in events if event.alert] == [address(name, step) for step in (9, 10, 11)]


@pytest.mark.parametrize("name", NESTS)
def test_the_circuit_breaker_stops_every_nest_within_the_step(name: str):
    function, c = NESTS[name]
    tapped = tap("d", function, c, stop_when="x > 6")
    place = ", ".join(map(str, address(name, 6)))
    assert f"holds for d f32[] at line {body.__code__.co_firstlineno + 1} of body()" in str(tapped.error).replace(
        "*", ""
    )
    assert f"step 6, loop iteration {place}: " in str(tapped.error)
    assert tapped.series("d").total == 7
    assert function(c).tolist() == tap("d", function, c).result.tolist()


def logarithm(x):
    d = jnp.log(x)
    return d


def chosen(x):
    return lax.cond(x > 0, logarithm, lambda x: x, x)


def lanes_that_end_apart(c):
    def turn(c):
        d = jnp.log(3 - c)
        return c + 1 + 0 * d

    return lax.while_loop(lambda c: c < 2.5, turn, c)


UNUSED_NAN = [
    pytest.param(jax.vmap(chosen), jnp.array([1.0, -1.0]), id="cond"),
    pytest.param(jax.jit(jax.vmap(jax.vmap(chosen))), jnp.array([[1.0, -1.0], [2.0, -1.0]]), id="vmap in vmap of cond"),
    pytest.param(jax.jit(jax.vmap(lanes_that_end_apart)), jnp.array([0.0, 2.0]), id="while"),
]


@pytest.mark.parametrize(("function", "x"), UNUSED_NAN)
def test_a_nan_in_a_lane_that_is_not_running_is_no_alarm(function, x):
    assert tap("d", function, x, stop_when="nan").error is None
    assert tap("d", function, x, when="nan").events == []
    events = tap("d", function, x, alert="nan").series("d").record(100).events
    assert [(event.alert, event.summary and event.summary.nan) for event in events] == [(False, 0)] * len(events)
    assert any(False in event.active for event in events)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["python", "jit"])
def test_an_infinity_in_a_lane_that_is_running_is_an_alarm(wrap):
    choose = lambda x: lax.cond(x >= 0, logarithm, lambda x: x, x)
    tapped = tap("d", wrap(jax.vmap(choose)), jnp.array([0.0, -1.0]), stop_when="inf")
    assert "stopped because 'inf' holds for d f32[]" in str(tapped.error)
