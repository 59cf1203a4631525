"""Programs that are older than what they read, within one cell."""

import jax.numpy as jnp
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


BETWEEN_PASSES = [
    (
        "beta = 0.0\n@jax.jit\ndef loss(x):\n    return (x ** 2).sum() + beta * x.sum()\n"
        "for beta in (0.0, 0.5, 1.0):\n    out = loss(jnp.ones(3))",
        "beta",
    ),
    (
        "lr = 0.5\n@jax.jit\ndef step(w):\n    return w - lr * w\nw = jnp.ones(2)\nfor _ in range(3):\n"
        "    w = step(w)\n    lr *= 0.5",
        "lr",
    ),
    (
        "class Trainer:\n    def __init__(self):\n        self.lr = 0.1\n    @partial(jax.jit, static_argnums=0)\n"
        "    def step(self, w):\n        return w - self.lr * w\n    def fit(self, w):\n        for _ in range(3):\n"
        "            w = self.step(w)\n            self.lr = self.lr * 0.9\n        return w\n"
        "out = Trainer().fit(jnp.ones(2))",
        "self.lr",
    ),
    (
        "def train(w):\n    beta = 0.0\n    @jax.jit\n    def step(w):\n        return w - beta * w\n"
        "    for i in range(3):\n        beta = i / 3\n        w = step(w)\n    return w\nout = train(jnp.ones(2))",
        "beta",
    ),
    (
        "config = {'temp': 1.0}\ndef scale(x):\n    return x / config['temp']\n@jax.jit\ndef probs(x):\n"
        "    return jax.nn.softmax(scale(x))\na = probs(jnp.arange(3.0))\nconfig['temp'] = 0.1\n"
        "b = probs(jnp.arange(3.0))",
        "config['temp']",
    ),
]


@pytest.mark.parametrize(("body", "target"), BETWEEN_PASSES)
def test_what_changes_between_passes_or_is_read_by_a_helper_is_found(body: str, target: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["stale-program"]
    assert f"still uses the old `{target}`" in cell.found("stale-program").title


def test_a_setting_of_a_loop_becomes_an_argument():
    cell = watched(IMPORTS + BETWEEN_PASSES[0][0])
    fixed = cell.fixed("stale-program", "loss(jnp.ones(3))", "loss(jnp.ones(3), beta)")
    assert fixed.rules == []
    assert fixed.notebook.namespace["out"] == 6.0


def test_both_values_are_told_where_the_new_one_stands_there():
    body = (
        "rate = 0.5\n@jax.jit\ndef step(w: float) -> float:\n    return w - rate * w\n"
        "a = step(1.0)\nrate = 0.25\nb = step(1.0)"
    )
    cell = watched(IMPORTS + body)
    assert cell.found("stale-program").title.endswith("`rate`: 0.5 in the program, 0.25 now")
    assert cell.found("stale-program").fix == "def step(w: float, rate) -> float:"
    assert cell.fixed("stale-program", "= step(1.0)", "= step(1.0, rate)").rules == []


COUNTED = [
    (
        "t = 0\n@jax.jit\ndef sgd(w):\n    global t\n    t = t + 1\n    return w - 0.5 / t\nw = jnp.ones(2)\n"
        "for _ in range(3):\n    w = sgd(w)",
        "t = t + 1",
    ),
    (
        "class Adam:\n    def __init__(self):\n        self.t = 0\n    @partial(jax.jit, static_argnums=0)\n"
        "    def update(self, p):\n        self.t += 1\n        return p / (1 - 0.9 ** self.t)\n"
        "opt, p = Adam(), jnp.ones(2)\nfor _ in range(3):\n    p = opt.update(p)",
        "self.t += 1",
    ),
    (
        "def make():\n    count = 0\n    @jax.jit\n    def f(x):\n        nonlocal count\n        count += 1\n"
        "        return x * count\n    return f\nf = make()\nout = f(1.0), f(1.0)",
        "count += 1",
    ),
]


@pytest.mark.parametrize(("body", "marked"), COUNTED)
def test_a_count_that_the_program_computes_with_stays_at_its_first_value(body: str, marked: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["stale-program"]
    assert cell.marked("stale-program") == marked


FRESH = [
    "debug = False\n@jax.jit\ndef f(x):\n    return x * 2 if debug else x\nfor _ in range(3):\n    debug = False\n"
    "    out = f(jnp.ones(2))",
    "lr = 0.1\n@jax.jit\ndef step(w):\n    return w - lr * w\ndef train(w):\n    lr = 0.5\n    for _ in range(3):\n"
    "        w = step(w)\n        lr = lr * 0.5\n    return w\nout = train(jnp.ones(2))",
    "def fit(rates):\n    for rate in rates:\n        step = jax.jit(lambda w: w - rate * w)\n"
    "        w = step(step(jnp.ones(2)))\n    return w\nout = fit((0.1, 0.2))",
    "class A:\n    def __init__(self, s): self.scale = s\n    def f(self, x): return x * self.scale\n"
    "class B:\n    scale = 0\na, b = A(2.0), B()\nf = jax.jit(a.f)\nf(1.0)\nb.scale = 7\nout = f(1.0)",
    "from flax import nnx\nclass Count(nnx.Variable):\n    pass\nclass C(nnx.Module):\n    def __init__(self):\n"
    "        self.n = Count(jnp.array(0))\n    def __call__(self, x):\n        self.n[...] += 1\n"
    "        return x * self.n[...]\nc = C()\n"
    "f = nnx.jit(lambda c, x: c(x))\nout = [f(c, jnp.ones(2)) for _ in range(3)]",
]


@pytest.mark.parametrize("body", FRESH)
def test_other_variables_new_functions_and_kept_state_are_not_stale(body: str):
    assert watched(IMPORTS + body).rules == []


F = "@jax.jit\ndef f(x):\n    "
LATER = [
    (
        "from dataclasses import dataclass\n@dataclass\nclass C:\n    lr: float = 0.1\ncfg = C()\n"
        + F
        + "return x - cfg.lr * x",
        "cfg.lr = 0.5",
        "`cfg.lr`: 0.1 in the program, 0.5 now",
        "cfg.lr",
    ),
    ("class Cfg:\n    gain = 1.5\n" + F + "return x * Cfg.gain", "Cfg.gain = 2.5", "`Cfg.gain`: 1.5 in", "Cfg.gain"),
    ("power = 2\n" + F + "return x ** power", "power = 3", "`power`: 2 in the program, 3 now", "power"),
    ("n = 3\n" + F + "return jnp.zeros(n) + x", "n = 1", "`n`: 1 now", "n"),
    (
        "big = False\n" + F + "y = x * 2\n    if big:\n        y = y + 1\n    return y",
        "big = True",
        "`big`: True now",
        "big",
    ),
    (
        "config = {'model': {'drop': 0.5}}\n" + F + "rate = config['model']['drop']\n    return x * (1 - rate)",
        "config['model']['drop'] = 0.25",
        "`config['model']['drop']`: 0.25 now",
        "config['model']['drop']",
    ),
    ("W = jnp.eye(3)\n" + F + "return W @ jnp.ones(3) * x", "W = W * 2", "`W`", "W"),
    ("a, b = 1.5, 2.0\n" + F + "return x * a + b", "b = 4.0", "`b`: 2.0 in the program, 4.0 now", "b"),
    (
        "def act(x):\n    return jnp.tanh(x)\n" + F + "return act(x)",
        "def act(x):\n    return jnp.sin(x)",
        "`act`: tanh",
        "",
    ),
    (
        "import types\nlib = types.ModuleType('lib')\nlib.act = lambda x: x * 2.0\n" + F + "return lib.act(x)",
        "lib.act = lambda x: x * 3.0",
        "`lib.act`: 2.0 in the program, 3.0 now",
        "",
    ),
    (
        "import functools\ndef scaled(g):\n    @functools.wraps(g)\n    def wrap(*a):\n        return g(*a) * FACTOR\n"
        "    return wrap\nFACTOR = 2.0\n@jax.jit\n@scaled\ndef f(x):\n    return x + 1",
        "FACTOR = 3.0",
        "`FACTOR`: 2.0 in the program, 3.0 now",
        "",
    ),
    (
        "decay = 0.5\n" + F + "def body(c, _):\n        return c * decay, None\n"
        "    return jax.lax.scan(body, x, None, length=3)[0]",
        "decay = 0.25",
        "`decay`: 0.5 in the program, 0.25 now",
        "",
    ),
    (
        "def make():\n    state = [1.0]\n    return state, jax.jit(lambda x: x + state[0])\nstate, f = make()",
        "state[0] = 4.0",
        "`state[0]`: 1.0 in the program, 4.0 now",
        "",
    ),
    ("eps = 1e-3\ndef norm(x):\n    return x / eps\n" + F + "return norm(x)", "eps = 1.0", "`eps`: 0.001 in", ""),
    ("lr = 0.1\n" + F + "return x - lr * x", "del lr", "`lr`", ""),
]


@pytest.mark.parametrize(("first", "change", "title", "argument"), LATER)
def test_what_a_later_cell_changed_is_named_and_becomes_an_argument(first: str, change: str, title: str, argument: str):
    cell = watched(IMPORTS + first + "\nbefore = f(1.0)", f"{change}\nout = f(1.0)")
    assert cell.rules == ["stale-program"]
    found = cell.found("stale-program")
    assert f"still uses the old {title}" in found.title
    assert cell.marked("stale-program") == "f(1.0)"
    assert f"changed here: {change.splitlines()[0]}" in [each.text for each in found.evidence]
    assert bool(found.fix) == bool(argument)
    if argument:
        fixed = cell.fixed("stale-program", "f(1.0)", f"f(1.0, {argument})")
        assert fixed.rules == []
        again = watched(IMPORTS + first + f"\n{change}", "out = f(1.0)").notebook.namespace
        assert jnp.array_equal(fixed.notebook.namespace["out"], again["out"])


CHANGED_IN_OTHER_WAYS = [
    ("layers = [2.0]\n" + F + "for w in layers:\n        x = x * w\n    return x", "layers.append(3.0)", "layers"),
    ("cfg = dict(k=2.0)\n" + F + "return x * cfg['k']", "cfg.update(k=3.0)", "cfg"),
    ("import types\ncfg = types.SimpleNamespace(k=2.0)\n" + F + "return x * cfg.k", "setattr(cfg, 'k', 3.0)", "cfg.k"),
    ("k = 2.0\ndef set_k(v):\n    global k\n    k = v\n" + F + "return x * k", "set_k(3.0)", "k"),
    (
        "class M:\n    def __init__(self): self.s = 2.0\n    def set(self, v): self.s = v\n"
        "    @partial(jax.jit, static_argnums=0)\n    def f(self, x): return x * self.s\nm = M()\nf = lambda x: m.f(x)",
        "m.set(3.0)",
        "self.s",
    ),
]


@pytest.mark.parametrize(("first", "change", "target"), CHANGED_IN_OTHER_WAYS)
def test_a_change_by_a_method_or_function_is_seen(first: str, change: str, target: str):
    call = "m.f(1.0)" if "class M" in first else "f(1.0)"
    cell = watched(f"{IMPORTS}{first}\na = {call}\n{change}\nb = {call}")
    assert cell.rules == ["stale-program"]
    assert f"still uses the old `{target}`" in cell.found("stale-program").title


UNCHANGED = [
    ("k = 2.0\n" + F + "return x * k", "k = 3.0\nk = 2.0"),
    ("cfg = {'k': 2.0, 'name': 'a'}\n" + F + "return x * cfg['k']", "cfg['name'] = 'b'"),
    ("k = 2.0\nlog = []\n" + F + "log.append(1)\n    return x * k", "log.append(2)"),
    ("k, j = 2.0, 1.0\n" + F + "return x * k", "j = 3.0"),
    ("k = 2.0\n" + F + "return x * k", "k = 3.0\nf.clear_cache()"),
]


@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize(("first", "change"), UNCHANGED)
def test_what_is_put_back_not_read_or_cleared_is_not_stale(first: str, change: str, cells: int):
    before, after = f"{IMPORTS}{first}\na = f(1.0)\n", f"{change}\nb = f(1.0)"
    cell = watched(before + after) if cells == 1 else watched(before, after)
    assert "stale-program" not in cell.rules
