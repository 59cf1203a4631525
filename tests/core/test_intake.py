"""Values that come while others are being sorted in."""

import sys
import threading

import jax
import jax.numpy as jnp

from jaxmagic.core.limits import Limits
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.taps.taps import TapOptions, Taps


def test_no_value_is_lost_while_a_live_view_sorts_in_what_came():
    @jax.jit
    def count(n):
        def body(i, total):
            new = total + 1.0
            return new

        return jax.lax.fori_loop(0, n, body, jnp.zeros(100))

    taps = Taps(["new"], TapOptions(), Policy(), Limits())
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            taps.flush()

    looking = threading.Thread(target=look)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # seconds: threads take turns between any two steps
    taps.start()
    looking.start()
    try:
        jax.block_until_ready(count(30_000))
    finally:
        done.set()
        looking.join()
        sys.setswitchinterval(interval)
        taps.stop()
    (series,) = taps.series()
    assert series.total == 30_000
