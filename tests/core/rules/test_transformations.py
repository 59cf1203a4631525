"""vmap, grad and loops under grad."""

import jax.numpy as jnp
import pytest
from failing_cells import failed

IMPORTS = "import jax, jax.numpy as jnp\n"

AXES = [
    (
        "out = jax.vmap(lambda a, b: a * b)(jnp.ones(3), 2.0)",
        "jax.vmap(lambda a, b: a * b, in_axes=(0, None))(jnp.ones(3), 2.0)",
        "`2.0`",
    ),
    (
        "p = {'w': jnp.ones((2, 3)), 'b': jnp.ones(2)}\nxs = jnp.ones((7, 3))\n"
        "out = jax.vmap(lambda p, x: p['w'] @ x + p['b'])(p, xs)",
        "jax.vmap(lambda p, x: p['w'] @ x + p['b'], in_axes=(None, 0))(p, xs)",
        "`x` has 7",
    ),
    (
        "w, xs = jnp.ones((2, 3)), jnp.ones((7, 3))\nout = jax.vmap(lambda w, x: w @ x, in_axes=(0,))(w, xs)",
        "jax.vmap(lambda w, x: w @ x, in_axes=(None, 0))(w, xs)",
        "1 entries",
    ),
]


@pytest.mark.parametrize(("body", "fix", "said"), AXES)
def test_arguments_that_cant_be_mapped_are_shared(body: str, fix: str, said: str):
    program = failed(IMPORTS + body)
    assert program.finding.rule == "in-axes"
    assert said in program.finding.title
    assert program.finding.fix == fix
    assert program.fixed().namespace["out"].shape[0] in (3, 7)


def test_in_axes_of_another_structure_are_shown():
    program = failed(IMPORTS + "jax.vmap(lambda p: p['w'], in_axes=({'v': 0},))({'w': jnp.ones(3)})")
    assert program.finding.rule == "in-axes"
    assert "not a prefix" in program.finding.title


GRADIENTS = [
    ("grad-output", "out = jax.grad(lambda w: w ** 2)(jnp.ones(3))", "(w ** 2).sum()"),
    ("grad-output", "def f(w):\n    y = w * 2\n    return y\nout = jax.value_and_grad(f)(jnp.ones(3))", "y.sum()"),
    (
        "grad-output",
        "out = jax.grad(lambda w: (jnp.sum(w), w))(jnp.ones(3))",
        "jax.grad(lambda w: (jnp.sum(w), w), has_aux=True)",
    ),
    ("grad-aux", "out = jax.grad(lambda w: w.sum(), has_aux=True)(jnp.ones(3))", "jax.grad(lambda w: w.sum())"),
    ("grad-input", "out = jax.grad(lambda w: w * 2.0)(3)", "3.0"),
    ("grad-input", "out = jax.grad(lambda x, n: x * n, argnums=(0, 1))(2.0, 3)", "3.0"),
]


@pytest.mark.parametrize(("rule", "body", "fix"), GRADIENTS)
def test_a_derivative_that_cant_be_taken_is_rewritten(rule: str, body: str, fix: str):
    program = failed(IMPORTS + body)
    assert program.finding.rule == rule
    assert program.finding.fix == fix
    assert "out" in program.fixed().namespace


def test_the_integer_leaf_is_named_by_its_path():
    program = failed(
        IMPORTS + 'params = {"w": jnp.ones(3), "bn": {"count": jnp.array(0)}}',
        'out = jax.grad(lambda p: (p["w"] ** 2).sum())(params)',
    )
    assert "`params['bn']['count']` (i32[]*)" in program.finding.title
    assert "allow_int=True" in program.finding.fix
    assert jnp.allclose(program.fixed().namespace["out"]["w"], 2.0)


def test_an_integer_output_has_no_derivative():
    program = failed(IMPORTS + "jax.grad(lambda w: jnp.int32(w))(3.0)")
    assert program.finding.rule == "grad-output-dtype"


def test_the_while_loop_is_shown_and_not_only_the_grad():
    program = failed(
        IMPORTS + "def newton(x):\n    return jax.lax.while_loop(\n        lambda s: abs(s * s - x) > 1e-6,\n"
        "        lambda s: 0.5 * (s + x / s),\n        x,\n    )",
        "out = jax.grad(newton)(2.0)",
    )
    assert program.finding.rule == "while-reverse-mode"
    assert program.finding.span is not None
    assert program.finding.span.line == 3
    assert program.marked.startswith("jax.lax.while_loop(")
    assert program.finding.fix == "jax.jacfwd(newton)(2.0)"
    assert jnp.allclose(program.fixed().namespace["out"], 0.35355335)


def test_a_trip_count_that_jit_traced_is_made_static():
    program = failed(
        IMPORTS + "def power(x, n):\n    return jax.lax.fori_loop(0, n, lambda i, a: a * x, 1.0)",
        "out = jax.jit(jax.grad(power))(2.0, 3)",
    )
    assert program.finding.fix == "jax.jit(jax.grad(power), static_argnames='n')"
    assert program.fixed().namespace["out"] == 12.0
