"""Tracers that outlived their trace: who stored them, where, and the function that returns them instead."""

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
    assert "def traced_sample(key):" in program.finding.fix
    program.fixed()


@pytest.mark.parametrize(
    ("name", "transform", "call"),
    [("energy", "grad", "jax.grad(energy)(jnp.ones(3))"), ("square", "vmap", "jax.vmap(square)(jnp.ones((2, 3)))")],
)
def test_a_list_filled_under_grad_or_vmap_is_found_though_jax_names_no_line(name: str, transform: str, call: str):
    program = failed(
        IMPORTS + f"seen = []\ndef {name}(w):\n    a = jnp.tanh(w)\n    seen.append(a)\n    return a.sum()\n{call}",
        "seen[0] + 1",
    )
    assert program.finding.title.startswith(f"`seen[0]` is a tracer of {transform} of `{name}`")
    assert f"stored by `seen.append(a)` in `{name}`" in program.evidence
    assert "return (a.sum(), a)" in program.finding.fix
    assert program.fixed().namespace["seen"][0].shape[-1] == 3


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
    assert program.fixed().namespace["hooks"]["double"]() == 2.0


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
    assert program.finding.fix.startswith("def tick(c, x):\n")
    assert program.fixed().namespace["c"].n[...] == 1


KEPT = [
    (
        "from functools import partial\nclass Box:\n    @partial(jax.jit, static_argnums=0)\n    def apply(self, a):\n"
        "        out = a * 2\n        self.cache = out\n        return out\nbox = Box()",
        "box.apply(jnp.ones(2))",
        "import numpy as np\nout = np.array(box.cache).sum()",
        4.0,
    ),
    (
        "history = {'loss': []}\n@jax.jit\ndef step(w, x):\n    loss = ((w * x) ** 2).sum()\n"
        "    history['loss'].append(loss)\n    return w - 0.1 * loss",
        "w = step(step(1.0, 2.0), 2.0)",
        "out = sum(map(float, history['loss']))\nfloat(history['loss'][0])",
        4.0 + (0.6 * 2) ** 2,
    ),
    (
        "best = None\n@jax.jit\ndef evaluate(x):\n    global best\n    best = x.max()\n    return x.sum()",
        "evaluate(jnp.arange(3.0))",
        "out = 1.0 if best > 1 else 0.0",
        1.0,
    ),
    (
        "@jax.jit\ndef norm(x, *, scale=1.0):\n    s = jnp.sum(x)\n    norm.last = s * scale\n    return x / s",
        "norm(jnp.ones(3), scale=2.0)",
        "out = norm.last * 2",
        12.0,
    ),
    (
        "class Recorder:\n    def __init__(self):\n        self.values = []\n    def step(self, c, x):\n"
        "        c = c + x\n        self.values.append(c)\n        return c, c\nrec = Recorder()",
        "jax.lax.scan(rec.step, 0.0, jnp.arange(3.0))\njax.effects_barrier()",
        "out = jnp.stack(rec.values).sum()",
        4.0,
    ),
    (
        "metrics = {}\ndef loss(p, x):\n    metrics.update(norm=jnp.abs(x @ p).sum())\n    return (x @ p).sum()\n"
        "@jax.jit\ndef step(p, x):\n    return jax.value_and_grad(loss)(p, x)",
        "step(jnp.ones(2), jnp.ones((3, 2)))\njax.effects_barrier()",
        "out = metrics['norm'] + 0",
        6.0,
    ),
    (
        "import functools\n@functools.lru_cache\ndef table(n):\n    return jnp.arange(n) * 2.0\n"
        "f = jax.jit(lambda x: x * table(3).sum())",
        "f(1.0)",
        "out = table(3)[2] + 0",
        4.0,
    ),
    (
        "import functools\nclass Grid:\n    @functools.cached_property\n    def points(self):\n"
        "        return jnp.linspace(0, 1, 3)\ngrid = Grid()",
        "jax.jit(lambda x: x * grid.points)(1.0)",
        "out = grid.points * 2\nout = out[2]",
        2.0,
    ),
]


@pytest.mark.parametrize(("before", "call", "use", "result"), KEPT)
def test_what_was_kept_is_stored_by_the_fix_with_its_value(before: str, call: str, use: str, result: float):
    program = failed(IMPORTS + before, call, use)
    assert program.finding.rule == "leaked-tracer"
    assert "used after that trace ended" in program.finding.title
    assert program.finding.evidence[0].span is not None
    assert program.finding.evidence[0].span.file == next(iter(program.notebook.cells))
    assert jnp.allclose(program.fixed().namespace["out"], result)


def test_of_two_stores_the_one_that_holds_the_tracer_is_blamed():
    program = failed(
        IMPORTS
        + "a, b = [], []\n@jax.jit\ndef f(x):\n    a.append(x)\n    b.append(x * 2)\n    a.clear()\n    return x",
        "f(1.0)",
        "held = b\nheld[0] + 1",
    )
    assert program.finding.title.startswith("`held[0]` is a tracer of jit of `f`")
    assert program.finding.evidence[0].text == "stored by `b.append(x * 2)` in `f`"


def test_the_dead_tracer_is_told_from_the_arguments_of_the_function_that_meets_it():
    program = failed(
        IMPORTS + "kept = []\n@jax.jit\ndef f(x):\n    kept.append(x * 2)\n    return x\nf(1.0)",
        "jax.jit(lambda y: y + kept[0])(2.0)",
    )
    assert "stored by `kept.append(x * 2)` in `f`" in program.evidence
    assert "`y`" not in program.finding.title


def test_a_default_value_that_collects_is_named():
    cell = "@jax.jit\ndef push(x, acc=[]):\n    acc.append(x)\n    return sum(acc)\npush(1.0)"
    program = failed(IMPORTS + cell, "push(jnp.ones(2))")
    assert "its default value (which is made once, with the function)" in program.finding.explanation


def test_a_rule_given_to_defvjp_closes_over_the_tracer_too():
    program = failed(
        IMPORTS + "def make(limit):\n    @jax.custom_vjp\n    def clip(x):\n        return x\n"
        "    def bwd(_, g):\n        return (jnp.clip(g, -limit, limit),)\n"
        "    clip.defvjp(lambda x: (x, None), bwd)\n    return clip\n"
        "@jax.jit\ndef loss(limit, w):\n    return make(limit)(w).sum()",
        "jax.grad(loss, argnums=1)(0.5, jnp.ones(3))",
    )
    assert program.finding.title == "the custom rule of `clip` closes over `limit`, a tracer of the enclosing function"


def test_a_module_used_in_other_ways_gets_no_fix_that_would_break_them():
    program = failed(
        IMPORTS + "from flax import nnx\nclass Mean(nnx.Module):\n    def __init__(self):\n"
        "        self.avg = nnx.Variable(jnp.array(0.0))\nmean = Mean()",
        "def loss(x):\n    mean.avg[...] = x\n    return x\nnnx.grad(loss)(1.0)",
    )
    assert program.finding.rule == "state-from-outside"
    assert not program.finding.fix


CUSTOM = [
    (
        "def make(scale):\n    @jax.custom_vjp\n    def f(x): return x * scale\n"
        "    f.defvjp(lambda x: (f(x), None), lambda _, g: (g * scale,))\n    return f",
        (6.0, 2.0, 3.0),
    ),
    (
        "def make(limit):\n    @jax.custom_vjp\n    def clip(x):\n        return x * 3\n    def fwd(x):\n"
        "        y = clip(x)\n        return y, (x, y)\n    def bwd(res, g):\n        x, y = res\n"
        "        return (jnp.clip(g * 3, -limit, limit),)\n    clip.defvjp(fwd, bwd)\n    return clip",
        (9.0, 2.0, 0.0),
    ),
]


@pytest.mark.parametrize(("number", "argument"), [(0, 0), (0, 1), (1, 1)])
def test_a_custom_rule_gets_the_variable_as_an_argument(number: int, argument: int):
    before, results = CUSTOM[number]
    cell = IMPORTS + before + "\n@jax.jit\ndef loss(s, x):\n    return make(s)(x)\nvalue = loss(2.0, 3.0)"
    program = failed(cell, f"out = jax.grad(loss, argnums={argument})(2.0, 3.0)")
    assert program.finding.rule == "captured-by-custom-rule"
    names = program.fixed().namespace
    assert (names["value"], names["out"]) == (results[0], results[2 - argument])
