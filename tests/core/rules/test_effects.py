"""Counters, lists and attributes that a compiled function changes while it is traced, and not when its program runs."""

import jax
import pytest
from observed_cells import watched

IMPORTS = "import jax, jax.numpy as jnp\nfrom functools import partial\n"

ONCE = [
    (
        "calls = 0\n@jax.jit\ndef step(w):\n    global calls\n    calls += 1\n    return w * 0.9\nw = jnp.ones(2)\n"
        "for _ in range(5):\n    w = step(w)",
        "`calls += 1` ran once, though `step` was called 5 times",
    ),
    (
        "seen = []\ndef helper(x):\n    seen.append(x.shape)\n    return x * 2\nf = jax.jit(lambda x: helper(x))\n"
        "out = [f(jnp.ones(2)) for _ in range(3)]",
        "`seen.append(x.shape)` ran once, though `<lambda>` was called 3 times",
    ),
    (
        "class Env:\n    def __init__(self):\n        self.n = 0\n    @partial(jax.jit, static_argnums=0)\n"
        "    def step(self, s):\n        self.n += 1\n        return s * 0.9\ne = Env()\n"
        "out = [e.step(jnp.ones(2)) for _ in range(4)]",
        "`self.n += 1` ran once, though `Env.step` was called 4 times",
    ),
    (
        "class Trainer:\n    def __init__(self):\n        self.log = {}\n    def make(self):\n        @jax.jit\n"
        "        def step(w):\n            self.log['last'] = 'step'\n            return w * 0.9\n        return step\n"
        "step = Trainer().make()\nout = step(step(jnp.ones(2)))",
        "`self.log['last'] = 'step'` ran once, though `step` was called 2 times",
    ),
    (
        "import io\nfile = io.StringIO()\n@jax.jit\ndef step(w):\n    file.write('step')\n    return w * 0.9\n"
        "out = step(step(jnp.ones(2)))",
        "`file.write('step')` ran once, though `step` was called 2 times",
    ),
]


DEFAULTS = [
    (
        "@jax.jit\ndef f(x, seen=[]):\n    seen.append(x.shape)\n    return x * len(seen)\n"
        "out = [f(jnp.ones(2)) for _ in range(3)]",
        ["stale-program"],
    ),
    (
        "class Net:\n    @partial(jax.jit, static_argnums=0)\n    def call(self, x, *, log={}):\n        log['n'] = 1\n"
        "        return x * 2\nnet = Net()\nout = [net.call(jnp.ones(2)) for _ in range(3)]",
        ["effect-once"],
    ),
    (
        "@jax.jit\ndef f(x, parts=[]):\n    parts.append(x)\n    return sum(parts)\n"
        "out = [f(jnp.ones(2), [1.0]) for _ in range(3)]",
        [],
    ),
    (
        "@jax.jit\ndef f(x, parts=[]):\n    parts = parts + [x]\n    return sum(parts)\n"
        "out = [f(jnp.ones(2)) for _ in range(3)]",
        [],
    ),
]


@pytest.mark.parametrize(("body", "rules"), DEFAULTS)
def test_a_default_value_that_is_changed_keeps_what_the_first_call_put_there(body: str, rules: list[str]):
    assert watched(IMPORTS + body).rules == rules


@pytest.mark.parametrize(("body", "title"), ONCE)
def test_an_effect_that_the_program_does_not_repeat_is_a_note(body: str, title: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["effect-once"]
    assert cell.found("effect-once").title == title
    assert cell.found("effect-once").severity == "note"
    if cell.found("effect-once").fix:
        fixed = cell.fixed("effect-once")
        assert fixed.rules == []
        assert fixed.report.failure is None


def test_a_callback_does_it_at_every_call():
    cell = watched(IMPORTS + ONCE[1][0])
    cell = cell.fixed("effect-once", "out = [", "jax.effects_barrier()\nout = [")
    jax.effects_barrier()
    assert len(cell.notebook.namespace["seen"]) == 3
    cell = watched(IMPORTS + ONCE[2][0]).fixed("effect-once")
    jax.effects_barrier()
    assert cell.notebook.namespace["e"].n == 4
    assert watched(IMPORTS + ONCE[4][0]).found("effect-once").fix == "jax.debug.callback(lambda: file.write('step'))"


SCAN = "jax.lax.scan(body, 0.0, jnp.arange(10.0))"
PASSES = [
    (
        "seen = []\n@jax.jit\ndef f(x):\n    def body(c, t):\n        seen.append(1)\n        return c + t, c\n"
        "    return jax.lax.scan(body, 0.0, x)\nout = f(jnp.arange(10.0))\njax.effects_barrier()\ncount = len(seen)",
        "seen.append(1)",
    ),
    (
        "stats = {'n': 0}\ndef body(c):\n    stats['n'] += 1\n    return c + 1\n"
        "out = jax.lax.while_loop(lambda c: c < 10, body, 0)",
        "stats['n'] += 1",
    ),
    (
        "class Run:\n    def __init__(self):\n        self.n = 0\n    def body(self, c, t):\n        self.n += 1\n"
        "        return c + t, c\nr = Run()\nout = jax.lax.scan(r.body, 0.0, jnp.arange(10.0))\n"
        "jax.effects_barrier()\ncount = r.n",
        "self.n += 1",
    ),
    (
        "def total():\n    n = 0\n    def body(i, c):\n        nonlocal n\n        n += 1\n        return c + i\n"
        "    return jax.lax.fori_loop(0, 10, body, 0), n\nout = total()",
        "n += 1",
    ),
]


@pytest.mark.parametrize(("body", "marked"), PASSES)
def test_an_effect_in_the_body_of_a_compiled_loop_is_a_note_and_a_callback_runs_in_every_pass(body: str, marked: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["effect-once"]
    assert cell.marked("effect-once") == marked
    assert cell.found("effect-once").title.endswith("though `body` is the body of a compiled loop")
    if cell.found("effect-once").fix:
        fixed = cell.fixed("effect-once")
        assert fixed.rules == []
        assert fixed.notebook.namespace["count"] == 10


def test_a_count_that_the_body_of_a_loop_computes_with_is_that_of_its_first_pass():
    cell = watched(IMPORTS + "n = 0\ndef body(c, t):\n    global n\n    n += 1\n    return c + n * t, c\nout = " + SCAN)
    assert cell.rules == ["stale-program"]
    assert cell.found("stale-program").title == "`body` computes with the `n` of its first pass in all"


OWN = [
    "def body(c, t):\n    parts = []\n    for k in range(3):\n        parts.append(c * k)\n    return sum(parts), t\n"
    f"out = {SCAN}",
    "@jax.jit\ndef f(x):\n    def body(c, t):\n        return c + t, c\n    parts = []\n    for k in range(3):\n"
    "        parts.append(jax.lax.scan(body, 0.0, x)[0])\n    return sum(parts)\nout = f(jnp.arange(4.0))",
    "seen = []\ndef f(x):\n    seen.append(1)\n    return x * 2\nout = jax.vmap(f)(jnp.arange(4.0))",
    "shapes = {}\ndef body(c, t):\n    if 'c' not in shapes:\n        shapes['c'] = c.shape\n    return c + t, c\n"
    f"out = {SCAN}",
    "class Acc:\n    def __init__(self):\n        self.total, self.items = 0, []\n    def push(self, v):\n"
    "        self.total = self.total + v\n        self.items.append(v)\n@jax.jit\ndef f(x):\n    acc, out = Acc(), []\n"
    "    for i in range(3):\n        acc.push(x * i)\n    out.append(acc.total)\n    return out\n"
    "out = f(jnp.ones(2)), f(jnp.ones(2))",
    "import numpy as np\ntables = {}\ndef table(n):\n    if n not in tables:\n"
    "        tables[n] = np.arange(n, dtype=np.float32)\n    return tables[n]\n"
    "f = jax.jit(lambda x: x * table(x.shape[0]))\nout = f(jnp.ones(4)), f(jnp.ones(4))",
    "log = []\n@jax.jit\ndef f(x):\n    return x * 2\nfor _ in range(3):\n    log.append(f(1.0))",
    "traced = 0\n@jax.jit\ndef f(x):\n    global traced\n    traced += 1\n    return x\nout = f(1.0)",
]


@pytest.mark.parametrize("body", OWN)
def test_what_is_made_in_the_trace_caches_and_single_calls_are_left_alone(body: str):
    assert watched(IMPORTS + body).rules == []
