"""Masks, slices and assignments that a traced program can't take as written."""

import jax.numpy as jnp
import pytest
from failing_cells import failed

IMPORTS = "import jax, jax.numpy as jnp\n"

PROGRAMS = [
    (
        "boolean-mask",
        "out = jax.jit(lambda x: x[x > 0])(jnp.array([1.0, -1.0]))",
        "x[x > 0]",
        "jnp.where(x > 0, x, 0)",
        [1, 0],
    ),
    (
        "boolean-mask",
        "out = jax.jit(lambda x: x.at[x < 0].set(0))(jnp.array([1.0, -1.0]))",
        "x.at[x < 0].set(0)",
        "jnp.where(x < 0, 0, x)",
        [1, 0],
    ),
    (
        "boolean-mask",
        "out = jax.jit(lambda x, m: x.at[m].add(2.0))(jnp.ones(2), jnp.array([True, False]))",
        "x.at[m].add(2.0)",
        "jnp.where(m, x + 2.0, x)",
        [3, 1],
    ),
    (
        "slice-with-traced-bounds",
        "out = jax.jit(lambda x, i: x[i:i + 2])(jnp.arange(9), 3)",
        "x[i:i + 2]",
        "jax.lax.dynamic_slice_in_dim(x, i, 2)",
        [3, 4],
    ),
    (
        "slice-with-traced-bounds",
        "out = jax.jit(lambda x, i: x[i - 2:i])(jnp.arange(9), 3)",
        "x[i - 2:i]",
        "jax.lax.dynamic_slice_in_dim(x, i - 2, 2)",
        [1, 2],
    ),
    (
        "slice-with-traced-bounds",
        "out = jax.vmap(lambda x, i: x[i:i + 2, :, i - 1:i].sum())(jnp.ones((2, 4, 3, 4)), jnp.array([1, 2]))",
        "x[i:i + 2, :, i - 1:i]",
        "jax.lax.dynamic_slice(x, (i, 0, i - 1), (2, 3, 1))",
        [6, 6],
    ),
    (
        "boolean-mask",
        "def loss(w, y):\n    m = ~jnp.isnan(y)\n    return jnp.mean((w[m] - y[m]) ** 2)\n"
        "out = jax.jit(jax.grad(loss))(jnp.ones(2), jnp.array([jnp.nan, 3.0]))",
        "w[m]",
        "jnp.mean((jnp.where(m, w, 0) - jnp.where(m, y, 0)) ** 2, where=m)",
        [0, -4],
    ),
    (
        "boolean-mask",
        "out = jax.jit(lambda x: x[x > 0].mean())(jnp.array([1.0, -1.0, 3.0]))",
        "x[x > 0]",
        "x.mean(where=x > 0)",
        2,
    ),
    (
        "boolean-mask",
        "out = jax.jit(lambda x, y: x.at[y > 0].add(y[y > 0]))(jnp.ones(2), jnp.array([2.0, -1.0]))",
        "y[y > 0]",
        "jnp.where(y > 0, x + y, x)",
        [3, 1],
    ),
    ("item-assignment", "x = jnp.arange(3)\nx[0] = 7\nout = x", "x[0]", "x = x.at[0].set(7)", [7, 1, 2]),
    ("item-assignment", "x = jnp.arange(3)\nx[1:] += 7\nout = x", "x[1:]", "x = x.at[1:].add(7)", [0, 8, 9]),
]


@pytest.mark.parametrize(("rule", "body", "marked", "fix", "result"), PROGRAMS)
def test_indexing_is_rewritten_with_a_fixed_shape(rule: str, body: str, marked: str, fix: str, result: object):
    program = failed(IMPORTS + body)
    assert program.finding.rule == rule
    assert program.text in (marked, body.splitlines()[-2] if rule == "item-assignment" else marked)
    assert program.finding.fix == fix
    assert jnp.allclose(program.fixed().namespace["out"], jnp.asarray(result))


def test_the_mask_and_the_array_are_named_with_their_shapes():
    program = failed(IMPORTS + "jax.jit(lambda x: x[x > 0])(jnp.ones(4))")
    assert program.operands == {"x": "f32[4]", "x > 0": "bool[4]"}
    assert "x > 0: bool[4]" in program.evidence


def test_a_slice_whose_length_is_a_setting_gets_a_static_argument():
    program = failed(IMPORTS + "def head(x, n):\n    return x[:n]", "f = jax.jit(head)", "out = f(jnp.arange(9), 3)")
    assert program.finding.fix == "jax.jit(head, static_argnames='n')"
    assert program.fixed().namespace["out"].shape == (3,)


def test_a_slice_of_varying_length_gets_no_fix_but_the_advice_to_mask():
    program = failed(IMPORTS + "jax.jit(lambda x, i: x[:i])(jnp.arange(9), jnp.argmax(jnp.arange(3)))")
    assert program.finding.rule == "slice-with-traced-bounds"
    assert not program.finding.fix
    assert "Mask the array" in program.finding.explanation


def test_the_moved_window_of_a_dynamic_slice_is_said():
    program = failed(IMPORTS + PROGRAMS[3][1])
    assert "moved back" in program.finding.explanation


@pytest.mark.parametrize(("statement", "result"), [("x[x < 0] = 0", [1, 0]), ("x[x < 0] *= -2", [1, 2])])
def test_an_assignment_by_a_traced_mask_becomes_a_choice(statement: str, result: list[int]):
    program = failed(IMPORTS + f"def f(x):\n    {statement}\n    return x", "out = jax.jit(f)(jnp.array([1, -1]))")
    assert program.finding.title == "`x` is a JAX array, which can't be changed in place"
    assert program.finding.fix.startswith("x = jnp.where(x < 0, ")
    assert program.fixed().namespace["out"].tolist() == result
