"""Results and arrays that are unpacked into another number of names than they have values."""

import pytest
from failing_cells import failed

IMPORTS = """
import jax, jax.numpy as jnp, optax, equinox as eqx
from flax import nnx
key, x = jax.random.key(0), jnp.ones((5, 3))
class Net(nnx.Module):
    def __init__(self, rngs):
        self.fc = nnx.Linear(3, 4, rngs=rngs)
        self.bn = nnx.BatchNorm(4, rngs=rngs)
    def __call__(self, x):
        return self.bn(self.fc(x))
net = Net(nnx.Rngs(0))
def loss(w, x):
    return (w * x).sum(), (w, x)
"""

FIXED = [
    (
        "graph, params, rest = nnx.split(net)",
        "nnx.split(net, nnx.Param, ...)",
        "gives 2 values: the graph and one state",
    ),
    ("graph, params = nnx.split(net, nnx.Param, nnx.BatchStat, ...)", "graph, params, _, rest", "gives 4 values"),
    (
        "class Trainer:\n    def __init__(self, net):\n"
        "        self.graph, self.state = nnx.split(net, nnx.Param, ...)\n"
        "    def __call__(self, x):\n        return nnx.merge(self.graph, self.state)(x)\nTrainer(net)(x)",
        "nnx.split(net)",
        "gives 3 values",
    ),
    (
        "value, aux, grads = jax.value_and_grad(loss, has_aux=True)(1.0, x)",
        "(value, aux), grads",
        "the pair of the value and the auxiliary output, and the gradients",
    ),
    ("(value, w, x), grads = jax.value_and_grad(loss, has_aux=True)(1.0, x)", "(value, (w, x))", "takes a pair apart"),
    (
        "one, other = jax.grad(lambda a, b: (a * b).sum())(x, x)",
        "jax.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, x)",
        "gives 1 value: one gradient",
    ),
    ("@jax.jit\ndef f(x):\n    return x, x + 1, x.sum()\na, b = f(x)", "a, b, _", "gives 3 values"),
    ("(value, aux), grads = jax.value_and_grad(jnp.sum)(x)", "value", "the value comes alone"),
    ("u, s = jnp.linalg.svd(x)", "u, s, _", "gives 3 values"),
    ("one, two, three = jax.random.split(key)", "jax.random.split(key, 3)", "has 2 rows, but is unpacked into 3"),
]


@pytest.mark.parametrize(("cell", "fix", "said"), FIXED)
def test_names_and_values_are_counted_and_made_to_agree(cell: str, fix: str, said: str):
    program = failed(IMPORTS, cell)
    assert program.finding.rule in ("values-unpacked", "array-taken-apart")
    assert said in program.finding.title
    assert program.finding.fix == fix
    program.fixed()


TOLD = [
    ("carry, ys, rest = jax.lax.scan(lambda c, x: (c + x, c), x[0], x)", "the carry and the stacked outputs"),
    ("params, static, rest = eqx.partition(eqx.nn.Linear(3, 2, key=key), eqx.is_array)", "gives 2 values"),
    (
        "opt = optax.sgd(0.1)\nupdates, state, rest = opt.update(x, opt.init(x))",
        "gives 2 values: the updates and the new state",
    ),
    ("def f(x):\n    return x, x\na, b, c = jax.vmap(f)(x)", "gives 2 values"),
    ("value, aux, grads = jax.value_and_grad(jnp.sum)(x)", "gives 2 values: the value, and the gradients"),
    ("for a, b in x:\n    pass", "each row of `x` (f32[5,3]) has 3 elements"),
]


@pytest.mark.parametrize(("cell", "said"), TOLD)
def test_what_a_call_gives_is_said_where_a_name_is_too_many(cell: str, said: str):
    program = failed(IMPORTS, cell)
    assert said in program.finding.title
    assert program.finding.fix == ""


def test_arguments_of_a_call_are_not_taken_for_what_it_gives():
    program = failed(IMPORTS, "def f(*args):\n    return list(args)\na, b = f(x)")
    assert program.failure.findings == ()
