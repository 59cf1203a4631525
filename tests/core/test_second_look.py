"""Functions compiled before are looked at again; nothing is compiled or traced in their place on our account."""

import random

import numpy as np
import pytest

from tests.core.captures import STEP, Notebook, events


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


def test_a_function_compiled_before_is_shown_and_its_caches_are_as_they_were(notebook: Notebook):
    notebook.run("""
        traced = []
        @jax.jit
        def f(x):
            traced.append(x.shape)
            return x * 2
        x = jnp.ones(3)
        f(x)
    """)
    size = notebook.names["f"]._cache_size()
    trace = notebook.trace("f(x)").only("f")
    assert (trace.cached, trace.calls) == (True, 1)
    assert trace.trace_s > 0
    assert trace.program is not None
    assert notebook.names["f"]._cache_size() == size
    with events() as seen:
        notebook.run("f(x)\nf(x)")
    assert seen == []
    assert len(notebook.names["traced"]) == 2


def test_without_retrace_a_function_compiled_before_is_not_run_again(notebook: Notebook):
    notebook.run("traced = []\nf = jax.jit(lambda x: (traced.append(1), x * 2)[1])\nx = jnp.ones(3)\nf(x)")
    trace = notebook.trace("f(x)", retrace=False).only("<lambda>")
    assert trace.cached
    assert trace.program is not None
    assert notebook.names["traced"] == [1]


def test_looking_again_prints_nothing_and_moves_no_random_state(notebook: Notebook, capsys: pytest.CaptureFixture[str]):
    notebook.run("""
        import random
        import numpy as np
        @jax.jit
        def f(x):
            print("tracing")
            return x * random.random() * np.random.rand()
        x = jnp.ones(3)
        f(x)
    """)
    capsys.readouterr()
    random.seed(1)
    np.random.seed(1)
    seen = notebook.trace("f(x)\nprint('done')")
    after = (random.random(), np.random.rand())
    random.seed(1)
    np.random.seed(1)
    assert after == (random.random(), np.random.rand())
    assert capsys.readouterr().out == "done\n"
    assert any("side effects" in line for line in seen.limits.lines())


def test_looking_again_finds_what_is_not_what_the_code_would_give_now(notebook: Notebook):
    notebook.run("rate = 0.1\ntable = jnp.arange(3.0)\nf = jax.jit(lambda x: x * rate + table)\nf(jnp.ones(3))")
    seen = notebook.trace("rate = 0.5\ntable = jnp.ones(3)\nf(jnp.ones(3))")
    (stale,) = seen.stale
    assert stale.name == "<lambda>"
    drifts = {(drift.what, drift.before, drift.after) for drift in stale.drifts}
    assert ("literal", "0.1", "0.5") in drifts
    assert any(before == "[0., 1., 2.]" for _, before, _ in drifts)
    assert next(drift.span for drift in stale.drifts if drift.what == "literal") is not None


def test_looking_again_at_code_that_now_fails_leaves_the_cell_alone(notebook: Notebook):
    notebook.run("table = [1.0]\nf = jax.jit(lambda x: x * table[0])\nx = jnp.ones(3)\nf(x)")
    seen = notebook.trace("table.clear()\ny = f(x)")
    assert seen.error is None
    assert "IndexError" in seen.stale[0].text


def test_the_body_of_an_eager_loop_is_looked_at_again(notebook: Notebook):
    notebook.run("""
        shapes = []
        def body(carry, x):
            shapes.append(x.shape)
            return carry + x, carry
        xs = jnp.ones(4)
        jax.lax.scan(body, 0.0, xs)
    """)
    before = len(notebook.names["shapes"])
    notebook.trace("jax.lax.scan(body, 0.0, xs)")
    assert len(notebook.names["shapes"]) == before + 1


def test_nothing_is_compiled_that_a_plain_run_does_not_compile(notebook: Notebook):
    cell = """
        y = step(params, x)
        jax.grad(lambda p: step(p, x)["loss"])(params)
        jax.vmap(lambda x: step(params, x))(jnp.ones((3, 8)))
        jax.lax.scan(body, 0.0, x)
        [x + 1 for _ in range(10)]
    """
    notebook.run(STEP)
    notebook.run("def body(carry, x):\n    return carry + x, carry\n" + "")
    notebook.run(cell)
    with events() as plain:
        notebook.run(cell)
    with events() as first:
        notebook.trace(cell)
    with events() as second:
        notebook.trace(cell)
    compilations = "backend_compile_duration"
    assert first.count(compilations) == second.count(compilations) == plain.count(compilations)


def test_the_first_run_compiles_as_often_as_without_a_capture(notebook: Notebook):
    cell = "jax.jit(lambda x: jnp.sin(x) @ jnp.cos(x))(jnp.ones(7))"
    other = cell.replace("7", "11")
    notebook.run("jnp.ones(7), jnp.ones(11)")  # other tests may have compiled either
    with events() as plain:
        notebook.run(cell)
    with events() as seen:
        notebook.trace(other)
    assert seen.count("backend_compile_duration") <= plain.count("backend_compile_duration")
