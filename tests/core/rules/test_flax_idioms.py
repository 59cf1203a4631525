"""NNX modules used as Linen's, and frozen structures of Flax's that are set or made with other fields."""

import pytest
from failing_cells import failed

NNX = """
import jax, jax.numpy as jnp
from flax import nnx
key, x = jax.random.key(0), jnp.ones((2, 3))
class Net(nnx.Module):
    def __init__(self, rngs):
        self.fc = nnx.Linear(3, 4, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
    def __call__(self, x):
        return self.drop(self.fc(x))
net = Net(nnx.Rngs(0))
"""

LINEN = """
import jax, jax.numpy as jnp, optax, flax
from flax import linen as nn
from flax.training import train_state
key, x = jax.random.key(0), jnp.ones((2, 3))
dense = nn.Dense(4)
params = dense.init(key, x)["params"]
state = train_state.TrainState.create(apply_fn=dense.apply, params=params, tx=optax.sgd(0.1))
"""

FIXED = [
    ("nnx-idiom", NNX, "out = net.init(key, x)", "nnx.state(net)", "has no `init`"),
    (
        "nnx-idiom",
        NNX + "class Trainer:\n    def __init__(self, net):\n        self.net = net\n    def run(self, x):\n"
        "        return self.net.apply({'params': 1}, x, rngs={'dropout': key})",
        "out = Trainer(net).run(x)",
        "self.net(x)",
        "`self.net` is an NNX module, which has no `apply`",
    ),
    ("nnx-idiom", NNX, "out = jax.tree.map(jnp.size, net.params)", "nnx.state(net, nnx.Param)", "has no `params`"),
    (
        "nnx-idiom",
        NNX + "class Late(nnx.Module):\n    def setup(self):\n"
        "        self.fc = nnx.Linear(3, 4, rngs=nnx.Rngs(0))\n    def __call__(self, x):\n        return self.fc(x)",
        "out = Late()(x)",
        "__init__",
        "NNX does not call `setup`",
    ),
    ("nnx-idiom", NNX, "out = nnx.Linear(3, 4, rngs=key)", "rngs=nnx.Rngs(key))", "`rngs=key` is a key"),
    ("nnx-idiom", NNX, "out = nnx.Conv(3, 4, (3, 3), rngs=0)", "rngs=nnx.Rngs(0))", "`rngs=0` is a number"),
    (
        "nnx-idiom",
        NNX + "class Scale(nnx.Module):\n    def __init__(self, rngs):\n"
        "        self.w = nnx.Param(jax.random.normal(rngs, (3,)))",
        "out = Scale(nnx.Rngs(0))",
        "jax.random.normal(rngs.params(), (3,))",
        "`rngs` gives keys",
    ),
    (
        "nnx-idiom",
        NNX + "class Scale(nnx.Module):\n    def forward(self, x):\n        return 2 * x",
        "out = Scale()(x)",
        "Scale().forward(x)",
        "its class has `forward`",
    ),
    (
        "nnx-idiom",
        NNX + "class Count(nnx.Module):\n    def __init__(self):\n        self.n = nnx.Variable(jnp.zeros(()))\n"
        "    def __call__(self, x):\n        self.n += 1\n        return x",
        "out = Count()(x)",
        "self.n[...] += 1",
        "`self.n` is a variable",
    ),
    (
        "nnx-idiom",
        NNX,
        "out = net(x, deterministic=True)",
        "net.eval()\nout = net(x)",
        "`net` takes no `deterministic`",
    ),
    ("nnx-idiom", NNX, "out = net(x, train=True)", "net.train()\nout = net(x)", "`net` takes no `train`"),
    (
        "nnx-missing",
        NNX + "class Wide(nnx.Module):\n    def __init__(self, n, rngs):\n"
        "        self.fc = nnx.Linear(3, n, rngs=rngs)",
        "out = Wide(4)",
        "Wide(4, rngs=nnx.Rngs(0))",
        "needs `rngs`",
    ),
    (
        "flax-struct",
        LINEN,
        "def halved(state):\n    state.params = jax.tree.map(lambda p: p / 2, state.params)\n    return state\n"
        "out = jax.jit(halved)(state)",
        "state = state.replace(params=jax.tree.map(lambda p: p / 2, state.params))",
        "`state.params` can't be set",
    ),
    (
        "flax-struct",
        LINEN + "@flax.struct.dataclass\nclass Agent:\n    steps: int = 0\nagent = Agent()",
        "agent.steps += 1\nout = agent",
        "agent = agent.replace(steps=agent.steps + 1)",
        "`agent.steps` can't be set",
    ),
    (
        "flax-struct",
        LINEN,
        "out = train_state.TrainState.create(apply_fn=dense.apply, params=params, tx=optax.sgd(0.1), batch_stats={})",
        "class State(train_state.TrainState):\n    batch_stats: dict",
        "has no field `batch_stats`",
    ),
    (
        "flax-struct",
        LINEN,
        "out = train_state.TrainState.create(apply_fn=dense.apply, params=params)",
        "tx=optax.adam(0.001))",
        "is given no optimizer",
    ),
    ("flax-struct", LINEN, "out = state.apply_gradients(params)", "state.apply_gradients(grads=params)", "by name"),
    (
        "flax-struct",
        LINEN + "frozen = flax.core.freeze({'a': {'b': 1}})",
        "frozen['a']['b'] = 2\nout = frozen",
        "frozen = frozen.unfreeze()",
        "`frozen` is a FrozenDict",
    ),
    (
        "layer-input",
        "import jax, jax.numpy as jnp, equinox as eqx\ncell = eqx.nn.LSTMCell(3, 4, key=jax.random.key(0))\n"
        "h = jnp.zeros(4)",
        "out = cell(jnp.ones(3), h)",
        "cell(jnp.ones(3), (h, jnp.zeros_like(h)))",
        "layer `cell` (LSTMCell) got one state, f32[4]",
    ),
]


@pytest.mark.parametrize(("rule", "before", "call", "fix", "said"), FIXED)
def test_what_belongs_to_another_library_is_spelled_as_in_this_one(
    rule: str, before: str, call: str, fix: str, said: str
):
    program = failed(before, call)
    assert program.finding.rule == rule
    assert said in program.finding.title
    assert fix in program.finding.fix
    assert "out" in program.fixed().namespace


SILENT = [
    NNX + "net.weights",
    NNX + "class Plain:\n    def forward(self, x):\n        return x\nPlain()(x)",
    "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Point:\n    x: int = 0\nPoint().x = 1",
]


@pytest.mark.parametrize("cell", SILENT)
def test_what_has_nothing_to_do_with_flax_is_left_to_python(cell: str):
    assert failed(cell).failure.findings == ()
