"""A column against a vector, in compiled code of libraries' models and in plain code; broadcasts that are meant."""

import jax.numpy as jnp
import pytest
from observed_cells import watched

IMPORTS = "import jax, jax.numpy as jnp, equinox as eqx\nfrom flax import nnx\n"

SQUARES = [
    (
        "class Regressor:\n    def __init__(self): self.w = jnp.zeros((3, 1))\n"
        "    def predict(self, x): return x @ self.w\n"
        "    def mse(self, x, y): return jnp.mean(jnp.square(self.predict(x) - y))\n"
        "out = jax.jit(Regressor().mse)(jnp.ones((8, 3)), jnp.ones(8))",
        "self.predict(x) - y",
        "self.predict(x)[..., 0] - y",
    ),
    (
        "m = eqx.nn.MLP(3, 1, 8, 1, key=jax.random.key(0))\n@eqx.filter_jit\ndef loss(m, x, y):\n"
        "    return jnp.mean(jnp.abs(jax.vmap(m)(x) - y))\nout = loss(m, jnp.ones((6, 3)), jnp.ones(6))",
        "jax.vmap(m)(x) - y",
        "jax.vmap(m)(x)[..., 0] - y",
    ),
    (
        "m = nnx.Linear(3, 1, rngs=nnx.Rngs(0))\n@nnx.jit\ndef step(m, x, y):\n    def loss(m):\n"
        "        return jnp.mean((y - m(x)) ** 2)\n    return nnx.grad(loss)(m)\n"
        "out = step(m, jnp.ones((6, 3)), jnp.ones(6))",
        "y - m(x)",
        "y - m(x)[..., 0]",
    ),
    (
        "def loss(w, x, y):\n    return (jnp.subtract(x @ w, y) ** 2).mean()\n"
        "out = jax.value_and_grad(loss)(jnp.ones((5, 1)), jnp.ones((7, 5)), jnp.ones(7))",
        "jnp.subtract(x @ w, y)",
        "jnp.subtract((x @ w)[..., 0], y)",
    ),
    (
        "def accuracy(logits, labels):\n    return jnp.mean((logits > 0) == labels)\n"
        "out = accuracy(jnp.ones((8, 1)), jnp.ones(8))",
        "(logits > 0) == labels",
        "(logits > 0)[..., 0] == labels",
    ),
    (
        "def predict(x):\n    return x @ jnp.ones((3, 1))\nx, y = jnp.ones((9, 3)), jnp.ones(9)\n"
        "out = jnp.mean((predict(x) - y) ** 2)",
        "predict(x) - y",
        "predict(x)[..., 0] - y",
    ),
]


@pytest.mark.parametrize(("body", "marked", "fix"), SQUARES)
def test_a_column_is_found_whatever_gave_it(body: str, marked: str, fix: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["column-against-vector"]
    assert cell.marked("column-against-vector") == marked
    assert cell.found("column-against-vector").fix == fix
    fixed = cell.fixed("column-against-vector")
    assert fixed.rules == []
    assert fixed.report.failure is None


MEANT = [
    "@jax.jit\ndef gram(x, y):\n    return jnp.exp(-((x[:, None] - y) ** 2))\n"
    "out = gram(jnp.arange(4.0), jnp.arange(4.0))",
    "@jax.jit\ndef dist(x):\n    column = x[:, None]\n    return column - x\nout = dist(jnp.arange(4.0))",
    "@jax.jit\ndef f(x):\n    return jnp.interp(x, x, x), jnp.vander(x), jnp.outer(x, x), jnp.searchsorted(x, x)\n"
    "out = f(jnp.linspace(0, 1, 5))",
    "@jax.jit\ndef f(a):\n    mask = jnp.arange(5)[:, None] >= jnp.arange(5)\n"
    "    return jnp.where(mask, a, 0) / a.sum(1, keepdims=True) * jnp.ones(5)\nout = f(jnp.ones((5, 5)))",
    "net = nnx.Sequential(nnx.Linear(4, 4, rngs=nnx.Rngs(0)), nnx.LayerNorm(4, rngs=nnx.Rngs(0)))\n"
    "out = nnx.jit(lambda net, x: net(x))(net, jnp.ones((4, 4)))",
]


@pytest.mark.parametrize("body", MEANT)
def test_axes_that_were_asked_for_are_left_alone(body: str):
    assert watched(IMPORTS + body).rules == []


MISALIGNED = [
    ("x = jnp.arange(9.0).reshape(3, 3) + 1\nout = x / x.sum(axis=1)", "x.sum(axis=1, keepdims=True)"),
    (
        "class Norm:\n    def __call__(self, x):\n        mu = jnp.mean(x, axis=-1)\n        return x - mu\n"
        "x = jnp.arange(16.0).reshape(4, 4)\nout = jax.jit(Norm().__call__)(x)",
        "jnp.mean(x, axis=-1, keepdims=True)",
    ),
    (
        "def unit(v):\n    return v / jnp.linalg.norm(v, axis=1)\nx = jnp.arange(8.0).reshape(2, 2, 2) + 1\n"
        "out = jax.vmap(unit)(x)",
        "jnp.linalg.norm(v, axis=1, keepdims=True)",
    ),
]


@pytest.mark.parametrize(("body", "fix"), MISALIGNED)
def test_a_reduction_that_lines_up_with_another_axis_may_be_wrong_and_keeps_its_axis(body: str, fix: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["keepdims-missing"]
    assert cell.found("keepdims-missing").fix == fix
    assert not cell.found("keepdims-missing").sure
    fixed = cell.fixed("keepdims-missing")
    assert fixed.rules == []
    assert not jnp.allclose(fixed.notebook.namespace["out"], cell.notebook.namespace["out"])


@pytest.mark.parametrize(
    "body",
    [
        "x = jnp.ones((3, 3))\nout = x / x.sum(axis=0)",
        "x = jnp.ones((3, 3))\nout = x / x.sum(axis=1, keepdims=True)",
        "x = jnp.ones((3, 3))\nout = x / x.sum(axis=1)[:, None]",
        "x = jnp.ones((3, 3))\nout = x / x.sum()",
        "x, y = jnp.ones((3, 3)), jnp.ones((3, 3))\nout = x / y.sum(axis=1)",
        "x = jnp.ones((1, 4))\nout = x / x.sum(axis=1)",
    ],
)
def test_reductions_that_fit_are_left_alone(body: str):
    assert watched(IMPORTS + body).rules == []
