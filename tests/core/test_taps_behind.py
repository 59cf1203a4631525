"""What taps leave behind: nothing."""

import gc
import sys
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.core import Tracer

from tests.core.tapped_programs import cumulate, mean_square
from tests.core.tapping import Event, tap


def cached_programs(function: Any) -> int:
    return function._cache_size()


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
    assert (len(traced), cached_programs(function)) == (2, 1)


def test_a_function_first_called_under_taps_is_clean_afterwards():
    @jax.jit
    def function(x):
        d = x + 1
        return d

    tap("d", function, 1.0)
    assert not jax.make_jaxpr(function)(1.0).effects


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


def test_calls_run_no_python_afterwards():
    function = jax.jit(lambda x: x * 2 + 1)
    x = jnp.ones(3)

    def python_calls() -> int:
        calls = []
        function(x)
        sys.setprofile(lambda frame, event, argument: calls.append(frame) if event == "call" else None)
        try:
            for _ in range(300):
                function(x)
        finally:
            sys.setprofile(None)
        return len(calls)

    assert python_calls() == 0
    tap("d", function, x)
    assert python_calls() == 0


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
    before = living_tracers()
    tapped = tap("d", function, jnp.ones(3))
    assert isinstance(tapped.error, TypeError)
    del tapped
    gc.collect()
    assert living_tracers() == before


def living_tracers() -> int:
    # By type, since other tests' objects may answer `isinstance` with an error.
    return sum(issubclass(type(each), Tracer) for each in gc.get_objects())


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
