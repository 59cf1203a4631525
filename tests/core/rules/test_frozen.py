"""What Python drew or read once, while a function was traced; and what it may well read then."""

from pathlib import Path

import pytest
from observed_cells import watched

IMPORTS = "import os, random, time, uuid, jax, numpy as np, jax.numpy as jnp\nfrom datetime import datetime\n"

DRAWS = [
    (
        "class Augment:\n    def __init__(self): self.rng = np.random.default_rng(0)\n"
        "    def noise(self, x): \n        return x + self.rng.normal(size=x.shape)\n"
        "a = Augment()\nf = jax.jit(a.noise)\nout = f(jnp.zeros(3))",
        "self.rng.normal(size=x.shape)",
        "out = f(jnp.zeros(3))",
        "out = f(jnp.zeros(3), jax.random.key(0))",
    ),
    (
        "def make():\n    rng = np.random.RandomState(0)\n    @jax.jit\n    def f(x):\n"
        "        return x * rng.uniform()\n    return f\nf = make()\nout = f(2.0)",
        "rng.uniform()",
        "out = f(2.0)",
        "out = f(2.0, jax.random.key(0))",
    ),
    (
        "@jax.jit\ndef crop(x, scale=1.0):\n    i = np.random.randint(0, 4)\n    return scale * x[i]\n"
        "out = crop(jnp.arange(4.0))",
        "np.random.randint(0, 4)",
        "out = crop(jnp.arange(4.0))",
        "out = crop(jnp.arange(4.0), key=jax.random.key(0))",
    ),
]


@pytest.mark.parametrize(("body", "marked", "call", "with_key"), DRAWS)
def test_draws_of_generators_wherever_they_are_held_are_frozen(body: str, marked: str, call: str, with_key: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["frozen-random"]
    assert cell.marked("frozen-random") == marked
    fixed = cell.fixed("frozen-random", call, with_key)
    assert fixed.rules == []
    assert fixed.report.failure is None


def test_no_traced_draw_is_offered_where_python_decides():
    body = "@jax.jit\ndef flip(x):\n    if random.random() < 0.5:\n        x = -x\n    return x\nout = flip(1.0)"
    assert watched(IMPORTS + body).found("frozen-random").fix == ""


NAMED = [
    ("np.random.normal(scale=0.1, size=x.shape)", "0.1 * jax.random.normal(key, x.shape)"),
    ("np.random.normal(3.0)", "3.0 + 1.0 * jax.random.normal(key)"),
    ("np.random.uniform(low=-1.0, size=2)", "jax.random.uniform(key, 2, minval=-1.0, maxval=1.0)"),
    ("random.gauss(mu=1.0, sigma=2.0)", "1.0 + 2.0 * jax.random.normal(key)"),
    ("np.random.exponential(scale=2.0)", ""),
]


def test_what_is_given_by_name_stays_in_the_draw_that_takes_its_place():
    bodies = [f"@jax.jit\ndef f{n}(x):\n    return x + {draw}\nf{n}(1.0)\n" for n, (draw, _) in enumerate(NAMED)]
    bodies = [body.replace("1.0)\n", "jnp.ones(2))\n") for body in bodies]
    found = watched(IMPORTS + "".join(bodies)).report.findings
    assert [
        twin in each.fix and bool(twin) == bool(each.fix) for each, (_, twin) in zip(found, NAMED, strict=True)
    ] == [True] * len(NAMED)


READS = [
    ("@jax.jit\ndef f(x):\n    return x + time.time()\nout = f(1.0)", "time.time()", "now=0.5"),
    ("@jax.jit\ndef f(x):\n    return x * float(os.environ['HOME'] != '')\nout = f(1.0)", "os.environ['HOME']", ""),
    ("@jax.jit\ndef f(x):\n    tag = uuid.uuid4().int % 7\n    return x + tag\nout = f(1.0)", "uuid.uuid4()", ""),
    (
        "def helper(x):\n    return x + datetime.now().second\nf = jax.jit(lambda x: helper(x))\nout = f(1.0)",
        "datetime.now()",
        "",
    ),
    (
        "import json\nfrom pathlib import Path\nPath('conf.json').write_text('[2.0]')\n@jax.jit\ndef f(x):\n"
        "    with open('conf.json') as file:\n        return x * json.load(file)[0]\nout = f(1.0)",
        "open('conf.json')",
        "",
    ),
    (
        "from pathlib import Path\nPath('rate.txt').write_text('2.0')\n@jax.jit\ndef f(x):\n"
        "    return x * float(Path('rate.txt').read_text())\nout = f(1.0)",
        "Path('rate.txt').read_text()",
        "",
    ),
]


@pytest.mark.parametrize(("body", "marked", "argument"), READS)
def test_what_is_read_while_tracing_is_possibly_frozen(
    body: str, marked: str, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    cell = watched(IMPORTS + body)
    assert cell.rules == ["frozen-read"]
    assert cell.marked("frozen-read") == marked
    assert not cell.found("frozen-read").sure
    if argument:
        assert cell.fixed("frozen-read", "out = f(1.0)", f"out = f(1.0, {argument})").rules == []


TOLD = [
    "@jax.jit\ndef features(x):\n    rng = np.random.default_rng(0)\n    return x @ rng.normal(size=(3, 4))\n"
    "out = features(jnp.ones(3))",
    "@jax.jit\ndef table(x):\n    np.random.seed(1)\n    return x + np.random.rand(3)\nout = table(jnp.ones(3))",
    "@jax.jit\ndef f(x):\n    print('tracing at', time.time())\n    return x\nout = f(1.0)",
    "import logging\nlog = logging.getLogger('quiet')\n@jax.jit\ndef f(x):\n    began = time.perf_counter()\n"
    "    y = jnp.sin(x)\n    took = time.perf_counter() - began\n    log.info('traced in %s', took)\n    return y\n"
    "out = f(1.0)",
    "rng = np.random.default_rng(0)\ndef batches():\n    for _ in range(3):\n        yield rng.normal(size=4)\n"
    "@jax.jit\ndef f(x):\n    return x.sum()\nout = [f(x.astype(np.float32)) for x in batches()]",
]


@pytest.mark.parametrize("body", TOLD)
def test_what_is_only_told_or_drawn_outside_is_left_alone(body: str):
    assert watched(IMPORTS + body).rules == []
