"""Equinox modules under JAX's transformations, with fields that are set, and layers that take one example."""

import pytest
from failing_cells import failed

IMPORTS = "import jax, jax.numpy as jnp, equinox as eqx, optax\nkey, xs = jax.random.key(0), jnp.ones((5, 3))\n"
MLP = "mlp = eqx.nn.MLP(3, 1, 4, 1, key=key)\n"

CNN = """
class CNN(eqx.Module):
    conv: eqx.nn.Conv2d
    head: eqx.nn.Linear
    def __init__(self, key):
        self.conv = eqx.nn.Conv2d(3, 2, 3, key=key)
        self.head = eqx.nn.Linear(72, 4, key=jax.random.fold_in(key, 1))
    def __call__(self, x):
        return self.head(self.conv(x).reshape(-1))
cnn = CNN(key)
"""

DROPPING = """
class Net(eqx.Module):
    fc: eqx.nn.Linear
    drop: eqx.nn.Dropout
    def __init__(self, key):
        self.fc = eqx.nn.Linear(3, 4, key=key)
        self.drop = eqx.nn.Dropout(0.5)
    def __call__(self, x, *, key=None):
        return self.drop(self.fc(x), key=key)
net = Net(key)
"""

KEYLESS = DROPPING.replace(", *, key=None", "").replace("(self.fc(x), key=key)", "(self.fc(x))")

FIXED = [
    (
        "eqx-filtered",
        MLP + "@jax.jit\ndef predict(model, xs):\n    return jax.vmap(model)(xs)",
        "out = predict(mlp, xs)",
        "@eqx.filter_jit",
        "`mlp.activation` and `mlp.final_activation` are no arrays",
    ),
    (
        "eqx-filtered",
        MLP + "def loss(model, xs):\n    return jax.vmap(model)(xs).mean()",
        "out = jax.value_and_grad(loss)(mlp, xs)",
        "eqx.filter_value_and_grad(loss)",
        "are no arrays",
    ),
    (
        "eqx-filtered",
        MLP + "@jax.jit\n@jax.grad\ndef loss(model, xs):\n    return jax.vmap(model)(xs).mean()",
        "out = loss(mlp, xs)",
        "@eqx.filter_jit\n@eqx.filter_grad",
        "are no arrays",
    ),
    (
        "eqx-filtered",
        MLP + "opt = optax.adam(0.1)",
        "out = opt.init(mlp)",
        "opt.init(eqx.filter(mlp, eqx.is_array))",
        "are no arrays",
    ),
    (
        "eqx-filtered",
        MLP + "params, static = eqx.partition(mlp, eqx.is_array)\n@jax.jit\ndef loss(params, static, xs):\n"
        "    return jax.vmap(eqx.combine(params, static))(xs).mean()",
        "out = loss(params, static, xs)",
        "@eqx.filter_jit",
        "`static.activation`",
    ),
    (
        "eqx-partitioned",
        MLP + "params, static = eqx.partition(mlp, eqx.is_array)\ndef loss(params, xs):\n"
        "    return jax.vmap(params)(xs).mean()",
        "out = jax.grad(loss)(params, xs)",
        "jax.vmap(eqx.combine(params, static))(xs)",
        "`params.activation` and `params.final_activation` are None",
    ),
    (
        "eqx-partitioned",
        CNN,
        "arrays, rest = eqx.partition(cnn, eqx.is_inexact_array)\nout = rest(jnp.ones((3, 8, 8)))",
        "eqx.combine(arrays, rest)(jnp.ones((3, 8, 8)))",
        "`rest.conv.bias`, `rest.conv.weight`, `rest.head.bias` and 1 more are None",
    ),
    (
        "eqx-partitioned",
        MLP + "class Trainer:\n    def __init__(self, model):\n"
        "        self.params, self.static = eqx.partition(model, eqx.is_array)\n"
        "    def loss(self, params, xs):\n        return jax.vmap(params)(xs).mean()",
        "trainer = Trainer(mlp)\nout = jax.grad(trainer.loss)(trainer.params, xs)",
        "jax.vmap(eqx.combine(params, self.static))(xs)",
        "`params` is only a part of the model",
    ),
    (
        "eqx-partitioned",
        "class VAE(eqx.Module):\n    enc: eqx.nn.MLP\n    def encode(self, x):\n        return self.enc(x)\n"
        "vae = VAE(eqx.nn.MLP(3, 1, 4, 1, key=key))",
        "def train(vae, xs):\n    diff, static = eqx.partition(vae, eqx.is_inexact_array)\n    @jax.jit\n"
        "    def loss(p, xs):\n        return jax.vmap(p.encode)(xs).mean()\n"
        "    return jax.value_and_grad(loss)(diff, xs)\nout = train(vae, xs)",
        "jax.vmap(eqx.combine(p, static).encode)(xs)",
        "`p` is only a part of the model: `p.enc.activation` and",
    ),
    (
        "eqx-partitioned",
        MLP,
        "params = eqx.filter(mlp, eqx.is_array)\nout = jax.lax.scan(lambda p, x: (p, p(x)), params, xs)",
        "eqx.combine(p, mlp)(x)",
        "`p` is only a part of the model",
    ),
    (
        "eqx-filtered",
        MLP + "opt = optax.sgd(0.1)\nstate = opt.init(eqx.filter(mlp, eqx.is_array))\n"
        "def step(carry, x):\n    model, state = carry\n    grads = eqx.filter_grad(lambda m: m(x).sum())(model)\n"
        "    updates, state = opt.update(grads, state)\n    return (eqx.apply_updates(model, updates), state), None",
        "(out, state), _ = jax.lax.scan(step, (mlp, state), xs)\nout(xs[0])",
        "(out, state), _ = (eqx.combine(arrays, static), ys)",
        "`mlp.activation` and `mlp.final_activation` are no arrays",
    ),
    (
        "eqx-filtered",
        MLP,
        "def total(model, xs):\n    (model, s), _ = jax.lax.scan(lambda c, x: ((c[0], c[1] + c[0](x).sum()), None), "
        "(model, 0.0), xs)\n    return s\nout = total(mlp, xs)",
        "eqx.partition((model, jnp.asarray(0.0)), eqx.is_array)",
        "`model.activation`",
    ),
    (
        "eqx-filtered",
        "layers = eqx.filter_vmap(lambda k: eqx.nn.MLP(3, 3, 4, 1, key=k))(jax.random.split(key, 3))",
        "out, _ = jax.lax.scan(lambda x, layer: (layer(x), None), xs[0], layers)",
        "eqx.combine(row, static)",
        "`layers.activation`",
    ),
    (
        "eqx-filtered",
        MLP,
        "class Trainer:\n    def run(self, model, xs):\n        def body(i, m):\n"
        "            grads = eqx.filter_grad(lambda m: jax.vmap(m)(xs).mean())(m)\n"
        "            return eqx.apply_updates(m, jax.tree.map(lambda g: -0.1 * g, grads))\n"
        "        return jax.lax.fori_loop(0, 3, body, model)\nout = Trainer().run(mlp, xs)\nout(xs[0])",
        "return eqx.combine(arrays, static)",
        "`model.activation`",
    ),
    (
        "eqx-filtered",
        MLP,
        "out = jax.lax.while_loop(lambda s: s[1] < 3, lambda s: (s[0], s[1] + 1), (mlp, 0))",
        "lambda arrays: (lambda s: s[1] < 3)(eqx.combine(arrays, static))",
        "`mlp.activation`",
    ),
    (
        "eqx-filtered",
        MLP,
        "out = jax.lax.cond(True, lambda m, x: m(x), lambda m, x: -m(x), mlp, xs[0])",
        "lambda: (lambda m, x: m(x))(mlp, xs[0])",
        "`mlp.activation`",
    ),
    (
        "eqx-filtered",
        MLP + "from functools import partial\n@partial(jax.jit, static_argnames=('n',))\ndef f(state, x, n):\n"
        "    return state['model'](x) * n",
        "out = f({'model': mlp}, xs[0], 3)",
        "@eqx.filter_jit",
        "`mlp.activation`",
    ),
    (
        "eqx-filtered",
        MLP + "state = (mlp, 0)\nstep = jax.jit(lambda s, x: s[0](x), donate_argnums=(0,))",
        "out = step(state, xs[0])",
        "eqx.filter_jit(lambda s, x: s[0](x))",
        "`state[0].activation`",
    ),
    (
        "eqx-filtered",
        "def make(key):\n    model = eqx.nn.MLP(3, 1, 4, 1, key=key)\n    return model",
        "out = jax.vmap(make)(jax.random.split(key, 3))",
        "eqx.filter_vmap(make)",
        "is a module with functions in it",
    ),
    (
        "eqx-filtered",
        MLP + "@jax.jit\ndef scaled(x):\n    return eqx.tree_at(lambda m: m.layers[0].bias, mlp, x), x.sum()",
        "out = scaled(jnp.ones(4))",
        "@eqx.filter_jit",
        "is a module with functions in it",
    ),
    (
        "eqx-filtered",
        MLP,
        "out = jax.tree.map(lambda a: a * 2, mlp)\nout(xs[0])",
        "lambda a: a * 2 if eqx.is_array(a) else a",
        "`mlp.activation`",
    ),
    (
        "eqx-filtered",
        MLP + "grads = eqx.filter_grad(lambda m: jax.vmap(m)(xs).mean())(mlp)",
        "out = jax.tree.map(lambda p, g: p - 0.1 * g, mlp, grads)\nout(xs[0])",
        "lambda p, g: p - 0.1 * g if eqx.is_array(p) else p",
        "`mlp.activation`",
    ),
    (
        "eqx-filtered",
        "models = [eqx.nn.MLP(3, 1, 4, 1, key=k) for k in jax.random.split(key, 3)]",
        "out = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)",
        "*[eqx.filter(each, eqx.is_array) for each in models]",
        "`models[0].activation`",
    ),
    (
        "eqx-filtered",
        MLP + "def l2(model):\n    total = 0.0\n    for p in jax.tree.leaves(model):\n"
        "        total = total + jnp.sum(p**2)\n    return total",
        "out = jax.jit(lambda: l2(mlp))()",
        "jax.tree.leaves(eqx.filter(model, eqx.is_array))",
        "`model.activation`",
    ),
    (
        "eqx-filtered",
        MLP + "opt = optax.sgd(0.1)\nstate = opt.init(eqx.filter(mlp, eqx.is_array))\n"
        "grads = eqx.filter_grad(lambda m: jax.vmap(m)(xs).mean())(mlp)",
        "updates, state = opt.update(grads, state)\nout = optax.apply_updates(mlp, updates)",
        "eqx.apply_updates(mlp, updates)",
        "`mlp.activation`",
    ),
    ("eqx-key", "drop = eqx.nn.Dropout(0.5)", "out = drop(xs)", "drop(xs, key=jax.random.key(0))", "`drop(xs)` gives"),
    (
        "eqx-key",
        DROPPING + "@eqx.filter_value_and_grad\ndef loss(net, xs, key):\n    return jax.vmap(net)(xs).mean()",
        "out = loss(net, xs, key)",
        "jax.vmap(lambda x, key: net(x, key=key))(xs, jax.random.split(key, xs.shape[0]))",
        "`jax.vmap(net)(xs)` gives no random key",
    ),
    (
        "eqx-key",
        DROPPING + "def evaluate(net, xs):\n    return jax.vmap(lambda x: net(x))(xs)",
        "out = evaluate(net, xs)",
        "eqx.nn.inference_mode(net)(x)",
        "`net(x)` gives no random key",
    ),
    (
        "eqx-key",
        "class Block(eqx.Module):\n    drop: eqx.nn.Dropout\n    def __call__(self, x, rng=None):\n"
        "        return self.drop(x, key=rng)\nclass Net(eqx.Module):\n    block: Block\n"
        "    def __call__(self, x, key=None):\n        return self.block(x, key)\n"
        "net = Net(Block(eqx.nn.Dropout(0.2)))",
        "out = eqx.filter_jit(net)(xs[0])",
        "eqx.filter_jit(net)(xs[0], key=jax.random.key(0))",
        "`eqx.filter_jit(net)(xs[0])` gives no random key",
    ),
    (
        "eqx-key",
        KEYLESS,
        "out = jax.vmap(net)(xs)",
        "jax.vmap(eqx.nn.inference_mode(net))(xs)",
        "`self.drop(self.fc(x))`",
    ),
    ("eqx-key", "", KEYLESS + "out = jax.vmap(net)(xs)", "def __call__(self, x, key):", "`self.drop(self.fc(x))`"),
    (
        "eqx-key",
        KEYLESS,
        "jax.grad(lambda fc: eqx.tree_at(lambda net: net.fc, net, fc)(xs[0]).sum())(net.fc)",
        "",
        "`self.drop(self.fc(x))`",
    ),
    (
        "eqx-key",
        "attend = eqx.nn.MultiheadAttention(2, 4, dropout_p=0.1, key=key)\nq = jnp.ones((5, 4))",
        "out = attend(q, q, q)",
        "attend(q, q, q, key=jax.random.key(0))",
        "`attend(q, q, q)` gives",
    ),
    ("eqx-key", "", "out = eqx.nn.MLP(3, 1, 4, 1)", "key=jax.random.key(0))", "needs a random `key`"),
    (
        "eqx-key",
        "class Net(eqx.Module):\n    a: eqx.nn.Linear\n    b: eqx.nn.GRUCell\n    def __init__(self, key):\n"
        "        self.a = eqx.nn.Linear(3, 4, key=key)\n        self.b = eqx.nn.GRUCell(4, 4)",
        "out = Net(key)",
        "eqx.nn.GRUCell(4, 4, key=jax.random.fold_in(key, 1))",
        "`eqx.nn.GRUCell(4, 4)` needs a random `key`",
    ),
    ("eqx-filtered", MLP, "out = jax.device_put(mlp, jax.devices()[0])", "eqx.filter_shard(mlp, ", "`mlp.activation`"),
    (
        "eqx-filtered",
        MLP + "from jax.flatten_util import ravel_pytree",
        "out, back = ravel_pytree(mlp)",
        "ravel_pytree(eqx.filter(mlp, eqx.is_array))",
        "`mlp.activation`",
    ),
    (
        "eqx-key",
        "drop = eqx.nn.Dropout(0.5)\n@jax.jit\ndef f(x, key):\n    return drop(x, key)",
        "out = f(xs, key)",
        "drop(x, key=key)",
        "`drop` takes its key by name",
    ),
    (
        "values-unpacked",
        MLP + "@eqx.filter_jit\ndef step(model, x):\n    return model, x, model(x)",
        "model, out = step(mlp, xs[0])",
        "model, out, _",
        "gives 3 values",
    ),
    (
        "eqx-frozen",
        "layer = eqx.nn.Linear(3, 2, key=key)",
        "layer.bias = jnp.ones(2)\nout = layer.bias",
        "layer = eqx.tree_at(lambda layer: layer.bias, layer, jnp.ones(2))",
        "`layer.bias` can't be set",
    ),
    (
        "eqx-frozen",
        MLP,
        "mlp.layers[0].weight = mlp.layers[0].weight * 2\nout = mlp",
        "mlp = eqx.tree_at(lambda mlp: mlp.layers[0].weight, mlp, mlp.layers[0].weight * 2)",
        "`mlp.layers[0].weight` can't be set",
    ),
    (
        "eqx-frozen",
        "class Two(eqx.Module):\n    a: eqx.nn.Linear\n    def __init__(self, key):\n"
        "        k, l = jax.random.split(key)\n        self.a = eqx.nn.Linear(3, 2, key=k)\n"
        "        self.b = eqx.nn.Linear(3, 2, key=l)",
        "out = Two(key)",
        "b: eqx.nn.Linear\n",
        "`self.b` can't be set",
    ),
    (
        "eqx-frozen",
        "class Net(eqx.Module):\n    w: jax.Array\n    def __call__(self, x):\n        self.last = x @ self.w\n"
        "        return self.last",
        "out = Net(jnp.ones((3, 2)))(xs)",
        "",
        "`self.last` can't be set",
    ),
    (
        "static-field",
        "from dataclasses import dataclass, field\n@jax.tree_util.register_dataclass\n@dataclass\nclass Scaled:\n"
        "    w: jax.Array\n    s: jax.Array = field(metadata=dict(static=True))\n"
        "f = jax.jit(lambda m, x: m.w * m.s * x)",
        "a, b = (Scaled(jnp.ones(2), jnp.arange(2.0)) for _ in range(2))\nf(a, 1.0)\nout = f(b, 1.0)",
        "s: jax.Array",
        "`s` of Scaled is a static field",
    ),
    (
        "layer-input",
        CNN,
        "out = eqx.filter_jit(cnn)(jnp.ones((2, 3, 8, 8)))",
        "jax.vmap(eqx.filter_jit(cnn))",
        "one example",
    ),
    (
        "layer-input",
        CNN,
        "out = jax.vmap(cnn)(jnp.ones((2, 8, 8, 3)))",
        "self.conv(jnp.moveaxis(x, -1, 0))",
        "got f32[8,8,3], but takes 3 channels",
    ),
    (
        "layer-input",
        "table = eqx.nn.Embedding(9, 2, key=key)",
        "out = table(jnp.arange(4))",
        "jax.vmap(table)(jnp.arange(4))",
        "layer `table` (Embedding) got i32[4], and takes one example",
    ),
    (
        "layer-input",
        "attend = eqx.nn.MultiheadAttention(2, 4, key=key)\nq = jnp.ones((3, 5, 4))",
        "out = attend(q, q, q)",
        "jax.vmap(attend)(q, q, q)",
        "takes one example",
    ),
    (
        "layer-input",
        "cell = eqx.nn.GRUCell(3, 4, key=key)",
        "jax.lax.scan(lambda h, x: (cell(x, h), None), jnp.zeros((1, 4)), xs)",
        "",
        "layer `cell` (GRUCell) got f32[3] and f32[1,4]",
    ),
    (
        "layer-input",
        "from flax import nnx\nmake = nnx.vmap(lambda key: nnx.Linear(3, 2, rngs=nnx.Rngs(key)))\n"
        "layers = make(jax.random.split(key, 4))",
        "out = layers(xs)",
        "nnx.vmap(lambda layer, x: layer(x), in_axes=(0, None))(layers, xs)",
        "layer `layers` (Linear) holds 4 layers",
    ),
    (
        "in-axes",
        "layer = eqx.nn.Linear(3, 2, key=key)",
        "out = eqx.filter_vmap(lambda m, x: m(x))(layer, xs)",
        "eqx.filter_vmap(lambda m, x: m(x), in_axes=(None, 0))(layer, xs)",
        "`layer.weight` has 2 along axis 0, `xs` has 5",
    ),
    (
        "while-reverse-mode",
        "def solve(w):\n    return jax.lax.while_loop(lambda s: s < 9, lambda s: s * w, 1.0)",
        "out = eqx.filter_grad(solve)(jnp.array(2.0))",
        "eqx.filter_jacfwd(solve)(jnp.array(2.0))",
        "no reverse-mode derivative",
    ),
    (
        "tree-structure",
        "from flax.training.train_state import TrainState\n"
        "state = TrainState.create(apply_fn=None, params={'w': jnp.ones(2)}, tx=optax.adam(0.1))\n"
        "@jax.jit\ndef step(state):\n    grads = jax.value_and_grad(lambda p: p['w'].sum())(state.params)\n"
        "    return state.apply_gradients(grads=grads)",
        "out = step(state)",
        "loss, grads = jax.value_and_grad(lambda p: p['w'].sum())(state.params)",
        "`grads` is a pair",
    ),
]


@pytest.mark.parametrize(("rule", "before", "call", "fix", "said"), FIXED)
def test_what_a_module_can_not_do_is_said_and_rewritten(rule: str, before: str, call: str, fix: str, said: str):
    program = failed(IMPORTS + before, call)
    assert program.finding.rule == rule
    assert said in program.finding.title
    assert fix in program.finding.fix
    assert bool(fix) == bool(program.finding.fix)
    assert not fix or "out" in program.fixed().namespace


def test_a_none_that_is_no_part_of_the_model_is_not_put_down_to_half_a_model():
    program = failed(
        IMPORTS + MLP,
        """
        params, static = eqx.partition(mlp, eqx.is_array)
        def loss(params, xs, mask=None):
            return (jax.vmap(eqx.combine(params, static))(xs) * mask).mean()
        jax.grad(loss)(params, xs)
        """,
    )
    assert program.failure.findings == ()
