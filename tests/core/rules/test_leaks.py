"""Tracers that outlived their trace: who stored them, where, and the function that returns them instead."""

from typing import Any

import jax.numpy as jnp
import pytest
from failing_cells import failed

IMPORTS = "import jax, jax.numpy as jnp\n"


def test_a_global_key_is_blamed_on_the_line_that_overwrote_it():
    program = failed(
        IMPORTS + "key = jax.random.key(0)\n@jax.jit\ndef sample():\n    global key\n"
        "    key, sub = jax.random.split(key)\n    return jax.random.normal(sub)\nsample()",
        "jax.random.normal(key)",
    )
    assert program.finding.rule == "leaked-tracer"
    assert program.finding.title.startswith("`key` is a tracer of jit of `sample`")
    assert program.finding.evidence[0].span is not None
    assert program.finding.evidence[0].span.line == 6
    assert "key, sub = jax.random.split(key)" in program.evidence
    assert "def sample(key):" in program.finding.fix


@pytest.mark.parametrize(
    ("transform", "call"), [("grad", "jax.grad(loss)(jnp.ones(3))"), ("vmap", "jax.vmap(loss)(jnp.ones((2, 3)))")]
)
def test_a_list_filled_under_grad_or_vmap_is_found_though_jax_names_no_line(transform: str, call: str):
    program = failed(
        IMPORTS + f"seen = []\ndef loss(w):\n    a = jnp.tanh(w)\n    seen.append(a)\n    return a.sum()\n{call}",
        "seen[0] + 1",
    )
    assert program.finding.title.startswith(f"`seen[0]` is a tracer of {transform} of `loss`")
    assert "stored by `seen.append(a)` in `loss`" in program.evidence
    assert "return (a.sum(), a)" in program.finding.fix
    names: dict[str, Any] = program.notebook.namespace | {"seen": []}
    exec(program.finding.fix, names)
    assert len(names["loss"](jnp.ones(3))) == 2


def test_a_scan_body_that_collects_becomes_one_that_returns():
    program = failed(
        IMPORTS
        + "@jax.jit\ndef rollout(x):\n    traj = []\n    def step(c, _):\n        c = c * 0.5\n        traj.append(c)\n"
        "        return c, None\n    x, _ = jax.lax.scan(step, x, None, length=3)\n    return jnp.stack(traj)",
        "out = rollout(1.0)",
    )
    assert "tracer of scan of `step`" in program.finding.title
    assert "one jit" in program.finding.explanation
    assert jnp.allclose(program.fixed().namespace["out"], jnp.array([0.5, 0.25, 0.125]))


def test_a_stored_closure_over_an_argument_is_found_though_jax_prints_no_line():
    program = failed(
        IMPORTS + "hooks = {}\n@jax.jit\ndef f(x):\n    hooks['double'] = lambda: x * 2\n    return x\nf(1.0)",
        "hooks['double']()",
    )
    assert program.text == "x * 2"
    assert "`x` of `f` is kept by the closure of the lambda" in program.finding.explanation
    assert "stored in `hooks`" in program.finding.explanation


def test_an_attribute_set_in_a_method_is_a_leak_of_the_object():
    program = failed(
        IMPORTS + "class Tracker:\n    def step(self, x):\n        self.last = x * 2\n        return x\n"
        "t = Tracker()\njax.jit(t.step)(1.0)",
        "t.last + 1",
    )
    assert program.finding.rule == "leaked-tracer"
    assert "self.last = x * 2" in program.evidence


def test_a_custom_rule_that_closes_over_a_tracer_names_the_variable():
    cells = (
        IMPORTS + "def make(scale):\n    @jax.custom_vjp\n    def f(x): return x * scale\n"
        "    f.defvjp(lambda x: (f(x), None), lambda _, g: (g * scale,))\n    return f\n"
        "@jax.jit\ndef loss(s, x):\n    return make(s)(x)",
        "jax.grad(loss, argnums=0)(2.0, 3.0)",
    )
    program = failed(*cells)
    assert program.finding.rule == "captured-by-custom-rule"
    assert "`f` closes over `scale`" in program.finding.title
    assert program.finding.span is not None
    assert program.finding.span.line == 4


def test_an_nnx_module_from_outside_becomes_an_argument():
    program = failed(
        IMPORTS + "from flax import nnx\nclass Counter(nnx.Module):\n    def __init__(self):\n"
        "        self.n = nnx.Variable(jnp.array(0))\nc = Counter()",
        "@nnx.jit\ndef tick(x):\n    c.n[...] = c.n[...] + 1\n    return x\ntick(1.0)",
    )
    assert program.finding.rule == "state-from-outside"
    assert program.finding.title == "`c.n` belongs to `c`, which lives outside the transformed function"
    assert program.finding.fix == "def tick(c, x):"
