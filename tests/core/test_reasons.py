"""Why a function was traced: named by argument and option, told apart from what only looks like it."""

import jax
import pytest

from jaxmagic.core.capture.capture import Capture
from jaxmagic.core.limits import Limits
from jaxmagic.records import Reason
from tests.core.captures import Notebook, is_user


@pytest.fixture
def notebook() -> Notebook:
    notebook = Notebook()
    notebook.run("""
        import functools
        import numpy as np
        @functools.partial(jax.jit, static_argnames=("n", "mode"))
        def f(params, x, n=1, mode="a"):
            return {key: value * n for key, value in params.items()}, x
        params, x = {"w1": jnp.ones((3, 4)), "w2": jnp.ones(4)}, jnp.ones(4)
    """)
    return notebook


def why(notebook: Notebook, call: str, name: str = "f") -> Reason:
    """The reason for the last trace in a cell."""
    return notebook.trace(call).of(name).traces[-1].reason


CHANGES = {
    "shape": ("f(params, jnp.ones(8))", "shape of x: f32[4] → f32[8]"),
    "a leaf's shape": ("f({**params, 'w2': jnp.ones(9)}, x)", "shape of params['w2']: f32[4] → f32[9]"),
    "dtype": ("f(params, jnp.ones(4, jnp.int32))", "dtype of x: f32[4] → i32[4]"),
    "weak type": ("f(params, jnp.full((4,), 1.0))", "weak type of x: f32[4] (strong) → f32[4]* (weak)"),
    "static value": ("f(params, x, n=2)", "static value of n: absent → 2"),
    "structure": ("f({**params, 'w3': x}, x)", "structure of arguments: without params['w3'] → with params['w3']"),
    "spelling": ("f(params, x=x)", "spelling of x: by position → by keyword"),
    "option": (
        "with jax.default_matmul_precision('highest'): f(params, x)",
        "option jax_default_matmul_precision: None → 'highest'",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("observed", [True, False], ids=["traced in a capture before", "traced without a capture"])
def test_a_change_is_named_with_before_and_after(notebook: Notebook, what: str, observed: bool):
    (notebook.trace if observed else notebook.run)("f(params, x)")
    call, text = CHANGES[what]
    reason = why(notebook, call)
    if what == "option" and not observed and jax.__version_info__ < (0, 9):
        # JAX 0.8 tells neither the names of what an earlier trace depended on, nor their former values.
        assert "part of the trace context" in str(reason)
    else:
        assert (reason.kind, str(reason)) == ("changed", text)


def test_a_static_value_of_before_is_shown(notebook: Notebook):
    reason = why(notebook, "f(params, x, n=2, mode='a')\nf(params, x, n=2, mode='b')")
    assert str(reason) == "static value of mode: 'a' → 'b'"


def test_the_nearest_earlier_trace_is_compared(notebook: Notebook):
    reason = why(notebook, "f(params, jnp.ones(1))\nf(params, x)\nf(params, jnp.ones(7), n=5)\nf(params, x, n=5)")
    assert str(reason) == "shape of x: f32[7] → f32[4]" or str(reason) == "static value of n: absent → 5"
    assert len(reason.changes) == 1


def test_a_static_object_shows_its_type_and_runs_none_of_its_code(notebook: Notebook):
    trace = notebook.trace("""
        class Config:
            def __repr__(self):
                raise RuntimeError
        jax.jit(lambda x, config: x, static_argnums=1)(x, Config())
    """).only("<lambda>")
    assert trace.inputs[1].static == "<Config>"


def test_two_captures_at_once_give_the_same_reason(notebook: Notebook):
    notebook.names["inner"] = inner = Capture(Limits(), is_user=is_user)
    seen = notebook.trace("""
        inner.start()
        jax.jit(lambda x: x - 3)(x)
        inner.stop()
    """)
    assert seen.only("<lambda>").reason.kind == "first call"
    assert [str(entry.reason) for entry in inner.entries()] == ["first call"]


def test_of_traces_on_several_threads_one_is_the_first(notebook: Notebook):
    seen = notebook.trace("""
        import threading
        together = threading.Barrier(4)
        @jax.jit
        def shared(x):
            if not together.broken:
                together.wait(20)
            return x * 2
        threads = [threading.Thread(target=shared, args=(np.ones(n),)) for n in range(2, 6)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    """)
    kinds = [trace.reason.kind for trace in seen.of("shared").traces]
    assert sorted(kinds) == ["changed"] * 3 + ["first call"]


def test_another_object_as_static_argument_is_no_cleared_cache(notebook: Notebook):
    notebook.run("""
        class Model:
            @functools.partial(jax.jit, static_argnums=0)
            def __call__(self, x):
                return x * 2
    """)
    seen = notebook.trace("Model()(x)\nModel()(x)")
    reason = seen.of("Model.__call__").traces[-1].reason
    assert reason.kind == "changed"
    assert str(reason).startswith("static value of self: <Model> → another <Model>")


def test_a_function_made_in_a_loop_is_a_new_function_object(notebook: Notebook):
    seen = notebook.trace("for i in range(3):\n    jax.jit(lambda x: x + i)(x)")
    assert [trace.reason.kind for trace in seen.of("<lambda>").traces] == ["first call"] + ["new function object"] * 2


def test_a_cell_that_was_run_again_is_told_from_a_loop(notebook: Notebook):
    cell = "@jax.jit\ndef g(x):\n    return x + 1\ng(x)"
    assert why(notebook, cell, "g").kind == "first call"
    assert why(notebook, cell, "g").kind == "cell run again"


def test_a_cell_that_was_edited_makes_another_function(notebook: Notebook):
    notebook.trace("@jax.jit\ndef g(x):\n    return x + 1\ng(x)")
    assert why(notebook, "@jax.jit\ndef g(x):\n    return x + 2\ng(x)", "g").kind == "first call"


def test_a_cell_run_again_below_new_lines_is_still_the_same(notebook: Notebook):
    cell = "@jax.jit\ndef g(x):\n    return x + 1\ng(x)"
    notebook.trace(cell)
    assert why(notebook, "# a comment\n\n" + cell, "g").kind == "cell run again"


def test_two_definitions_that_read_the_same_are_two(notebook: Notebook):
    seen = notebook.trace("a = jax.jit(lambda x: x + 1)\nb = jax.jit(lambda x: x + 1)\na(x), b(x)")
    assert [each.traces[0].reason.kind for each in seen.functions] == ["first call", "first call"]


def test_a_cleared_cache_is_named(notebook: Notebook):
    notebook.trace("f(params, x)")
    assert why(notebook, "f.clear_cache()\nf(params, x)").kind == "cache cleared"


def test_a_call_served_from_the_cache_gives_no_reason_to_trace(notebook: Notebook):
    notebook.run("f(params, x)")
    trace = notebook.trace("f(params, x)").only("f")
    assert (trace.reason.kind, trace.cached) == ("unknown", True)
    assert str(trace.reason) == "traced before this recording began"


def test_a_second_jit_of_the_same_function_differs_in_its_options(notebook: Notebook):
    notebook.run("def g(x):\n    return x * 2\n")
    seen = notebook.trace("jax.jit(g)(x)\njax.jit(g, donate_argnums=0)(x)")
    reason = seen.of("g").traces[-1].reason
    assert "option donate_argnums: () → (0,)" in str(reason)


def test_another_type_of_container_is_a_change_of_structure(notebook: Notebook):
    reason = why(notebook, "g = jax.jit(lambda pair: pair[0])\ng((x, x))\ng([x, x])", "<lambda>")
    assert str(reason) == "structure of arguments: (*, *) → [*, *]"


def test_other_static_data_in_a_node_is_a_change_of_structure_and_never_printed(notebook: Notebook):
    reason = why(
        notebook,
        """
        @functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["mode"])
        class Layer:
            def __init__(self, w, mode):
                self.w, self.mode = w, mode
        class Mode:
            def __repr__(self):
                raise RuntimeError
        g = jax.jit(lambda layer: layer.w)
        g(Layer(x, Mode()))
        g(Layer(x, Mode()))
        """,
        "<lambda>",
    )
    assert str(reason) == "structure of arguments: Layer(*) → the same with other static data in it"
