"""Settings that are traced: axes, lengths and shapes, and plain numbers that jax.numpy made into tracers."""

import jax.numpy as jnp
import pytest
from failing_cells import failed

IMPORTS = "import jax, jax.numpy as jnp\nfrom functools import partial\n"

STATIC = [
    (
        "@jax.jit\ndef lowest(x, axis):\n    return x.min(axis)\nout = lowest(jnp.ones((2, 3)), 0)",
        "x.min(axis)",
        "@jax.jit(static_argnames='axis')",
    ),
    (
        "out = jax.jit(lambda n: jnp.zeros((n, 2)))(3)",
        "jnp.zeros((n, 2))",
        "jax.jit(lambda n: jnp.zeros((n, 2)), static_argnames='n')",
    ),
    ("out = jax.jit(lambda x, n: x.reshape(n, -1))(jnp.ones(4), 2)", "x.reshape(n, -1)", None),
    ("out = jax.jit(lambda x, n: jnp.repeat(x, n))(jnp.ones(4), 2)", "jnp.repeat(x, n)", None),
    ("out = jax.jit(lambda x, n: jnp.tile(x, n))(jnp.ones(4), 2)", "jnp.tile(x, n)", None),
    ("out = jax.jit(lambda n: jax.nn.one_hot(1, n))(3)", "jax.nn.one_hot(1, n)", None),
    (
        "out = jax.jit(lambda k, n: jax.random.normal(k, (n,)))(jax.random.key(0), 3)",
        "jax.random.normal(k, (n,))",
        None,
    ),
    ("out = jax.jit(lambda k, n: jax.random.split(k, n))(jax.random.key(0), 3)", "jax.random.split(k, n)", None),
    (
        "@partial(jax.jit, static_argnames='mode')\ndef f(x, n, mode):\n"
        "    return jnp.linspace(0, x, n)\nout = f(1.0, 3, 'a')",
        "jnp.linspace(0, x, n)",
        "@partial(jax.jit, static_argnames=('mode', 'n'))",
    ),
]


@pytest.mark.parametrize(("body", "marked", "fix"), STATIC)
def test_a_traced_setting_is_made_static_at_the_jit_that_traces_it(body: str, marked: str, fix: str | None):
    program = failed(IMPORTS + body)
    assert program.finding.rule == "argument-must-be-static"
    assert program.text == marked
    assert fix is None or program.finding.fix == fix
    assert "out" in program.fixed().namespace


def test_the_decorator_is_found_on_a_method_of_another_cell():
    program = failed(
        IMPORTS + "class Model:\n    @partial(jax.jit, static_argnums=0)\n    def pool(self, x, axis):\n"
        "        return self.go(x, axis)\n"
        "    def go(self, x, axis):\n        return jnp.max(x, axis=axis)",
        "out = Model().pool(jnp.ones((2, 3)), 1)",
    )
    assert program.text == "jnp.max(x, axis=axis)"
    assert program.finding.fix == "@partial(jax.jit, static_argnums=(0, 2))"
    assert program.fixed().namespace["out"].shape == (2,)


CONSTANTS = [
    (
        "@partial(jax.jit, static_argnums=0)\ndef head(n, x):\n"
        "    k = jnp.minimum(n, x.shape[0])\n    return jnp.arange(k)\n"
        "out = head(3, jnp.arange(10))",
        "jnp.minimum(n, x.shape[0])",
        "min(n, x.shape[0])",
        3,
    ),
    (
        "@jax.jit\ndef flat(x):\n    return x.reshape(jnp.maximum(x.shape[0], 4))\nout = flat(jnp.ones((2, 2)))",
        "jnp.maximum(x.shape[0], 4)",
        "max(x.shape[0], 4)",
        4,
    ),
]


@pytest.mark.parametrize(("body", "made", "fix", "length"), CONSTANTS)
def test_jax_numpy_on_plain_numbers_is_named_as_what_made_the_tracer(body: str, made: str, fix: str, length: int):
    program = failed(IMPORTS + body)
    assert program.finding.rule == "constant-became-traced"
    assert program.finding.fix == fix
    assert f"`{made}`" in program.finding.explanation
    assert program.fixed().namespace["out"].shape == (length,)


@pytest.mark.parametrize(
    ("body", "fix"),
    [
        ("out = jax.jit(lambda x: jnp.nonzero(x))(jnp.ones(4))", "jnp.nonzero(x, size=4)"),
        ("out = jax.jit(lambda x: jnp.where(x > 0))(jnp.ones((2, 3)))", "jnp.where(x > 0, size=6)"),
        ("out = jax.jit(lambda x: jnp.unique(x))(jnp.ones(4))", "jnp.unique(x, size=4)"),
        ("out = jax.jit(lambda x: jnp.argwhere(x))(jnp.ones(4))", "jnp.argwhere(x, size=4)"),
    ],
)
def test_a_result_of_unknown_length_gets_a_size(body: str, fix: str):
    program = failed(IMPORTS + body)
    assert program.finding.rule == "data-dependent-shape"
    assert program.finding.fix == fix
    assert "out" in program.fixed().namespace


def test_bincount_is_told_that_it_needs_a_length():
    program = failed(IMPORTS + "jax.jit(lambda x: jnp.bincount(x))(jnp.arange(4))")
    assert program.finding.rule == "data-dependent-shape"
    assert program.finding.fix == "jnp.bincount(x, length=n)"


def test_each_new_static_value_is_said_to_compile():
    program = failed(IMPORTS + STATIC[0][0])
    assert "compiles once" in program.finding.explanation
    assert program.operands == {"x": "f32[2,3]", "axis": "i32[]*"}
    assert jnp.asarray(1).weak_type
