"""Clocks read too early, and loops over single elements."""

import pytest
from observed_cells import watched

IMPORTS = "import jax, time, numpy as np, jax.numpy as jnp\nfrom time import perf_counter\n"

EARLY = [
    (
        "f = jax.jit(lambda a: a @ a)\nx = jnp.ones((300, 300))\nt = time.perf_counter(); y = f(x)\n"
        "took = time.perf_counter() - t",
        "f(x)",
    ),
    (
        "@jax.jit\ndef step(w):\n    return w * 0.9\ndef bench(w, n):\n    start = perf_counter()\n"
        "    for _ in range(n):\n        w = step(w)\n    end = perf_counter()\n    return end - start\n"
        "took = bench(jnp.ones(9), 3)",
        "step(w)",
    ),
    (
        "f = jax.jit(lambda a: a @ a)\ndef bench(fn, x):\n    start = time.time()\n    y = fn(x)\n"
        "    return time.time() - start\ntook = bench(f, jnp.ones((99, 99)))",
        "fn(x)",
    ),
    (
        "class Bench:\n    def __init__(self, f):\n        self.f = jax.jit(f)\n    def run(self, x):\n"
        "        start = time.time()\n        y = self.f(x)\n        return time.time() - start\n"
        "took = Bench(lambda a: a @ a).run(jnp.ones((99, 99)))",
        "self.f(x)",
    ),
    (
        "class Model:\n    def __call__(self, x):\n        return x @ x\nmodel = Model()\nx = jnp.ones((99, 99))\n"
        "t0 = time.time()\ny = jnp.linalg.inv(x + jnp.eye(99))\nprint('took', time.time() - t0)",
        "jnp.linalg.inv(x + jnp.eye(99))",
    ),
    (
        "from contextlib import contextmanager\n@contextmanager\ndef timer(name):\n    start = perf_counter()\n"
        "    yield\n    print(name, perf_counter() - start)\nf = jax.jit(lambda a: a @ a)\nx = jnp.ones((9, 9))\n"
        "with timer('square'):\n    y = f(x)",
        "f(x)",
    ),
    (
        "class Timer:\n    def __enter__(self):\n        self.start = time.time()\n        return self\n"
        "    def __exit__(self, *error):\n        self.took = time.time() - self.start\n"
        "f = jax.jit(lambda a: a @ a)\nx = jnp.ones((9, 9))\nwith Timer() as t:\n    f(x)",
        "f(x)",
    ),
    (
        "def timed(f):\n    def run(*args):\n        start = time.time()\n        out = f(*args)\n"
        "        print(time.time() - start)\n        return out\n    return run\n"
        "@timed\n@jax.jit\ndef square(a):\n    return a @ a\nout = square(jnp.ones((9, 9)))",
        "f(*args)",
    ),
    (
        "import timeit\nf = jax.jit(lambda a: a @ a)\nx = jnp.ones((9, 9))\n"
        "took = timeit.timeit(lambda: f(x), number=2)",
        "f(x)",
    ),
    (
        "import timeit\nf = jax.jit(lambda a: a @ a)\nx = jnp.ones((9, 9))\n"
        "took = timeit.timeit('f(x)', globals=globals(), number=2)",
        "f(x)",
    ),
]


@pytest.mark.parametrize(("body", "queued"), EARLY)
def test_a_clock_that_is_read_before_the_work_is_done_is_found(body: str, queued: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["timing-without-wait"]
    assert queued in cell.found("timing-without-wait").title
    assert cell.fixed("timing-without-wait").rules == []


@pytest.mark.parametrize(
    "body",
    [
        "f = jax.jit(lambda a: a @ a)\nx = jnp.ones((9, 9))\nt = time.time()\ny = f(x).block_until_ready()\n"
        "took = time.time() - t",
        "f = jax.jit(lambda a: a @ a)\nx = jnp.ones((9, 9))\nt = time.time()\ny = f(x)\njax.block_until_ready(y)\n"
        "took = time.time() - t",
        "f = jax.jit(lambda a: a.sum())\nx = jnp.ones((9, 9))\nt = time.time()\nfor _ in range(3):\n    y = f(x)\n"
        "    print(float(y))\nprint(time.time() - t)",
        "f = jax.jit(lambda a: a.sum())\nx = jnp.ones((9, 9))\ny = f(x)\nt = time.time()\ntook = time.time() - t",
        "f = jax.jit(lambda a: a.sum())\ndef run(x):\n    return jax.block_until_ready(f(x))\nt = time.time()\n"
        "y = run(jnp.ones(3))\ntook = time.time() - t",
        "import timeit\nfrom contextlib import contextmanager\n@contextmanager\ndef timer():\n    t = time.time()\n"
        "    yield\n    print(time.time() - t)\n@contextmanager\ndef quiet():\n    yield\n"
        "f = jax.jit(lambda a: a.sum())\n"
        "x = jnp.ones(9)\nwith timer():\n    print(float(f(x)))\nwith quiet():\n    y = f(x)\n"
        "took = timeit.timeit(lambda: f(x).block_until_ready(), number=2)",
        "t = time.time()\nlowered = jax.jit(lambda a: a + 1).lower(jnp.ones(3))\ncompiled = lowered.compile()\n"
        "took = time.time() - t",
    ],
)
def test_a_clock_that_waits_is_right(body: str):
    assert watched(IMPORTS + body).rules == []


ELEMENTS = [
    ("x = jnp.arange(200.0)\ntotal = 0.0\nfor i in range(200):\n    total += x[i]", "range(200)"),
    (
        "def fill(n):\n    x = jnp.zeros(n)\n    for i in range(150):\n        x = x.at[i].set(i)\n    return x\n"
        "fill(150)",
        "range(150)",
    ),
    ("x = jnp.arange(120.0)\ntotal = 0.0\nfor v in x:\n    total += v", "x"),
    (
        "x = jnp.linspace(0, 1, 300)\ntotal = 0.0\nfor i in range(x.shape[0]):\n    total += float(x[i]) ** 2",
        "range(x.shape[0])",
    ),
]


@pytest.mark.parametrize(("body", "marked"), ELEMENTS)
def test_a_loop_over_single_elements_is_slow(body: str, marked: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["element-loop"]
    assert cell.marked("element-loop") == marked


def test_a_loop_over_an_array_becomes_one_over_numpy():
    assert watched(IMPORTS + ELEMENTS[2][0]).fixed("element-loop").rules == []


@pytest.mark.parametrize(
    "body",
    [
        "x = jnp.arange(8.0)\nfor i in range(8):\n    y = x[i]",
        "x = np.arange(500.0)\ntotal = 0.0\nfor i in range(500):\n    total += x[i]",
        "step = jax.jit(lambda w, r: w * r)\nrates = jnp.ones(200)\nw = jnp.ones(3)\nfor i in range(200):\n"
        "    w = step(w, rates[i])",
    ],
)
def test_short_loops_numpy_and_training_are_left_alone(body: str):
    assert watched(IMPORTS + body).rules == []
