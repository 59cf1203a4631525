"""Arrays that are not what their annotations say."""

import pytest
from failing_cells import failed

IMPORTS = """
import jax, jax.numpy as jnp, numpy as np, equinox as eqx
from jaxtyping import Array, Float, Int, jaxtyped
from beartype import beartype
typed = jaxtyped(typechecker=beartype)
x = jnp.ones((4, 3))
"""

FIXED = [
    (
        "@typed\ndef f(x: Float[Array, 'b n']):\n    return x",
        "k = jnp.arange(6).reshape(2, 3)\nout = f(k)",
        "f(k.astype(float))",
        "`k` is i32[2,3], and annotated `Float[Array, 'b n']`: its dtype is no Float",
    ),
    (
        "class Model:\n    @typed\n    def loss(self, x: Float[Array, 'b n'], labels: Int[Array, 'b']):\n"
        "        return x[jnp.arange(len(x)), labels].sum()",
        "out = jax.jit(lambda x, y: Model().loss(x, y))(x, jnp.ones(4))",
        "Model().loss(x, y.astype(int))",
        "`y` is f32[4], and annotated `Int[Array, 'b']`",
    ),
    (
        "@typed\ndef f(x: Float[Array, 'n']) -> Float[Array, '']:\n    return x.sum()",
        "out = f(x)",
        "jax.vmap(f)(x)",
        "it has 2 axes, and not 1",
    ),
    ("@typed\ndef f(x: Float[Array, '3']):\n    return x", "out = f(np.ones(3))", "jnp.asarray(np.ones(3))", "NumPy"),
    ("@typed\ndef f(x: Float[Array, '']):\n    return x", "out = f(1.5)", "f(jnp.asarray(1.5))", "it is no array"),
    (
        "@typed\ndef f(x: Float[Array, 'n'], n: int):\n    return x * n",
        "out = jax.jit(f)(x[0], 2)",
        "jax.jit(f, static_argnames='n')",
        "annotated `int`: a traced value is an array",
    ),
]


@pytest.mark.parametrize(("before", "call", "fix", "said"), FIXED)
def test_what_an_annotation_refuses_is_made_to_fit(before: str, call: str, fix: str, said: str):
    program = failed(IMPORTS + before, call)
    assert program.finding.rule == "type-annotation"
    assert said in program.finding.title
    assert fix in program.finding.fix
    assert "out" in program.fixed().namespace


TOLD = [
    (
        "@typed\ndef f(x: Float[Array, 'b n'], w: Float[Array, 'n m']):\n    return x @ w\nf(x, jnp.ones((2, 5)))",
        "`n` is 2 here, and 3 before",
        "jnp.ones((2, 5))",
    ),
    (
        "@typed\nclass Square(eqx.Module):\n    w: Float[Array, 'n n']\nSquare(x)",
        "`n` is 3 here, and 4 before",
        "x",
    ),
    (
        "@typed\ndef f(x: Float[Array, 'b n']) -> Float[Array, 'b']:\n    return 2 * x\njax.grad(lambda x: f(x)[0])(x)",
        "what `f` returns is f32[4,3], and annotated `Float[Array, 'b']`: it has 2 axes, and not 1",
        "2 * x",
    ),
]


@pytest.mark.parametrize(("cell", "said", "marked"), TOLD)
def test_the_axis_that_does_not_agree_is_named(cell: str, said: str, marked: str):
    program = failed(IMPORTS, cell)
    assert program.finding.rule == "type-annotation"
    assert said in program.finding.title
    assert program.marked == marked
    assert program.finding.fix == ""
