"""Optax's updates, losses and schedules, and updates written out on whole trees."""

import pytest
from failing_cells import failed

IMPORTS = """
import jax, jax.numpy as jnp, optax, equinox as eqx
from typing import NamedTuple
x, y = jnp.ones((4, 3)), jnp.ones(4)
params = {"w": jnp.ones(3), "b": jnp.zeros(())}
def loss(p, x, y):
    return jnp.mean((x @ p["w"] + p["b"] - y) ** 2)
grads = jax.grad(loss)(params, x, y)
logits = jnp.ones((4, 3))
"""

ADAM = "opt = optax.adam(0.1)\nstate = opt.init(params)\n"

FIXED = [
    (
        "optax-update",
        "opt = optax.adamw(0.1)\nstate = opt.init(params)",
        "updates, state = opt.update(grads, state)\nout = optax.apply_updates(params, updates)",
        "opt.update(grads, state, params)",
        "is not given the parameters",
    ),
    (
        "optax-update",
        "opt = optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(0.1))\n@jax.jit\ndef step(p, s):\n"
        "    value, g = jax.value_and_grad(loss)(p, x, y)\n    u, s = opt.update(g, s)\n"
        "    return optax.apply_updates(p, u), s, value",
        "out = step(params, opt.init(params))",
        "opt.update(g, s, p)",
        "is not given the parameters",
    ),
    (
        "optax-update",
        "mlp = eqx.nn.MLP(3, 1, 4, 1, key=jax.random.key(0))\n"
        "class Trainer:\n    def __init__(self, model):\n        self.opt = optax.adamw(0.1)\n"
        "        self.state = self.opt.init(eqx.filter(model, eqx.is_array))\n"
        "    def step(self, model, x):\n        g = eqx.filter_grad(lambda m: jax.vmap(m)(x).mean())(model)\n"
        "        u, self.state = self.opt.update(g, self.state)\n        return eqx.apply_updates(model, u)",
        "out = Trainer(mlp).step(mlp, x)",
        "self.opt.update(g, self.state, model)",
        "is not given the parameters",
    ),
    ("optax-update", ADAM, "out, state = opt.update(state, grads)", "opt.update(grads, state)", "`state` is the optim"),
    (
        "optax-update",
        ADAM + "def step(params, state, x, y):\n    grads = jax.grad(loss)(params, x, y)\n"
        "    updates, state = opt.update(params, grads, state)\n    return updates",
        "out = step(params, state, x, y)",
        "opt.update(grads, state, params)",
        "stands where `update` takes the parameters",
    ),
    (
        "optax-update",
        ADAM,
        "updates = opt.update(grads, state)\nout = optax.apply_updates(params, updates)",
        "updates, state",
        "`updates` is a pair",
    ),
    ("optax-update", ADAM, "out, state = opt.update(grads['w'], state)", "opt.update(grads, state)", "is one array"),
    (
        "optax-update",
        ADAM,
        "value, grads = jax.value_and_grad(loss)(params, x, y)\nout, state = opt.update(value, state)",
        "opt.update(grads, state)",
        "is the value of the loss",
    ),
    ("optax-update", ADAM, "out, state = opt.update(grads)", "opt.update(grads, state)", "is given no state"),
    (
        "optax-update",
        "opt = optax.lbfgs()\nstate = opt.init(params)",
        "grads = jax.grad(loss)(params, x, y)\nout, state = opt.update(grads, state, params)",
        "value=loss(params, x, y), grad=grads, value_fn=lambda p: loss(p, x, y))",
        "is not given `value`, `grad` and `value_fn`",
    ),
    (
        "optax-update",
        "opt = optax.contrib.reduce_on_plateau()\nstate = opt.init(params)",
        "value, grads = jax.value_and_grad(loss)(params, x, y)\nout, state = opt.update(grads, state)",
        "opt.update(grads, state, value=value)",
        "is not given `value`",
    ),
    ("optax-update", "opt = optax.adam", "out = opt.init(params)", "optax.adam(0.001)", "it was not called"),
    (
        "optax-update",
        "",
        "out = optax.chain(optax.clip(1.0), optax.adam)",
        "optax.adam(0.001)",
        "`optax.adam` is the function",
    ),
    (
        "optax-labels",
        "labels = jax.nn.one_hot(jnp.arange(4) % 3, 3)",
        "out = optax.softmax_cross_entropy_with_integer_labels(logits, labels)",
        "optax.softmax_cross_entropy(logits, labels)",
        "holds a number for each class",
    ),
    (
        "optax-labels",
        "labels = jnp.arange(4) % 3",
        "out = jax.jit(lambda z: optax.softmax_cross_entropy(z, labels).mean())(logits)",
        "optax.softmax_cross_entropy_with_integer_labels(z, labels)",
        "holds class numbers, and `softmax_cross_entropy` takes probabilities",
    ),
    (
        "optax-labels",
        "labels = jnp.ones(4)",
        "out = optax.softmax_cross_entropy_with_integer_labels(logits=logits, labels=labels)",
        "labels.astype(int)",
        "class numbers as floats",
    ),
    (
        "optax-schedule",
        "warmup, total = 100, 50",
        "out = optax.warmup_cosine_decay_schedule(0.0, 0.1, warmup_steps=warmup, decay_steps=total)",
        "decay_steps=warmup + total",
        "`decay_steps` is total",
    ),
    (
        "tree-arithmetic",
        "",
        "out = params - 0.1 * grads",
        "jax.tree.map(lambda params, grads: params - 0.1 * grads, params, grads)",
        "`params` and `grads` are trees of arrays",
    ),
    (
        "tree-arithmetic",
        "class Trainer:\n    def __init__(self, params):\n        self.params = params\n"
        "    def step(self, grads, lr):\n        self.params -= lr * grads\n        return self.params",
        "out = jax.jit(lambda p, g, lr: Trainer(p).step(g, lr))(params, grads, 0.1)",
        "self.params = jax.tree.map(lambda params, grads: params - lr * grads, self.params, grads)",
        "are trees of arrays",
    ),
    (
        "tree-arithmetic",
        "layers = [(jnp.ones((3, 2)), jnp.ones(2)), (jnp.ones((2, 1)), jnp.ones(1))]",
        "out = 0.5 * layers",
        "jax.tree.map(lambda layers: 0.5 * layers, layers)",
        "`layers` is a list of arrays",
    ),
    (
        "tree-arithmetic",
        "class P(NamedTuple):\n    w: jax.Array\n    b: jax.Array\np = P(jnp.ones(3), jnp.zeros(3))",
        "out = p * 0.5",
        "jax.tree.map(lambda p: p * 0.5, p)",
        "`p` is a P of arrays",
    ),
    (
        "tree-arithmetic",
        "layer = eqx.nn.Linear(3, 2, key=jax.random.key(0))",
        "grads = jax.grad(lambda m: m(x[0]).sum())(layer)\nout = layer - 0.1 * grads",
        "jax.tree.map(lambda layer, grads: layer - 0.1 * grads, layer, grads)",
        "are trees of arrays",
    ),
]


@pytest.mark.parametrize(("rule", "before", "call", "fix", "said"), FIXED)
def test_updates_losses_and_schedules_are_put_right(rule: str, before: str, call: str, fix: str, said: str):
    program = failed(IMPORTS + before, call)
    assert program.finding.rule == rule
    assert said in program.finding.title
    assert fix in program.finding.fix
    assert "out" in program.fixed().namespace


def test_a_list_of_numbers_is_made_an_array_and_no_tree_of_arrays():
    assert failed(IMPORTS, "x + [1.0, 2.0, 3.0]").finding.rule == "operand-not-array"


def test_what_an_optimizer_computes_inside_is_not_put_down_to_its_arguments():
    program = failed(
        IMPORTS + "opt = optax.adam(lambda step: None)\nstate = opt.init(params)", "opt.update(grads, state)"
    )
    assert program.failure.findings == ()
