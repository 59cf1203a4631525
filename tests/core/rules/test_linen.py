"""Flax Linen's own errors: variables, keys, collections, modules outside of apply."""

import pytest
from failing_cells import failed

IMPORTS = "import jax, jax.numpy as jnp, flax.linen as nn\nx, key = jnp.ones((4, 3)), jax.random.key(0)\n"

MLP = """
class MLP(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2, name='head')(nn.relu(nn.Dense(8, name='enc')(x)))
mlp = MLP()
variables = mlp.init(key, x)
"""

NORM = """
class Net(nn.Module):
    rate: float = 0.0
    @nn.compact
    def __call__(self, x, train=True):
        x = nn.BatchNorm(use_running_average=not train)(nn.Dense(4)(x))
        return nn.Dropout(self.rate, deterministic=not train)(x)
net = Net()
variables = net.init(key, x)
"""

PAIR = """
class Pair(nn.Module):
    def setup(self):
        self.enc, self.dec = nn.Dense(2), nn.Dense(3)
    def __call__(self, x):
        return self.dec(self.enc(x))
    def encode(self, x):
        return self.enc(x)
pair = Pair()
variables = pair.init(key, x)
"""

STATE = """
import optax
from flax.training import train_state
class State(train_state.TrainState):
    batch_stats: dict
state = State.create(apply_fn=net.apply, tx=optax.sgd(0.1), **variables)
"""

FIXED = [
    (
        "linen-variables",
        MLP + "def loss(params):\n    return mlp.apply({'params': params}, x).sum()",
        "out = jax.jit(jax.grad(loss))(variables)",
        "mlp.apply(params, x)",
        "`params` stands inside `params`",
    ),
    (
        "linen-variables",
        MLP + "class Trainer:\n    def __init__(self, params):\n        self.params = params\n"
        "    def predict(self, x):\n        return jax.jit(mlp.apply)(self.params, x)",
        "out = Trainer(variables['params']).predict(x)",
        "jax.jit(mlp.apply)({'params': self.params}, x)",
        "layer `enc` finds no `kernel` in `params`: the variables have `enc` and `head`",
    ),
    (
        "linen-variables",
        "layer = nn.Dense(3)\nparams = layer.init(key, x)['params']",
        "out = layer.apply(params, x)",
        "layer.apply({'params': params}, x)",
        "`params` is no dict of collections",
    ),
    (
        "linen-variables",
        "layer = nn.Dense(3)\nvariables = layer.init(key, x)",
        "out = layer.apply(x, variables)",
        "layer.apply(variables, x)",
        "`x` is no dict of collections",
    ),
    (
        "linen-variables",
        PAIR,
        "out = nn.Dense(2).apply({'params': variables['params']}, jnp.ones(3))",
        "",
        "the module finds no `kernel` in `params`: `params` has `enc` and `dec`",
    ),
    (
        "linen-variables",
        MLP + "class Two(nn.Module):\n    @nn.compact\n    def __call__(self, x):\n"
        "        return nn.Dense(1, name='last')(MLP(name='mlp')(x))\nparams = Two().init(key, x)['params']",
        "out = mlp.apply({'params': params}, x)",
        "mlp.apply({'params': params['mlp']}, x)",
        "`params` has `mlp` and `last`, and no `enc`",
    ),
    (
        "linen-variables",
        NORM,
        "out = net.apply({'params': variables['params']}, x, train=False)",
        "net.apply({'params': variables['params'], 'batch_stats': variables['batch_stats']}, x, train=False)",
        "layer `BatchNorm_0` finds no `mean` in `batch_stats`",
    ),
    (
        "linen-variables",
        NORM + STATE + "@jax.jit\ndef step(state, x):\n    def loss(params):\n"
        "        return state.apply_fn({'params': params}, x, train=False).sum()\n"
        "    return jax.grad(loss)(state.params)",
        "del variables\nout = step(state, x)",
        "state.apply_fn({'params': params, 'batch_stats': state.batch_stats}, x, train=False)",
        "no collection `batch_stats`",
    ),
    (
        "linen-key",
        "drop = nn.Sequential([nn.Dense(2), nn.Dropout(0.5, deterministic=False)])\nv = drop.init(key, x)\n"
        "def loss(p, x, key):\n    return drop.apply({'params': p}, x).sum()",
        "out = jax.grad(loss)(v['params'], x, key)",
        "drop.apply({'params': p}, x, rngs={'dropout': key})",
        "needs a key for `dropout`",
    ),
    (
        "linen-key",
        NORM,
        "out, _ = Net(0.5).apply(variables, x, mutable=['batch_stats'])",
        "Net(0.5).apply(variables, x, mutable=['batch_stats'], rngs={'dropout': jax.random.key(0)})",
        "`Dropout_0` draws random numbers",
    ),
    ("linen-key", "", "out = nn.Dense(2).init(x, key)", "nn.Dense(2).init(key, x)", "`x` (f32[4,3]) is no random key"),
    (
        "linen-key",
        MLP,
        "out = mlp.init(x)",
        "mlp.init(jax.random.key(0), x)",
        "is no random key, which `init` takes first",
    ),
    (
        "linen-mutable",
        NORM + "@jax.jit\ndef step(v, x):\n    y = net.apply(v, x)\n    return y.mean()",
        "out = step(variables, x)",
        "y, updates = net.apply(v, x, mutable=['batch_stats'])",
        "does not let `batch_stats` change",
    ),
    (
        "linen-mutable",
        NORM + "class Trainer:\n    def loss(self, params, x):\n"
        "        pred = net.apply({**variables, 'params': params}, x)\n"
        "        return (pred ** 2).sum()",
        "out = jax.grad(Trainer().loss)(variables['params'], x)",
        "pred, updates = net.apply({**variables, 'params': params}, x, mutable=['batch_stats'])",
        "layer `BatchNorm_0` updates `mean`",
    ),
    (
        "linen-mutable",
        NORM + "def loss(v, x):\n    y = net.apply(v, x, mutable=['batch_stats'])\n    return jnp.mean(y ** 2)",
        "out = loss(variables, x)",
        "y, updates = net.apply(v, x, mutable=['batch_stats'])",
        "`y` is a pair",
    ),
    (
        "linen-unbound",
        "mlp = nn.Sequential([nn.Dense(4), nn.relu])",
        "out = mlp(x)",
        "variables = mlp.init(jax.random.key(0), x)\nout = mlp.apply(variables, x)",
        "`mlp` has no parameters",
    ),
    ("linen-unbound", MLP, "out = jax.jit(lambda x: mlp(x))(x)", "mlp.apply(variables, x)", "`mlp` has no parameters"),
    ("linen-unbound", PAIR, "out = pair.encode(x)", "pair.bind(variables)", "`pair.enc`, which `setup` makes"),
    ("linen-unbound", PAIR, "out = pair.dec(jnp.ones(2))", "pair.bind(variables)", "`pair.dec`, which `setup` makes"),
    (
        "linen-module",
        "class Net(nn.Module):\n    def __call__(self, x):\n        return nn.Dense(4)(x)",
        "out = Net().init(key, x)",
        "@nn.compact\ndef",
        "neither `setup` nor marked compact",
    ),
    (
        "linen-module",
        "class Net(nn.Module):\n    width: int = 2\n    def setup(self):\n        self.a = nn.Dense(self.width)\n"
        "    def tail(self, x):\n        scale = self.param('scale', nn.initializers.ones, (self.width,))\n"
        "        return x * scale\n    def __call__(self, x):\n        return nn.Dense(3)(self.a(x))",
        "out = Net().init(key, x)",
        "@nn.compact\ndef",
        "`nn.Dense(3)` makes a layer in `__call__`",
    ),
    (
        "linen-module",
        "class Net(nn.Module):\n    @nn.compact\n    def __call__(self, x):\n"
        "        x = nn.Dense(3, name='fc')(x)\n        return nn.Dense(3, name='fc')(x)",
        "out = Net().init(key, x)",
        "nn.Dense(3, name='fc_2')",
        "the name `fc` is taken",
    ),
    (
        "linen-module",
        "class Net(nn.Module):\n    def setup(self):\n        self.d = nn.Dense(4)\n    def __call__(self, x):\n"
        "        self.last = self.d(x)\n        return self.last",
        "out = Net().init(key, x)",
        "",
        "sets an attribute of a module",
    ),
]


@pytest.mark.parametrize(("rule", "before", "call", "fix", "said"), FIXED)
def test_what_linen_refuses_is_said_in_the_users_own_names(rule: str, before: str, call: str, fix: str, said: str):
    program = failed(IMPORTS + before, call)
    assert program.finding.rule == rule
    assert said in program.finding.title
    assert program.finding.fix == fix
    assert not fix or "out" in program.fixed().namespace


def test_a_layer_that_init_never_saw_is_named_beside_those_that_it_did():
    program = failed(
        IMPORTS + "class Net(nn.Module):\n    deep: bool = False\n    def setup(self):\n"
        "        self.mid, self.out = nn.Dense(3), nn.Dense(2)\n    def __call__(self, x):\n"
        "        return self.out(self.mid(x) if self.deep else x)\nv = Net().init(key, x)",
        "Net(deep=True).apply(v, x)",
    )
    assert program.finding.rule == "linen-variables"
    assert program.finding.title == "layer `mid` finds no `kernel` in `params`: `params` has `out`, and no `mid`"
    assert program.marked == "self.mid(x)"
    assert "the variables are handed over here: params: out" in program.evidence
    assert not program.finding.fix
