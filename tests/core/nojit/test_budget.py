"""A polite stop: at the end of a line, wherever the time was spent."""

import threading
import time

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import jaxmagic
from jaxmagic.core.nojit.budget import OverBudget

X = jnp.float32(0)


class Counter:
    def __init__(self):
        self.n = 0

    def spin(self):
        while True:
            self.n += 1

    def spin_in_calls(self):
        while True:
            self.once()

    def once(self):
        self.n += 1

    def operations(self):
        x = X
        while True:
            x = x + 1
            self.n += 1

    def scan(self):
        def body(carry, t):
            self.n += 1
            return carry + t, None

        lax.scan(body, X, jnp.arange(1e6))

    def while_loop(self):
        def body(carry):
            self.n += 1
            return carry + 1

        lax.while_loop(lambda carry: carry < 1e6, body, X)

    def scan_in_a_scan(self):
        def inner(carry, t):
            self.n += 1
            return carry + t, None

        lax.scan(lambda carry, _: (lax.scan(inner, carry, jnp.arange(1e6))[0], None), X, None, length=10)

    def jitted_in_a_loop(self):
        @jax.jit
        def f(x):
            self.n += 1
            return x + 1

        while True:
            f(X)


WAYS = [name for name in vars(Counter) if name not in ("once", "__init__") and not name.startswith("__")]


@pytest.mark.parametrize("way", WAYS)
def test_work_is_stopped_when_the_time_is_up_and_what_was_done_is_kept(way: str):
    jax.block_until_ready(jnp.arange(1e6)[0] + X + 1)  # compiled before the time runs
    counter = Counter()
    began = time.perf_counter()
    with pytest.raises(OverBudget, match="the budget of 1 s is used up") as raised, jaxmagic.nojit(budget=1) as run:
        getattr(counter, way)()
    assert time.perf_counter() - began < 10
    assert counter.n > 0
    assert run.report is not None
    assert run.report.state == "interrupted"
    assert run.report.nojit is not None
    assert run.report.nojit.stopped in str(raised.value)
    assert ("of a scan" in str(raised.value)) == way.startswith("scan")


def test_nothing_is_stopped_before_its_time_and_the_alarm_is_taken_back():
    with jaxmagic.nojit(budget=60) as run:
        (alarm,) = (each for each in threading.enumerate() if isinstance(each, threading.Timer))
    alarm.join(5)
    assert not alarm.is_alive()
    assert run.report is not None
    assert run.report.state == "finished"


def test_an_alarm_after_the_end_stops_nothing():
    with jaxmagic.nojit(budget=0.05):
        pass
    deadline = time.perf_counter() + 0.2
    while time.perf_counter() < deadline:
        sum(range(10))
