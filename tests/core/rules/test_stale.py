"""Programs that are older than what they read, within one cell."""

import pytest
from observed_cells import watched

IMPORTS = "import jax, jax.numpy as jnp\nfrom functools import partial\n"

REBOUND = [
    (
        "class Model:\n    def __init__(self): self.scale = 2.0\n    def apply(self, x): return x * self.scale\n"
        "m = Model()\nf = jax.jit(m.apply)\nf(1.0)\nm.scale = 10.0\nout = f(1.0)",
        "m.scale",
        "2.0",
    ),
    (
        "w0, rate = 1.0, 0.5\n@jax.jit\ndef step(w):\n    return w - rate * w\na = step(w0)\nrate = 0.25\nb = step(w0)",
        "rate",
        "0.5",
    ),
    (
        "class Net:\n    def __init__(self): self.power = 2\n    @partial(jax.jit, static_argnums=0)\n"
        "    def forward(self, x):\n        return x * self.power\nnet = Net()\nnet.forward(jnp.ones(2))\n"
        "net.power = 3\nout = net.forward(jnp.ones(2))",
        "net.power",
        "",
    ),
    (
        "config = {'gain': 1.5}\n@jax.jit\ndef amplify(x):\n    return x * config['gain']\na = amplify(1.0)\n"
        "config['gain'] = 9.0\nb = amplify(1.0)",
        "config['gain']",
        "1.5",
    ),
    (
        "class Model:\n    def __init__(self): self.scale = 2.0\n    def apply(self, x): return x * self.scale\n"
        "m = Model()\nf = jax.jit(m.apply)\nf(1.0)\nm.scale = 10.0\ng = jax.jit(m.apply)\nout = f(1.0), g(1.0)",
        "m.scale",
        "2.0",
    ),
    (
        "def act(x):\n    return jnp.tanh(x)\n@jax.jit\ndef layer(x):\n    return act(x)\na = layer(1.0)\n"
        "def act(x):\n    return jnp.sin(x)\nb = layer(1.0)",
        "act",
        "",
    ),
]


@pytest.mark.parametrize(("body", "target", "old"), REBOUND)
def test_what_changed_between_two_calls_is_named_with_its_old_value(body: str, target: str, old: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["stale-program"]
    title = cell.found("stale-program").title
    assert f"still uses the old `{target}`" in title
    assert old in title


def test_the_changed_global_becomes_an_argument():
    cell = watched(IMPORTS + REBOUND[1][0])
    fixed = cell.fixed("stale-program", "step(w0)", "step(w0, rate)")
    assert fixed.rules == []
    assert fixed.notebook.namespace["b"] == 0.75


@pytest.mark.parametrize(
    "body",
    [
        "rate = 0.5\nrate = 0.25\n@jax.jit\ndef step(w):\n    return w - rate * w\nw = step(1.0)\nw = step(w)",
        "rate = 0.5\n@jax.jit\ndef step(w):\n    return w - rate * w\nw = step(1.0)\nrate = 0.25\n"
        "w = step(jnp.ones(2))",
        "rate = 0.5\n@jax.jit\ndef step(w, rate):\n    return w - rate * w\nw = step(1.0, rate)\nrate = 0.25\n"
        "w = step(w, rate)",
        "@jax.jit\ndef step(w):\n    return w * 0.9\nw = 1.0\nfor i in range(3):\n    w = step(w)\n    loss = w",
    ],
)
def test_arguments_new_traces_and_earlier_changes_are_not_stale(body: str):
    rules = watched(IMPORTS + body).rules
    assert "stale-program" not in rules
