"""Loops that take an array apart outside of jit: of what forms, what they become, and which are left alone."""

import jax.numpy as jnp
import pytest
from observed_cells import watched

IMPORTS = "import jax, jax.numpy as jnp, numpy as np\n"
X = "x, y = jnp.arange(150.0), jnp.ones(150)\nout = 0.0\n"

WITH_FIX = [
    (X + "for i, v in enumerate(x):\n    out = out + v * i", "enumerate(x)"),
    (X + "for a, b in zip(x, y):\n    out += a * b", "zip(x, y)"),
    (X + "out = sum([v * 2 for v in x])", "x"),
    (X + "out = sum(x)", "sum(x)"),
    (X + "out = max(x)", "max(x)"),
    (
        "def total(x):\n    t = 0.0\n    for v in reversed(x):\n        t += v\n    return t\n"
        "out = total(jnp.ones(120))",
        "reversed(x)",
    ),
]


@pytest.mark.parametrize(("body", "marked"), WITH_FIX)
def test_a_loop_over_the_elements_of_an_array_runs_over_numpy_instead(body: str, marked: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["element-loop"]
    assert cell.marked("element-loop") == marked
    fixed = cell.fixed("element-loop")
    assert fixed.rules == []
    assert jnp.allclose(fixed.notebook.namespace["out"], cell.notebook.namespace["out"])


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        ("A, t = jnp.ones((12, 15)), 0.0\nfor i in range(12):\n    for j in range(15):\n        t += A[i, j]", 180),
        (
            "class Grid:\n    def __init__(self, n):\n        self.n = n\n    def fill(self, a):\n"
            "        for i in range(a.shape[0]):\n            row = i * 2\n            for j in range(a.shape[1]):\n"
            "                a = a.at[i, j].set(row + j)\n        return a\nout = Grid(3).fill(jnp.zeros((10, 11)))",
            110,
        ),
        (X + "ys = [x[i] * 2 for i in range(150)]", 150),
        (X + "t = sum(x[i] ** 2 for i in range(len(x)))", 150),
        ("A = jnp.ones((11, 10))\nrows = [A[i, j] for i in range(11) for j in range(10)]", 110),
    ],
)
def test_nested_loops_and_comprehensions_are_counted_together(body: str, passes: int):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["element-loop"]
    assert cell.found("element-loop").title.startswith(f"{passes} passes")


@pytest.mark.parametrize(
    "body",
    [
        X + "ys = [v * 2 for v in x.tolist()]",
        "x = np.arange(150.0)\nout = sum(x[i] for i in range(150)), sum(x)\nfor i, v in enumerate(x):\n    out = v",
        "xs = [jnp.ones(3)] * 120\nout = sum(xs)\nfor i, v in enumerate(xs):\n    out = out + v",
        "table = {i: i for i in range(150)}\nout = sum(table[i] for i in range(150))",
        "def f(v):\n    return v * 2\nx = jnp.arange(150.0)\nout = [f(x[i]) for i in range(150)]",
        "A = jnp.ones((5, 150))\nout = 0.0\nfor i in range(5):\n    out += A[i].sum()",
        "@jax.jit\ndef step(w, b):\n    return w + b\nrates, w = jnp.ones(120), jnp.zeros(4)\nlog = []\n"
        "for e in range(120):\n    for b in (jnp.ones(4), jnp.zeros(4)):\n        w = step(w, b)\n"
        "    log.append(rates[e])",
        "total = sum\nsum = lambda x: x\nx = jnp.arange(150.0)\nout = sum(x)",
        "@jax.jit\ndef f(x):\n    return x[0]\nout = f(jnp.arange(150.0))",
    ],
)
def test_lists_numpy_rows_and_loops_with_other_work_are_left_alone(body: str):
    assert "element-loop" not in watched(IMPORTS + body).rules
