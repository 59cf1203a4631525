"""Cells that end well and are wrong or slow: what is found, and that the fix removes it."""

import jax.numpy as jnp
import pytest
from observed_cells import watched

IMPORTS = "import jax, random, time, numpy as np, jax.numpy as jnp\n"


def test_numbers_drawn_by_numpy_and_python_are_found_with_the_frozen_values():
    cell = watched(
        IMPORTS + "np.random.seed(0)\n@jax.jit\ndef noisy(x):\n    return x + np.random.normal() + random.random()",
        "out = noisy(0.0), noisy(0.0)",
    )
    assert cell.rules == ["frozen-random"]
    finding = cell.found("frozen-random")
    assert [evidence.text for evidence in finding.evidence] == [
        "`np.random.normal()` is drawn here",
        "`random.random()` is drawn here",
    ]
    assert "1.764052" in finding.explanation
    fixed = cell.fixed("frozen-random", "noisy(0.0), noisy(0.0)", "[noisy(0.0, jax.random.key(i)) for i in (1, 2)]")
    assert fixed.rules == []
    first, second = fixed.notebook.namespace["out"]
    assert first != second


DRAWS = [
    ("np.random.uniform(-1.0, 1.0)", "jax.random.uniform(key, minval=-1.0, maxval=1.0)"),
    ("np.random.normal(2.0, 0.1, (3,))", "2.0 + 0.1 * jax.random.normal(key, (3,))"),
    ("np.random.randn(2, 3)", "jax.random.normal(key, (2, 3))"),
    ("np.random.rand()", "jax.random.uniform(key)"),
]


@pytest.mark.parametrize(("draw", "twin"), DRAWS)
def test_each_draw_has_its_twin(draw: str, twin: str):
    cell = watched(IMPORTS + f"@jax.jit\ndef f(x):\n    return x * {draw}\nout = f(1.0)")
    assert twin in cell.found("frozen-random").fix
    assert cell.fixed("frozen-random", "f(1.0)", "f(1.0, jax.random.key(0))").rules == []


def test_a_draw_in_a_scan_body_or_by_a_generator_is_frozen_too():
    cell = watched(
        IMPORTS + "rng = np.random.default_rng(0)\ndef step(c, x):\n    return c + rng.normal(), None\n"
        "out = jax.lax.scan(step, 0.0, None, length=3)"
    )
    assert cell.marked("frozen-random") == "rng.normal()"


def test_random_numbers_outside_of_compiled_code_are_nobodys_business():
    cell = watched(
        IMPORTS + "def batch():\n    return np.random.normal(size=3)\ndef loss(w):\n"
        "    return (w * np.random.normal()).sum()\n"
        "out = jax.jit(jnp.sum)(batch()), jax.grad(loss)(jnp.ones(3))"
    )
    assert cell.rules == []


def test_a_clock_read_in_a_compiled_function_is_only_possibly_wrong():
    cell = watched(IMPORTS + "@jax.jit\ndef f(x):\n    return x + time.time()\nf(1.0)")
    assert cell.marked("frozen-read") == "time.time()"
    assert not cell.found("frozen-read").sure


@pytest.mark.parametrize(
    ("update", "fix"),
    [
        ("x.at[0].set(0.0)", "x = x.at[0].set(0.0)"),
        ("x.at[1:].add(2.0)", "x = x.at[1:].add(2.0)"),
    ],
)
def test_an_update_that_nobody_takes_is_found(update: str, fix: str):
    cell = watched(IMPORTS + f"@jax.jit\ndef f(x):\n    {update}\n    return x\nout = f(jnp.ones(3))")
    assert cell.rules == ["update-dropped"]
    assert cell.found("update-dropped").fix == fix
    fixed = cell.fixed("update-dropped")
    assert fixed.rules == []
    assert not jnp.allclose(fixed.notebook.namespace["out"], 1.0)


def test_an_update_on_the_cells_own_lines_is_found_unless_it_is_displayed():
    assert watched(IMPORTS + "x = jnp.ones(3)\nx.at[0].set(5)\ny = x").rules == ["update-dropped"]
    assert watched(IMPORTS + "x = jnp.ones(3)\nx.at[0].set(5)").rules == []


DROPPED = [
    ("def f(m):\n    out = m.at[0].set(0.0)\n    return m\nout = jax.jit(f)(jnp.ones(2))", "m = m.at[0].set(0.0)"),
    ("def f(x):\n    x.sort()\n    return x\nout = f(jnp.array([3, 1]))", "x = x.sort()"),
    (
        "def f(xs):\n    for i in range(3):\n        jnp.append(xs, i)\n    return xs\nout = f(jnp.zeros(0))",
        "xs = jnp.",
    ),
    (
        "import optax\nopt, params = optax.sgd(0.1), {'w': jnp.ones(3)}\ndef fit(params):\n"
        "    updates, _ = opt.update(params, opt.init(params))\n    optax.apply_updates(params, updates)\n"
        "    return params\nout = fit(params)",
        "params = optax.apply_updates(params, updates)",
    ),
    (
        "import optax\nfrom flax.training.train_state import TrainState\n"
        "state = TrainState.create(apply_fn=None, params={'w': jnp.ones(3)}, tx=optax.sgd(0.1))\ndef fit(state):\n"
        "    state.apply_gradients(grads=state.params)\n    return state\nout = fit(state)",
        "state = state.apply_gradients(grads=state.params)",
    ),
    (
        "params = {'w': jnp.ones(3)}\ndef decay(params):\n    jax.tree.map(lambda w: 0.9 * w, params)\n"
        "    return params\nout = decay(params)",
        "params = jax.tree.map(lambda w: 0.9 * w, params)",
    ),
    (
        "p = {'w': jnp.ones(3)}\nfor _ in range(2):\n    g = jax.tree.map(jnp.ones_like, p)\n"
        "    jax.tree.map(lambda a, b: a - 0.1 * b, p, g)\nout = p",
        "p = jax.tree.map(",
    ),
    (
        "from flax import struct\n@struct.dataclass\nclass State:\n    step: jax.Array\ndef advance(state):\n"
        "    state.replace(step=state.step + 1)\n    return state\nout = advance(State(jnp.zeros(())))",
        "state = state.replace(step=",
    ),
    (
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Config:\n    rate: float\nc = Config(0.1)\n"
        "dataclasses.replace(c, rate=0.5)\nout = c.rate * jnp.ones(2)",
        "c = dataclasses.replace(c, rate=0.5)",
    ),
    (
        "@jax.jit\ndef f(x):\n    x.astype(jnp.float32)\n    return x\nout = f(jnp.arange(3))",
        "x = x.astype(jnp.float32)",
    ),
    (
        "def loss(w, t):\n    jax.lax.stop_gradient(t)\n    return ((w - t) ** 2).sum()\n"
        "out = jax.grad(loss, 1)(jnp.ones(3), jnp.zeros(3))",
        "t = jax.lax.stop_gradient(t)",
    ),
    (
        "import flax.linen as nn\nclass Net(nn.Module):\n    @nn.compact\n    def __call__(self, x):\n"
        "        x = nn.Dense(3)(x)\n        nn.relu(x)\n        return x\n"
        "out = Net().init_with_output(jax.random.key(0), jnp.ones((1, 2)))",
        "x = nn.relu(x)",
    ),
    (
        "import equinox as eqx\nm = eqx.nn.Linear(2, 2, key=jax.random.key(0))\n"
        "eqx.tree_at(lambda m: m.bias, m, jnp.zeros(2))\nout = m(jnp.ones(2))",
        "m = eqx.tree_at(",
    ),
]

TAKEN = [
    "log = []\np = {'w': jnp.ones(3)}\njax.tree.map(lambda w: log.append(w.shape), p)\nout = 1",
    "p = {'w': jnp.ones(3)}\njax.tree.map(lambda w: w.block_until_ready(), p)\nout = 1",
    "p = {'w': jnp.ones(3)}\njax.tree.map(print, p)\nout = 1",
    "def rename(text):\n    text.replace('a', 'b')\n    return text\nout = rename('abc')",
    "import dataclasses\n@dataclasses.dataclass\nclass Box:\n    n: int\n    def replace(self, n):\n"
    "        self.n = n\n"
    "box = Box(1)\nbox.replace(n=2)\nout = box",
    "import numpy as np\nx = np.array([3, 1])\nx.sort()\nout = x",
    "import time\nx = jnp.ones(3)\nbegan = time.perf_counter()\njax.nn.relu(x)\nout = time.perf_counter() - began",
]


@pytest.mark.parametrize(("body", "fix"), DROPPED)
def test_other_functions_that_return_a_changed_copy_are_found_too(body: str, fix: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["update-dropped"]
    assert cell.found("update-dropped").fix.startswith(fix)
    fixed = cell.fixed("update-dropped")
    assert fixed.rules == []
    assert fixed.report.failure is None


@pytest.mark.parametrize("body", TAKEN)
def test_what_changes_something_prints_or_is_timed_is_not_dropped(body: str):
    assert "update-dropped" not in watched(IMPORTS + body).rules


@pytest.mark.parametrize(
    "body",
    [
        "x = np.array([3, 1])\nx.sort()\nout = jnp.asarray(x)",
        "xs = [3, 1]\nxs.sort()\njnp.dot(jnp.ones(3), jnp.ones(3)).block_until_ready()\nout = xs",
        "def f(x):\n    _ = x.at[0].set(1.0)\n    y = x.at[0].set(2.0)\n    return (lambda: y)()\nout = f(jnp.ones(2))",
    ],
)
def test_what_changes_its_own_or_is_read_later_is_not_dropped(body: str):
    assert watched(IMPORTS + body).rules == []


COLUMNS = [
    (
        "X = jnp.ones((50, 1))\ny = X[:, 0]\ndef loss(p):\n    pred = X @ p['w'] + p['b']\n"
        "    return jnp.mean((pred - y) ** 2)\n"
        "out = jax.grad(loss)({'w': jnp.zeros((1, 1)), 'b': jnp.zeros(1)})",
        "pred - y",
        "pred[..., 0] - y",
    ),
    (
        "@jax.jit\ndef loss(pred, y):\n    return jnp.mean(jnp.abs(y - pred))\n"
        "out = loss(jnp.ones((8, 1)), jnp.ones(8))",
        "y - pred",
        "y - pred[..., 0]",
    ),
    ("a, b = jnp.ones((4, 1)), jnp.ones(4)\nout = a * b", "a * b", "a[..., 0] * b"),
]


@pytest.mark.parametrize(("body", "marked", "fix"), COLUMNS)
def test_a_column_against_a_vector_is_found(body: str, marked: str, fix: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["column-against-vector"]
    assert cell.marked("column-against-vector") == marked
    assert cell.found("column-against-vector").fix == fix
    assert cell.fixed("column-against-vector").rules == []


@pytest.mark.parametrize(
    "body",
    [
        "x, b = jnp.ones((5, 1)), jnp.ones(1)\nout = x + b",
        "x, b = jnp.ones((5, 3)), jnp.ones(3)\nout = x + b",
        "a, b = jnp.ones(4), jnp.ones(4)\nout = a[:, None] - b",
        "a = jnp.ones((4, 3))\nout = a / a.sum(axis=1, keepdims=True)",
        "a, b = jnp.ones((4, 1)), jnp.ones((1, 4))\nout = a * b",
    ],
)
def test_broadcasts_that_are_meant_are_left_alone(body: str):
    assert watched(IMPORTS + body).rules == []


def test_a_changed_global_is_named_with_the_old_and_the_new_value():
    cells = (
        IMPORTS + "lr = 0.1\n@jax.jit\ndef update(w, g):\n    return w - lr * g\nupdate(1.0, 1.0)",
        "lr = 0.5\nout = update(1.0, 1.0)",
    )
    cell = watched(*cells)
    assert cell.rules == ["stale-program"]
    finding = cell.found("stale-program")
    assert finding.title == "`update` ran a program that still uses the old `lr`: 0.1 in the program, 0.5 now"
    assert cell.marked("stale-program") == "update(1.0, 1.0)"
    fixed = cell.fixed("stale-program", "update(1.0, 1.0)", "update(1.0, 1.0, lr)")
    assert fixed.rules == []
    assert fixed.notebook.namespace["out"] == 0.5


def test_a_program_that_is_not_stale_is_not_reported():
    cells = (
        IMPORTS + "lr = 0.1\n@jax.jit\ndef update(w, g):\n    return w - lr * g\nupdate(1.0, 1.0)",
        "out = update(1.0, 1.0)",
    )
    assert watched(*cells).rules == []


@pytest.mark.parametrize("maker", ["key", "PRNGKey"])
def test_a_key_used_twice_is_found_for_both_kinds_of_keys(maker: str):
    cell = watched(
        IMPORTS + f"k = jax.random.{maker}(0)\nw = jax.random.normal(k, (3,))\nnoise = jax.random.normal(k, (3,))"
    )
    assert cell.rules == ["key-reused"]
    assert "line 3 and again on line 4" in cell.found("key-reused").title
    fixed = cell.fixed("key-reused")
    assert fixed.rules == []
    assert not jnp.allclose(fixed.notebook.namespace["w"], fixed.notebook.namespace["noise"])


REUSED = [
    "def f(key):\n    a = jax.random.normal(key)\n    if a.ndim:\n        return a\n"
    "    return a + jax.random.uniform(key)\nf(jax.random.key(0))",
    "k = jax.random.key(0)\nout = []\nfor i in range(3):\n    out.append(jax.random.normal(k))",
    "@jax.jit\ndef f(key):\n    k1, k2 = jax.random.split(key)\n"
    "    return jax.random.normal(key) + jax.random.normal(k1)\nf(jax.random.key(0))",
]
NOT_REUSED = [
    "k = jax.random.key(0)\nfor i in range(3):\n    k, sub = jax.random.split(k)\n    x = jax.random.normal(sub)",
    "k = jax.random.key(0)\nx = [jax.random.normal(jax.random.fold_in(k, i)) for i in range(3)]",
    "def f(key, big):\n    if big:\n        return jax.random.normal(key)\n    else:\n"
    "        return jax.random.uniform(key)\nf(jax.random.key(0), True)",
    "def f(key, big):\n    if big:\n        return jax.random.normal(key)\n"
    "    return jax.random.uniform(key)\nf(jax.random.key(0), False)",
    "k = jax.random.key(0)\na = jax.random.normal(k)\nk = jax.random.key(1)\nb = jax.random.normal(k)",
    "k1, k2 = jax.random.split(jax.random.key(0))\na = jax.random.normal(k1) + jax.random.normal(k2)",
]


@pytest.mark.parametrize("body", REUSED)
def test_reuse_is_followed_through_branches_and_loops(body: str):
    assert watched(IMPORTS + body).rules == ["key-reused"]


@pytest.mark.parametrize("body", NOT_REUSED)
def test_keys_that_are_renewed_or_on_other_paths_are_not_reused(body: str):
    assert watched(IMPORTS + body).rules == []


def test_a_key_from_outside_is_the_same_at_every_call():
    cell = watched(
        IMPORTS + "key = jax.random.key(42)\n@jax.jit\ndef dropout(x):\n"
        "    return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x, 0)\nout = dropout(jnp.ones(6))"
    )
    assert cell.rules == ["key-captured"]
    assert cell.found("key-captured").fix == "def dropout(x, key):"
    assert cell.fixed("key-captured", "dropout(jnp.ones(6))", "dropout(jnp.ones(6), key)").rules == []


def test_a_leak_is_reported_before_anyone_uses_it():
    cell = watched(
        IMPORTS + "key = jax.random.key(0)\n@jax.jit\ndef sample():\n    global key\n"
        "    key, sub = jax.random.split(key)\n"
        "    return jax.random.normal(sub)\nout = sample(), sample()"
    )
    assert cell.rules == ["tracer-kept"]
    assert cell.marked("tracer-kept") == "key, sub = jax.random.split(key)"
    fixed = cell.fixed("tracer-kept")
    assert fixed.rules == []
    first, second = fixed.notebook.namespace["out"]
    assert first != second


def test_a_print_of_a_tracer_becomes_one_that_prints_values(capfd: pytest.CaptureFixture[str]):
    cell = watched(IMPORTS + "@jax.jit\ndef f(x):\n    print('x =', x)\n    return x\nf(1.0)")
    assert cell.rules == ["print-of-tracer"]
    assert cell.found("print-of-tracer").severity == "note"
    assert cell.found("print-of-tracer").fix == "jax.debug.print('x = {}', x)"
    assert cell.fixed("print-of-tracer").rules == []
    assert "x = 1.0" in capfd.readouterr().out


@pytest.mark.parametrize("transform", ["vmap", "grad"])
def test_a_print_without_jit_is_not_said_to_run_once(transform: str):
    call = {"vmap": "jax.vmap(f)(jnp.arange(3.0))", "grad": "jax.grad(f)(3.0)"}[transform]
    cell = watched(IMPORTS + f"def f(x):\n    print('x =', x)\n    return x * 2\nout = {call}")
    explanation = cell.found("print-of-tracer").explanation
    assert f"under {transform}, without jit" in explanation
    assert "does not run again" not in explanation


def test_a_new_function_at_every_pass_is_told_from_the_same_one():
    cell = watched(IMPORTS + "for i in range(4):\n    jax.jit(lambda w: w * 2)(1.0)")
    assert cell.rules == ["new-function-each-time"]
    assert "4 times" in cell.found("new-function-each-time").title
    assert watched(IMPORTS + "f = lambda w: w * 2\nfor i in range(4):\n    jax.jit(f)(1.0)").rules == []


def test_gradients_of_new_functions_are_not_counted_as_functions():
    cell = watched(IMPORTS + "for i in range(4):\n    jax.grad(jax.jit(lambda w: (w - i) ** 2))(1.0)")
    assert cell.found("new-function-each-time").title.startswith("`<lambda>` was traced 4 times, as a new function")


def test_a_weak_type_alone_is_worth_a_finding():
    cell = watched(
        IMPORTS + "@jax.jit\ndef acc(total, x):\n    return total + x\ntotal = 0.0\nfor _ in range(4):\n"
        "    total = acc(total, jnp.float32(1))"
    )
    assert cell.rules == ["weak-type-retrace"]
    assert "f32[]*" in cell.found("weak-type-retrace").explanation
    assert cell.found("weak-type-retrace").fix.startswith("total = jnp.float32(total)")


def test_two_shapes_are_normal_and_many_are_slow():
    body = IMPORTS + "@jax.jit\ndef f(x):\n    return x * 2\nfor n in range(1, {}):\n    f(jnp.ones(n))"
    assert watched(body.format(3)).rules == []
    assert watched(body.format(6)).rules == ["retraced"]


def test_calls_that_each_have_their_own_kind_of_argument_are_no_storm():
    body = IMPORTS + "@jax.jit\ndef f(x, mask=None):\n    return x if mask is None else x * mask\n"
    assert watched(body + "f(jnp.ones(2))\nf(jnp.ones((2, 2)))\nf(jnp.ones(2), jnp.ones(2))\nf(1)").rules == []


def test_an_unrolled_loop_is_counted_by_its_lines():
    cell = watched(
        IMPORTS + "@jax.jit\ndef sim(x):\n    for i in range(200):\n"
        "        x = jnp.sin(x) * 1.01 + 0.1\n    return x\nsim(1.0)"
    )
    assert cell.rules == ["loop-unrolled"]
    assert "600 equations" in cell.found("loop-unrolled").title


def test_a_model_that_calls_each_of_its_layers_is_no_unrolled_loop():
    cell = watched(
        IMPORTS + "class Layer:\n    def __init__(self, w):\n        self.w = w\n    def __call__(self, x):\n"
        "        for _ in range(9):\n            x = jnp.tanh(x @ self.w) + x\n        return x\n"
        "layers = [Layer(jnp.eye(3) * n) for n in range(24)]\n"
        "@jax.jit\ndef model(x):\n    for layer in layers:\n        x = layer(x)\n    return x\n"
        "out = model(jnp.ones(3))"
    )
    titles = [finding.title for finding in cell.report.findings if finding.rule == "loop-unrolled"]
    assert [title.partition(":")[0] for title in titles] == ["`for _ in range(9)"]


UNROLLED = [
    (
        "def layer(x, i):\n    y = jnp.sin(x) + i\n    return y * 0.5\n@jax.jit\ndef net(x):\n"
        "    for i in range(120):\n        x = layer(x, i)\n    return x\nout = net(jnp.ones(3))",
        "`for i in range(120):` became",
        "x = jax.lax.fori_loop(0, 120, step, x)",
    ),
    (
        "@jax.jit\ndef power(x):\n    k = 0\n    while k < 150:\n        x = jnp.sin(x) * 2.0\n        x = x / 3.0\n"
        "        k += 1\n    return x\nout = power(jnp.ones(3))",
        "`while k < 150:` became",
        "",
    ),
    (
        "@jax.jit\ndef features(x):\n    return jnp.stack([jnp.sin(x * k) + jnp.cos(x * k) for k in range(100)])\n"
        "out = features(jnp.ones(3))",
        "`[jnp.sin(x * k) + jnp.cos(x * k) for k in range(100)]` became",
        "jax.vmap(lambda k: jnp.sin(x * k) + jnp.cos(x * k))(jnp.arange(100))",
    ),
    (
        "class Spring:\n    k = 2.0\n    def run(self, x):\n        v, path = jnp.zeros(2), []\n"
        "        path = []\n        for i in range(80):\n            v = v - 0.01 * self.k * x / (i + 1)\n"
        "            x = x + v * 0.01\n            path.append(x)\n        return jnp.stack(path)\n"
        "out = jax.jit(Spring().run)(jnp.ones(2))",
        "`for i in range(80):` became",
        "",
    ),
    (
        "@jax.jit\ndef rnn(w, xs):\n    h = jnp.zeros(2)\n    hs = []\n"
        "    for x in xs:\n        z = jnp.sin(w @ h + x)\n"
        "        h = z * 0.5 + h / 2.0\n        hs.append(h)\n    return jnp.stack(hs)\n"
        "out = rnn(jnp.eye(2), jnp.ones((50, 2)))",
        "`for x in xs:` became",
        "h, hs = jax.lax.scan(step, h, xs)",
    ),
    (
        "@jax.jit\ndef pairs(x):\n    s = 0.0\n    for i in range(9):\n        for j in range(9):\n"
        "            s = s + jnp.exp(x[i] - x[j])\n    return s\nout = pairs(jnp.zeros(9))",
        "`for i in range(9):` became",
        "",
    ),
    (
        "names = ['a', 'b']\n@jax.jit\ndef named(p, x):\n    for i in range(100):\n"
        "        x = jnp.sin(x) * p[names[i % 2]] + 1.0\n    return x\nout = named({'a': 1.0, 'b': 2.0}, jnp.ones(2))",
        "`for i in range(100):` became",
        "",
    ),
]


@pytest.mark.parametrize(("body", "title", "fix"), UNROLLED)
def test_loops_of_every_kind_are_unrolled_and_count_what_they_call(body: str, title: str, fix: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["loop-unrolled"]
    found = cell.found("loop-unrolled")
    assert found.title.startswith(title)
    assert found.fix.endswith(fix) if fix else not found.fix
    if fix:
        fixed = cell.fixed("loop-unrolled")
        assert fixed.rules == []
        assert jnp.allclose(fixed.notebook.namespace["out"], cell.notebook.namespace["out"], atol=1e-5)


def test_a_big_constant_is_named_by_size():
    cell = watched(
        IMPORTS + "table = jnp.ones((600, 600))\n@jax.jit\ndef f(x):\n    return table @ x\nf(jnp.ones(600))"
    )
    assert cell.rules == ["big-constant"]
    assert "1.44 MB" in cell.found("big-constant").title


@pytest.mark.parametrize(
    ("comment", "rules"),
    [
        ("# jaxmagic: ignore[update-dropped]", []),
        ("# shown for its cost  # jaxmagic: ignore", []),
        ("# jaxmagic: ignore[key-reused, update-dropped]", []),
        ("# jaxmagic: ignore[key-reused]", ["update-dropped"]),
    ],
)
def test_a_comment_on_the_line_silences_a_rule(comment: str, rules: list[str]):
    assert watched(IMPORTS + f"x = jnp.ones(3)\nx.at[0].set(5)  {comment}\ny = x").rules == rules


SILENT = [
    "@jax.jit\ndef f(x, bias=None):\n    if x.ndim == 2 and x.shape[0] > 1:\n        x = x.reshape(-1)\n"
    "    if bias is not None: x = x + bias\n    for i in range(min(len(x), 3)):\n        x = x.at[i].add(1.0)\n"
    "    return x\nout = f(jnp.ones((2, 2))), f(jnp.ones(2), bias=1.0)",
    "EPS = 1e-6\nTABLE = np.linspace(0, 1, 3)\n@jax.jit\ndef f(x):\n    print('tracing f for', x.shape)\n"
    "    return x / (x.sum() + EPS) + TABLE\nout = f(jnp.ones(3)), f(jnp.zeros(3))",
    "class Net:\n    def __init__(self): self.w = jnp.ones(3)\n    def __call__(self, x): return self.w * x\n"
    "net = Net()\nout = jax.jit(lambda x: net(x))(2.0)",
    "history = []\n@jax.jit\ndef step(w):\n    return w - 0.1 * w\nw = jnp.ones(3)\nfor i in range(5):\n"
    "    w = step(w)\n    history.append(float(w.sum()))",
]


@pytest.mark.parametrize("body", SILENT)
def test_ordinary_code_gives_no_finding(body: str):
    assert watched(IMPORTS + body).rules == []


@pytest.mark.parametrize("maker", ["key", "PRNGKey"])
def test_a_key_that_an_earlier_cell_used_is_possibly_reused(maker: str):
    cells = (
        IMPORTS + f"k = jax.random.{maker}(0)\nw = jax.random.normal(k, (3,))",
        "noise = jax.random.normal(k, (3,))",
    )
    cell = watched(*cells)
    assert cell.rules == ["key-reused"]
    found = cell.found("key-reused")
    assert "in an earlier cell" in found.title
    assert not found.sure
    assert cell.fixed("key-reused").rules == []


def test_a_key_that_an_earlier_cell_split_or_made_anew_is_not_reused():
    made = IMPORTS + "k = jax.random.key(0)\nk, sub = jax.random.split(k)\nw = jax.random.normal(sub)"
    assert watched(made, "noise = jax.random.normal(k)").rules == []
    assert watched(made, "sub = jax.random.key(2)", "noise = jax.random.normal(sub)").rules == []


@pytest.mark.parametrize(
    "body",
    [
        "k = jax.random.key(0)\njax.random.split(k)\nout = jax.random.normal(k)",
        "def draw(k):\n    jax.random.split(k, 2)\n    return jax.random.normal(k)\nout = draw(jax.random.PRNGKey(1))",
        "class Noise:\n    def __call__(self, k):\n        jax.random.split(k)\n        return jax.random.normal(k)\n"
        "out = jax.jit(Noise())(jax.random.key(0))",
    ],
)
def test_a_split_whose_keys_nobody_takes_is_found(body: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["key-dropped"]
    assert cell.fixed("key-dropped").rules == []


KEPT = [
    (
        "class Layer:\n    def __call__(self, x):\n        self.last = x * 2\n        return self.last\n"
        "layer = Layer()\nout = jax.jit(lambda x: layer(x))(1.0)",
        "`layer.last`",
    ),
    (
        "seen = []\n@jax.jit\ndef f(x):\n    seen.append({'x': x})\n    return x\nout = f(1.0)",
        "`seen[0]['x']`",
    ),
    (
        "hooks = {}\n@jax.jit\ndef f(x):\n    hooks['double'] = lambda: x * 2\n    return x\nout = f(1.0)",
        "`hooks['double'].__closure__ (x)`",
    ),
]


@pytest.mark.parametrize(("body", "where"), KEPT)
def test_tracers_in_attributes_lists_and_closures_are_found_before_they_are_used(body: str, where: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["tracer-kept"]
    assert where in cell.found("tracer-kept").title
