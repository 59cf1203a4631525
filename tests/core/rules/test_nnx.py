"""Flax NNX's own errors: state from outside, calls that lack something, layers in plain lists."""

import pytest
from failing_cells import failed

IMPORTS = "import jax, jax.numpy as jnp, optax\nfrom flax import nnx\nx = jnp.ones((2, 3))\n"

NET = """
class Net(nnx.Module):
    def __init__(self, rngs):
        self.fc = nnx.Linear(3, 4, rngs=rngs)
        self.bn = nnx.BatchNorm(4, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
    def __call__(self, x):
        return self.drop(self.bn(self.fc(x)))
net = Net(nnx.Rngs(0))
"""

LINEAR = "net = nnx.Linear(3, 1, rngs=nnx.Rngs(0))\n"

FIXED = [
    (
        "state-from-outside",
        NET,
        "@nnx.jit\ndef predict(x):\n    return net(x).sum()\nout = predict(x)",
        "def predict(net, x):",
        "belongs to `net`, which lives outside",
    ),
    (
        "state-from-outside",
        LINEAR + "opt = nnx.Optimizer(net, optax.sgd(0.1), wrt=nnx.Param)",
        "@jax.jit\ndef step(x):\n    loss, grads = nnx.value_and_grad(lambda m: (m(x) ** 2).mean())(net)\n"
        "    opt.update(net, grads)\n    return loss\nout = step(x)",
        "@nnx.jit\ndef step(net, opt, x):",
        "belongs to `net`",
    ),
    (
        "state-from-outside",
        "class Net(nnx.Module):\n    def __init__(self, rngs):\n        self.fc = nnx.Linear(3, 4, rngs=rngs)\n"
        "        self.last = nnx.Variable(jnp.zeros((2, 4)))\n"
        "    def __call__(self, x):\n        self.last[...] = self.fc(x)\n        return self.last[...]\n"
        "net = Net(nnx.Rngs(0))",
        "@jax.jit\ndef f(x):\n    return net(x)\nout = f(x)",
        "@nnx.jit\ndef f(net, x):",
        "`self.last[...]` belongs to `net`",
    ),
    ("state-from-outside", NET, "jax.vmap(lambda x: net.bn(x))(jnp.ones((2, 5, 4)))", "", "belongs to `net`"),
    ("nnx-missing", "", "out = nnx.Linear(3, 4)", "nnx.Linear(3, 4, rngs=nnx.Rngs(0))", "needs `rngs`"),
    (
        "nnx-missing",
        "class Net(nnx.Module):\n    def __init__(self, *, rngs):\n        self.conv = nnx.Conv(1, 2, (3, 3))",
        "out = Net(rngs=nnx.Rngs(0))",
        "nnx.Conv(1, 2, (3, 3), rngs=rngs)",
        "needs `rngs`",
    ),
    (
        "nnx-missing",
        NET.replace("(0.5, rngs=rngs)", "(0.5)"),
        "out = nnx.jit(lambda m, x: m(x))(net, x)",
        "nnx.Dropout(0.5, rngs=rngs)",
        "`self.drop` draws what it drops",
    ),
    (
        "nnx-missing",
        LINEAR,
        "out = nnx.Optimizer(net, optax.adam(0.1))",
        "nnx.Optimizer(net, optax.adam(0.1), wrt=nnx.Param)",
        "does not say what is trained",
    ),
    (
        "nnx-missing",
        LINEAR + "opt = nnx.Optimizer(net, optax.sgd(0.1), wrt=nnx.Param)\n@nnx.jit\ndef step(model, opt, x):\n"
        "    grads = nnx.grad(lambda m: m(x).sum())(model)\n    opt.update(grads)\n    return opt.step[...]",
        "out = step(net, opt, x)",
        "opt.update(model, grads)",
        "given no model",
    ),
    (
        "nnx-missing",
        NET,
        "graph, params = nnx.split(net, nnx.Param)\nout = nnx.merge(graph, params, rest)(x)",
        "graph, params, rest = nnx.split(net, nnx.Param, ...)",
        "variables are left over",
    ),
    (
        "nnx-missing",
        NET + "graph, params, rest = nnx.split(net, nnx.Param, ...)",
        "out = nnx.merge(graph, params)(x)",
        "nnx.merge(graph, params, rest)",
        "lacks a part of the state",
    ),
    ("nnx-missing", NET + "parts = nnx.split(net)", "out = nnx.merge(parts)(x)", "nnx.merge(*parts)", "is a tuple"),
    (
        "nnx-list",
        "class MLP(nnx.Module):\n    def __init__(self, rngs):\n"
        "        self.layers = [nnx.Linear(3, 3, rngs=rngs) for _ in range(2)]",
        "out = MLP(nnx.Rngs(0))",
        "self.layers = nnx.List([nnx.Linear(3, 3, rngs=rngs) for _ in range(2)])",
        "`self.layers` is a plain list",
    ),
    (
        "nnx-list",
        "class Heads(nnx.Module):\n    def __init__(self, sizes, rngs):\n        heads = {}\n"
        "        for name in sizes:\n"
        "            heads[name] = nnx.Linear(3, sizes[name], rngs=rngs)\n        self.heads = heads",
        "out = Heads({'a': 1, 'b': 2}, nnx.Rngs(0))",
        "self.heads = nnx.Dict(heads)",
        "`self.heads` is a plain dict",
    ),
    (
        "nnx-list",
        "class Table(nnx.Module):\n    def __init__(self, n):\n        self.rows = [jnp.zeros(n), jnp.ones(n)]",
        "out = Table(2)",
        "self.rows = nnx.List([jnp.zeros(n), jnp.ones(n)])",
        "`self.rows` is a plain list",
    ),
]


@pytest.mark.parametrize(("rule", "before", "call", "fix", "said"), FIXED)
def test_what_nnx_refuses_is_said_in_the_users_own_names(rule: str, before: str, call: str, fix: str, said: str):
    program = failed(IMPORTS + before, call)
    assert program.finding.rule == rule
    assert said in program.finding.title
    assert fix in program.finding.fix
    assert bool(fix) == bool(program.finding.fix)
    assert not fix or "out" in program.fixed().namespace
