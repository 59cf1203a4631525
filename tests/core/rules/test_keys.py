"""Random keys used twice, by functions of the user's too, or captured; and all the ways of using them once."""

import jax
import jax.numpy as jnp
import pytest
from failing_cells import failed
from observed_cells import watched

IMPORTS = "import jax, jax.numpy as jnp\n"
HELPERS = (
    "def weights(rng, n):\n    return jax.random.normal(rng, (n,))\n"
    "def noise(rng, n):\n    return 0.1 * jax.random.normal(rng, (n,))\n"
)

REUSED = [
    (HELPERS + "key = jax.random.key(7)\nw = weights(key, 4)\nout = noise(key, 4)", "noise(key, 4)"),
    (
        "def layer(key, n):\n    k1, k2 = jax.random.split(key)\n    return jax.random.normal(k1, (n,))\n"
        "def net(key):\n    first = layer(key, 3)\n    second = layer(key, 4)\n    return first, second\n"
        "out = net(jax.random.PRNGKey(0))",
        "layer(key, 4)",
    ),
    (
        "class Dense:\n    def __init__(self, key, n):\n        self.w = jax.random.normal(key, (n,))\n"
        "key = jax.random.key(0)\na = Dense(key, 3)\nb = Dense(key, 4)",
        "Dense(key, 4)",
    ),
    (
        "@jax.jit\ndef step(w, key):\n    def loss(w):\n        return (w * jax.random.normal(key, w.shape)).sum()\n"
        "    return w - 0.1 * jax.grad(loss)(w)\nkey = jax.random.key(0)\nw = jnp.ones(3)\n"
        "for _ in range(3):\n    w = step(w, key)",
        "step(w, key)",
    ),
    (
        "keys = {'w': jax.random.key(0), 'b': jax.random.key(1)}\nw = jax.random.normal(keys['w'], (3,))\n"
        "b = jax.random.normal(keys['w'], (3,))",
        "jax.random.normal(keys['w'], (3,))",
    ),
    (
        "from jax import random as jr\nks = jr.split(jr.PRNGKey(0), 3)\na = jr.normal(ks[0])\nb = jr.normal(ks[1])\n"
        "c = jr.uniform(ks[0])",
        "jr.uniform(ks[0])",
    ),
    (
        "keys = jax.random.split(jax.random.key(0), 3)\na = jax.vmap(jax.random.normal)(keys)\n"
        "b = jax.vmap(jax.random.uniform)(keys)",
        "jax.vmap(jax.random.uniform)(keys)",
    ),
    (
        "import equinox as eqx\nkey = jax.random.key(0)\na = eqx.nn.Linear(3, 3, key=key)\n"
        "b = eqx.nn.Linear(3, 3, key=key)",
        "eqx.nn.Linear(3, 3, key=key)",
    ),
]


@pytest.mark.parametrize(("body", "marked"), REUSED)
def test_reuse_is_followed_into_functions_classes_and_containers(body: str, marked: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["key-reused"]
    assert cell.marked("key-reused") == marked


RENEWED = [
    ("key = jax.random.key(7)\n" + HELPERS + "w = weights(key, 4)\nout = noise(key, 4)", "key, key_1 = jax.random."),
    (
        "key = jax.random.key(0)\nout = [jax.random.normal(key, (n,)) for n in (2, 3)]",
        "for n, key_1 in zip((2, 3), jax.random.split(key, len((2, 3))))",
    ),
    (
        "key, out = jax.random.key(0), []\nfor n in range(3):\n    out.append(jax.random.normal(key))",
        "out.append(jax.random.normal(key_1))",
    ),
    (
        "key, out = jax.random.key(0), []\nfor n in range(3):\n    k = jax.random.fold_in(key, 0)\n"
        "    out.append(jax.random.normal(k))",
        "jax.random.fold_in(key, n)",
    ),
    (
        "class Noise:\n    def __init__(self):\n        self.key = jax.random.key(0)\n    def add(self, xs):\n"
        "        out = []\n        for place, x in enumerate(xs):\n            k = jax.random.fold_in(self.key, 7)\n"
        "            out.append(x + jax.random.uniform(k))\n        return out\nout = Noise().add([1.0, 2.0])",
        "jax.random.fold_in(self.key, place)",
    ),
    (
        "base, out = jax.random.key(0), []\nfor e in range(2):\n    k = jax.random.fold_in(base, e)\n"
        "    for b in range(2):\n        out.append(jax.random.normal(k))",
        "k, k_1 = jax.random.split(k)",
    ),
    (
        "def body(carry, _):\n    x, key = carry\n    x = x + jax.random.normal(key)\n    return (x, key), x\n"
        "out = jax.lax.scan(body, (0.0, jax.random.key(0)), None, length=3)[1]",
        "x = x + jax.random.normal(key_1)",
    ),
    (
        "class Sampler:\n    def __init__(self, seed):\n        self.key = jax.random.PRNGKey(seed)\n"
        "    def sample(self):\n        return jax.random.normal(self.key)\n"
        "s = Sampler(0)\na = s.sample()\nb = s.sample()\nout = a, b",
        "self.key, key_1 = jax.random.split(self.key)",
    ),
    (
        "from jax import random\nkey = random.key(0)\na = random.normal(key)\nout = a + random.uniform(key)",
        "key, key_1 = random.split(key)",
    ),
]


@pytest.mark.parametrize(("body", "fix"), RENEWED)
def test_the_fix_draws_from_a_part_of_the_key(body: str, fix: str):
    cell = watched(IMPORTS + body)
    assert fix in cell.found("key-reused").fix
    fixed = cell.fixed("key-reused")
    assert fixed.rules == []
    assert fixed.report.failure is None


STATE = (
    "from typing import NamedTuple\nclass State(NamedTuple):\n    w: jax.Array\n    key: jax.Array\n"
    "state = State(jnp.zeros(2), jax.random.key(0))\n"
)
LOOP = "for _ in range(3):\n    state = step(state)\n"
HANDED_BACK = [
    (
        "@jax.jit\ndef step(state):\n    w, key = state\n    w = w + jax.random.normal(key, w.shape)\n"
        "    return w, key\nstate = jnp.zeros(2), jax.random.key(0)\n" + LOOP,
        "key, key_1 = jax.random.split(key)\nw = w + jax.random.normal(key_1, w.shape)",
    ),
    (
        STATE + "@jax.jit\ndef step(state):\n    n = jax.random.normal(state.key, (2,))\n"
        "    return state._replace(w=state.w + n)\n" + LOOP,
        "return state._replace(w=state.w + n, key=key)",
    ),
    (
        STATE + "def step(s):\n    return State(s.w + jax.random.normal(s.key), s.key)\n" + LOOP,
        "return State(s.w + jax.random.normal(key_1), key)",
    ),
    (
        "from jax import random as jr\n@jax.jit\ndef step(state):\n    def loss(w):\n"
        "        return (w * jr.bernoulli(state['key'], 0.5, w.shape)).sum()\n"
        "    return {**state, 'w': state['w'] - jax.grad(loss)(state['w'])}\n"
        "state = {'w': jnp.ones(2), 'key': jr.key(0)}\n" + LOOP,
        "key, key_1 = jr.split(state['key'])\ndef loss(w):\n    return (w * jr.bernoulli(key_1, 0.5, w.shape)).sum()",
    ),
    (
        "class Walk:\n    def __init__(self):\n        self.x, self.key = jnp.zeros(2), jax.random.key(0)\n"
        "        self.step = jax.jit(self._step)\n    def _step(self, x, key):\n"
        "        return x + jax.random.normal(key, x.shape), key\n    def run(self):\n        for _ in range(2):\n"
        "            for _ in range(2):\n                self.x, self.key = self.step(self.x, self.key)\n"
        "w = Walk()\nw.run()",
        "key, key_1 = jax.random.split(key)\nreturn (x + jax.random.normal(key_1, x.shape), key)",
    ),
]


@pytest.mark.parametrize(("body", "fix"), HANDED_BACK)
def test_a_step_that_returns_the_key_it_drew_from_splits_it_instead(body: str, fix: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["key-reused"]
    found = cell.found("key-reused")
    assert found.times == 1
    assert "returns it as it was" in found.title
    assert fix in found.fix
    fixed = cell.fixed("key-reused")
    assert fixed.rules == []
    assert fixed.report.failure is None


def test_a_key_that_comes_back_from_an_earlier_cell_is_still_the_same():
    step = "@jax.jit\ndef draw(x, rng):\n    return x + jax.random.normal(rng), rng\n"
    first = IMPORTS + step + "x, rng = draw(0.0, jax.random.key(0))\nx, rng = draw(x, rng)"
    cell = watched(first, "x, rng = draw(x, rng)")
    assert cell.marked("key-reused") == "jax.random.normal(rng)"


LIBRARIES = [
    (
        "import equinox as eqx\nclass Net(eqx.Module):\n    drop: eqx.nn.Dropout\n    def __init__(self):\n"
        "        self.drop = eqx.nn.Dropout(0.5)\n    def __call__(self, x, key):\n"
        "        x = self.drop(x, key=key)\n        return self.drop(2 * x, key=key)\n"
        "out = Net()(jnp.ones(4), jax.random.key(0))",
        "self.drop(2 * x, key=key)",
    ),
    (
        "import numpyro.distributions as dist\nfrom numpyro.infer import Predictive\nimport numpyro\n"
        "def model(x):\n    return numpyro.sample('y', dist.Normal(x, 1.0))\n"
        "def draw(key):\n    x = dist.Normal(0.0, 1.0).sample(key, (3,))\n"
        "    prior = Predictive(model, num_samples=2)\n    return prior(key, x)\nout = draw(jax.random.key(0))",
        "prior(key, x)",
    ),
]


@pytest.mark.parametrize(("body", "marked"), LIBRARIES)
def test_layers_distributions_and_predictions_draw_from_their_key_too(body: str, marked: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["key-reused"]
    assert cell.marked("key-reused") == marked
    assert cell.fixed("key-reused").rules == []


def test_the_inference_and_the_prediction_of_a_model_share_a_key_but_two_inferences_may():
    cell = watched(
        IMPORTS + "from numpyro.infer import MCMC, NUTS, Predictive\nimport numpyro, numpyro.distributions as dist\n"
        "def model(s):\n    numpyro.sample('a', dist.Normal(0.0, s))\nkey = jax.random.key(0)\n"
        "one, two = [MCMC(NUTS(model), num_warmup=1, num_samples=1, progress_bar=False) for _ in 'ab']\n"
        "one.run(key, 1.0)\ntwo.run(key, 2.0)\nout = Predictive(model, one.get_samples())(key, 1.0)"
    )
    assert cell.marked("key-reused") == "Predictive(model, one.get_samples())(key, 1.0)"
    assert not cell.found("key-reused").sure


def test_a_key_that_a_function_of_an_earlier_cell_drew_from_is_found_with_both_draws():
    cell = watched(IMPORTS + HELPERS + "key = jax.random.key(1)\nw = weights(key, 4)", "out = noise(key, 4)")
    found = cell.found("key-reused")
    assert not found.sure
    assert "in an earlier cell" in found.title
    assert [evidence.text for evidence in found.evidence] == [
        "first use: weights(key, 4)",
        "drawn there: jax.random.normal(rng, (n,))",
        "again: noise(key, 4)",
        "drawn there: jax.random.normal(rng, (n,))",
    ]


CAPTURED = [
    (
        "def make(key):\n    @jax.jit\n    def step(w):\n        return w + jax.random.normal(key, w.shape)\n"
        "    return step\nstep = make(jax.random.key(0))\nout = step(step(jnp.zeros(2)))",
        "jax.random.normal(key, w.shape)",
        "def step(w, key):",
    ),
    (
        "from functools import partial\nclass Drop:\n    def __init__(self):\n        self.key = jax.random.key(0)\n"
        "    @partial(jax.jit, static_argnums=0)\n    def __call__(self, x):\n"
        "        return x * jax.random.bernoulli(self.key, 0.5, x.shape)\nd = Drop()\nout = d(jnp.ones(4))",
        "jax.random.bernoulli(self.key, 0.5, x.shape)",
        "",
    ),
    (
        "def rollout(key, x):\n    def step(x, _):\n        return x + jax.random.normal(key, x.shape), None\n"
        "    return jax.lax.scan(step, x, None, length=5)\nout = jax.jit(rollout)(jax.random.key(0), jnp.zeros(2))",
        "jax.random.normal(key, x.shape)",
        "def step(x, key):\n    return x + jax.random.normal(key, x.shape), None\n"
        "return jax.lax.scan(step, x, jax.random.split(key, 5), length=5)",
    ),
    (
        "@jax.jit\ndef augment(key, images):\n"
        "    return jax.vmap(lambda x: x + jax.random.normal(key, x.shape))(images)\n"
        "out = augment(jax.random.key(0), jnp.zeros((3, 4)))",
        "jax.random.normal(key, x.shape)",
        "return jax.vmap(lambda x, key: x + jax.random.normal(key, x.shape))"
        "(images, jax.random.split(key, images.shape[0]))",
    ),
    (
        "@jax.jit\ndef noisy(x: jax.Array, scale: float = 0.1) -> jax.Array:\n    key = jax.random.PRNGKey(0)\n"
        "    return x + scale * jax.random.normal(key, x.shape)\nout = noisy(noisy(jnp.zeros(2)))",
        "jax.random.normal(key, x.shape)",
        "def noisy(x: jax.Array, scale: float=0.1, *, key) -> jax.Array:",
    ),
]


@pytest.mark.parametrize(("body", "marked", "fix"), CAPTURED)
def test_a_key_that_every_run_shares_is_found_wherever_it_comes_from(body: str, marked: str, fix: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["key-captured"]
    assert cell.marked("key-captured") == marked
    assert cell.found("key-captured").fix == fix


FOR_EACH = [
    (
        "key = jax.random.key(0)\ndef body(c, x):\n    c = c + x * jax.random.normal(key)\n    return c, c\n"
        "out = jax.lax.scan(body, 0.0, jnp.ones(3))[1]",
        "",
    ),
    (
        "xs, key = jnp.ones(3), jax.random.key(0)\ndef body(c, x):\n    c = c + x * jax.random.normal(key)\n"
        "    return c, c\nout = jax.lax.scan(body, 0.0, xs)[1]",
        "x, key = x_and_key",
    ),
    (
        "def body(i, x):\n    return x.at[i].set(jax.random.normal(key))\nkey = jax.random.key(0)\n"
        "out = jax.lax.fori_loop(0, 3, body, jnp.zeros(3))",
        "jax.random.normal(jax.random.fold_in(key, i))",
    ),
    (
        "from jax import random\ndef noise(key, images):\n    def one(image):\n"
        "        return image + random.normal(key)\n    return jax.vmap(one)(images)\n"
        "out = noise(random.key(0), jnp.zeros(3))",
        "return jax.vmap(one)(images, random.split(key, images.shape[0]))",
    ),
    (
        "key, x = jax.random.key(0), jnp.zeros(3)\nout = jax.jit(jax.vmap(lambda a: a + jax.random.normal(key)))(x)",
        "(x, jax.random.split(key, len(x)))",
    ),
]


@pytest.mark.parametrize(("body", "fix"), FOR_EACH)
def test_each_pass_and_each_example_gets_a_key_of_its_own(body: str, fix: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["key-captured"]
    assert fix in cell.found("key-captured").fix
    if fix:
        fixed = cell.fixed("key-captured")
        assert fixed.rules == []
        assert len(set(jnp.diff(fixed.notebook.namespace["out"]).tolist())) == 2


def test_the_captured_key_becomes_an_argument_after_defaults_too():
    cell = watched(IMPORTS + CAPTURED[4][0])
    fixed = cell.fixed("key-captured", "noisy(noisy(jnp.zeros(2)))", "noisy(jnp.zeros(2), key=jax.random.key(3))")
    assert fixed.rules == []
    assert fixed.report.failure is None


ONCE = [
    "def batches(x, key):\n    for _ in range(2):\n        order = jax.random.permutation(key, 3)\n"
    "        (key,) = jax.random.split(key, 1)\n        yield x[order]\n"
    "out = list(batches(jnp.ones(3), jax.random.key(0)))",
    "key = jax.random.key(0)\nkey, *subs = jax.random.split(key, 4)\na = [jax.random.normal(k) for k in subs]\n"
    "ks = iter(jax.random.split(key, 8))\nb = jax.random.normal(next(ks)) + jax.random.uniform(next(ks))",
    "keys = jax.random.split(jax.random.key(1), 6)\nout = []\nfor i in range(3):\n"
    "    out.append(jax.random.normal(keys[i]))\n    out.append(jax.random.normal(keys[i + 3]))",
    "base = jax.random.key(0)\nfor step in range(3):\n    k = jax.random.fold_in(base, step)\n"
    "    x = jax.random.normal(k)",
    "def evaluate(w, key):\n    return (w * jax.random.normal(key, (9,))).mean()\nbase, w = jax.random.key(0), 1.0\n"
    "for step in range(3):\n    w, k = 0.9 * w, jax.random.fold_in(base, 99)\n    out = evaluate(w, k)\n"
    "for step in range(3):\n    w *= 0.9\n    k = jax.random.fold_in(base, 99)\n    out = evaluate(w, k)",
    "@jax.jit\ndef step(w, key):\n    def loss(w):\n        return (w * jax.random.normal(key, w.shape)).sum()\n"
    "    return w - jax.grad(loss)(w)\nkey = jax.random.key(0)\nout = step(jnp.ones(3), key)",
    "def loss(w, key):\n    return (w * jax.random.normal(key, w.shape)).sum()\n"
    "key, w = jax.random.key(0), jnp.ones(3)\nout = loss(w, key), jax.grad(loss)(w, key), jax.jit(loss)(w, key)",
    "def price(strike, key):\n    return jnp.maximum(jax.random.normal(key, (9,)) - strike, 0).mean()\n"
    "key = jax.random.key(0)\nup, down = price(1.1, key), price(0.9, key)\n"
    "out = [price(s, key) for s in (0.5, 1.0)]",
    "@jax.jit\ndef draw(key):\n    return jax.random.normal(key, (9,)).sum()\nkey = jax.random.key(0)\n"
    "draw(key).block_until_ready()\nfor _ in range(9):\n    out = draw(key)",
    "class Rng:\n    def __init__(self): self.key = jax.random.key(0)\n    def __call__(self):\n"
    "        self.key, sub = jax.random.split(self.key)\n        return sub\nr = Rng()\n"
    "out = jax.random.normal(r()), jax.random.normal(r())",
    "class Layer:\n    def __init__(self, key): self.key = key\n"
    "    def build(self): return jax.random.normal(self.key)\n"
    "k1, k2 = jax.random.split(jax.random.key(0))\na, b = Layer(k1), Layer(k2)\nout = a.build(), b.build()\n"
    "more = [each.build() for each in (Layer(k1), Layer(k2))]",
    "def f(key, kind):\n    match kind:\n        case 'a': return jax.random.normal(key)\n"
    "        case _: return jax.random.uniform(key)\nout = f(jax.random.key(0), 'b')\nk = jax.random.key(1)\n"
    "out = jax.random.normal(k) if out > 0 else jax.random.uniform(k)",
    "def loss(p, key):\n    def inner(x):\n        return (x * jax.random.normal(key, x.shape)).sum()\n"
    "    return inner(p)\nkeys = jax.random.split(jax.random.key(1), 3)\nout = jax.vmap(loss)(jnp.ones((3, 2)), keys)",
    STATE + "@jax.jit\ndef step(state):\n    key, sub = jax.random.split(state.key)\n"
    "    return state._replace(w=state.w + jax.random.normal(sub), key=key)\n" + LOOP,
    "def step(x, key):\n    return x + jax.random.normal(key), key\nx, base = 0.0, jax.random.key(0)\n"
    "for i in range(3):\n    key = jax.random.fold_in(base, i)\n    x, key = step(x, key)",
    "@jax.jit\ndef features(x):\n    w = jax.random.normal(jax.random.key(0), (x.shape[-1], 8))\n"
    "    return jnp.cos(x @ w)\nout = features(jnp.ones((2, 4))), features(jnp.ones((2, 4)))",
]


@pytest.mark.parametrize("body", ONCE)
def test_keys_that_are_used_once_or_twice_on_purpose_are_left_alone(body: str):
    assert watched(IMPORTS + body).rules == []


@pytest.mark.parametrize("name", ["split(key, 3)", "split(key)", "fold_in(key, 1)"])
def test_a_new_key_that_nobody_takes_is_bound(name: str):
    cell = watched(IMPORTS + f"key = jax.random.key(0)\njax.random.{name}\nout = jax.random.normal(key)")
    assert cell.rules == ["key-dropped"]
    assert cell.fixed("key-dropped").rules == []


CHECKED = [
    "with jax.debug_key_reuse(True):\n    key = jax.random.key(0)\n    w = jax.random.normal(key, (3,))\n"
    "    out = jax.random.normal(key, (3,))",
    "def draw(rng):\n    a = jax.random.uniform(rng)\n    return a + jax.random.normal(rng)\n"
    "with jax.debug_key_reuse(True):\n    out = draw(jax.random.key(0))",
    "class Net:\n    def __init__(self, key):\n        self.w = jax.random.normal(key, (2,))\n"
    "        self.b = jax.random.normal(key, (1,))\n"
    "with jax.debug_key_reuse(True):\n    out = Net(jax.random.key(0)).b",
]


@pytest.mark.parametrize("body", CHECKED)
def test_a_key_that_jax_refuses_is_split_before_its_first_use(body: str):
    jax.clear_caches()  # JAX 0.8 doesn't check a program again that it compiled while nobody asked
    failure = failed(IMPORTS + body)
    assert failure.finding.rule == "key-used-twice"
    assert "first use: jax.random." in failure.evidence
    assert "out" in failure.fixed().namespace
