"""What a capture puts into JAX is taken off again, and what fails of it fails alone."""

import threading

import jax
import jax.numpy as jnp
import pytest

from jaxmagic.core import jax_internals
from jaxmagic.core.capture.capture import Capture
from jaxmagic.core.limits import Limits
from tests.core.captures import STEP, Notebook, is_user


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


def test_calls_are_counted_while_and_after_nans_are_checked(notebook: Notebook):
    notebook.run(STEP)
    seen = notebook.trace("""
        for _ in range(5): step(params, x)
        with jax.debug_nans(True):
            for _ in range(5): step(params, x)
        for _ in range(5): step(params, x)
    """)
    assert seen.of("step").calls == 15


def test_the_check_for_nans_works_under_a_capture(notebook: Notebook):
    notebook.run("f = jax.jit(lambda x: x / x)\nf(jnp.ones(3))")
    seen = notebook.trace("with jax.debug_nans(True):\n    f(jnp.ones(3))\n    f(jnp.zeros(3))")
    assert isinstance(seen.error, FloatingPointError)


def test_a_function_whose_run_fails_is_still_a_jitted_one_with_its_seconds(notebook: Notebook):
    seen = notebook.trace("""
        def negative(x):
            return jnp.log(x)
        with jax.debug_nans(True):
            jax.jit(negative)(-jnp.ones(3))
    """)
    assert isinstance(seen.error, FloatingPointError)
    assert seen.only("negative").compile_s > 0


def test_an_object_that_raises_when_asked_for_its_class_costs_no_entry(notebook: Notebook):
    seen = notebook.trace("""
        class Proxy:
            @property
            def __class__(self):
                raise RuntimeError
        proxy = Proxy()
        jax.jit(lambda x: (proxy, x * 2)[1])(jnp.ones(3))
    """)
    assert (seen.names(), seen.limits.lines()) == (["<lambda>"], ())


def test_after_a_capture_every_piece_of_jax_is_its_own_again(notebook: Notebook):
    before = {key: getattr(piece.owner, piece.name) for key, piece in jax_internals.PIECES.items()}
    notebook.run(STEP)
    notebook.trace("step(params, x)\nraise ValueError")
    assert {key: getattr(piece.owner, piece.name) for key, piece in jax_internals.PIECES.items()} == before
    state = jax_internals.PIECES["post_hook"]
    assert getattr(state.owner, state.name).get_global() is None


@pytest.mark.parametrize("first_out", ["inner", "outer"])
def test_captures_may_overlap_and_stop_in_any_order(notebook: Notebook, first_out: str):
    before = {key: getattr(piece.owner, piece.name) for key, piece in jax_internals.PIECES.items()}
    notebook.run(STEP)
    notebook.run("step(params, x)")
    outer, inner = (Capture(Limits(), is_user=is_user) for _ in range(2))
    outer.start()
    inner.start()
    notebook.run("step(params, x)\nstep(params, x)")
    order = (inner, outer) if first_out == "inner" else (outer, inner)
    order[0].stop()
    notebook.run("step(params, x)")
    order[1].stop()
    counts = [[each.calls for each in capture.compiled(is_user)] for capture in order]
    assert counts == [[2], [3]]
    assert {key: getattr(piece.owner, piece.name) for key, piece in jax_internals.PIECES.items()} == before


OURS = (
    "tracing.Tracing._enter",
    "tracing.Tracing._begun",
    "tracing.Tracing._answered",
    "tracing.Tracing._look",
    "execution.Execution._entry_of",
    "execution.Execution._ran",
    "execution.Execution._called_one_of",
    "registrar.Registrar.traced",
    "derived.Derived.entry",
    "derived.Derived.ahead_of_time",
    "seconds.Stopwatch._to",
    "registrar.signature_of",
)


@pytest.mark.parametrize("ours", OURS)
def test_a_part_of_ours_that_fails_leaves_the_result_alone_and_a_line_in_the_limits(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, ours: str
):
    notebook.run(STEP)
    notebook.run("old = jax.jit(lambda x: x + 1).lower(x).compile()")
    monkeypatch.setattr(f"jaxmagic.core.capture.{ours}", _fails)
    seen = notebook.trace("""
        for _ in range(3): y = step(params, jnp.ones(8))["loss"]
        z = jax.lax.scan(lambda c, x: (c + x, None), 0.0, old(x))[0]
    """)
    assert seen.error is None
    assert (float(notebook.names["y"]), float(notebook.names["z"])) == (256.0, 16.0)
    assert any("not observed (ZeroDivisionError" in line for line in seen.limits.lines())


def _fails(*_: object, **__: object) -> None:
    raise ZeroDivisionError


def test_a_switch_of_the_nan_check_in_the_cell_stays_as_the_cell_left_it(notebook: Notebook):
    place = jax_internals.PIECES["post_hook"]
    notebook.run(STEP)
    cell = "step(params, x)\njax.config.update('jax_debug_nans', True)\nstep(params, x)\nstep(params, x)"
    try:
        assert notebook.trace(cell).of("step").calls == 3
        assert getattr(place.owner, place.name).get_global().__module__.startswith("jax.")
    finally:
        jax.config.update("jax_debug_nans", False)
    assert getattr(place.owner, place.name).get_global() is None


def test_a_piece_that_jax_no_longer_has_costs_only_what_it_showed(notebook: Notebook, monkeypatch: pytest.MonkeyPatch):
    piece = jax_internals.PIECES["call_impl"]
    monkeypatch.setitem(jax_internals.PIECES, "call_impl", piece._replace(name="_gone"))
    notebook.run(STEP)
    seen = notebook.trace("step(params, x)")
    (trace,) = seen.functions[0].traces
    assert trace.cost is None
    assert trace.program is not None
    assert any(piece.lost in line for line in seen.limits.lines())


def test_leak_checking_accuses_nobody(notebook: Notebook):
    notebook.run(STEP)
    seen = notebook.trace("""
        @jax.jit
        def outer(params, x):
            @jax.jit
            def closed_over(y):
                return y * x
            return jax.lax.scan(lambda c, y: (c + closed_over(y).sum(), y), step(params, x)["loss"], x)
        with jax.checking_leaks():
            outer(params, x)
            jax.grad(lambda p: outer(p, x)[0])(params)
    """)
    assert seen.error is None
    assert "outer" in seen.names()


def test_an_interrupt_while_tracing_takes_everything_off(notebook: Notebook):
    notebook.run("def f(x):\n    raise KeyboardInterrupt\n")
    capture = Capture(Limits(), is_user=is_user)
    capture.start()
    with pytest.raises(KeyboardInterrupt):
        notebook.run("jax.jit(f)(jnp.ones(3))")
    capture.stop()
    assert threading.active_count() >= 1
    assert jax.jit(lambda x: x + 1)(jnp.ones(3)).sum() == 6


def test_a_lambda_jitted_in_a_long_loop_is_listed_up_to_a_limit(notebook: Notebook):
    seen = notebook.trace("x = jnp.ones(3)\nfor i in range(210): jax.eval_shape(jax.jit(lambda x: x), x)")
    assert max(len(each.traces) for each in seen.functions) == 200
    assert any("beyond the first 200" in line for line in seen.limits.lines())
