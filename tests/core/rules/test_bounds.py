"""Indices beyond the end: found where they can be known, in any dress; nothing said where they can't or are meant."""

import jax
import jax.numpy as jnp
import pytest
from observed_cells import watched

import jaxmagic

IMPORTS = "import jax, numpy as np, jax.numpy as jnp\nfrom jax import lax\n"

BEYOND = [
    ("x = jnp.arange(5.0)\nout = x[5]", "x[5]", "index 5 for an axis of size 5"),
    (
        "table = jnp.ones((3, 2))\n@jax.jit\ndef look(t, ids):\n    rows = t[ids]\n    return rows.sum(axis=1)\n"
        "ids = jnp.array([0, 3])\nout = look(table, ids)",
        "t[ids]",
        "index 3 (of `ids`) for an axis of size 3",
    ),
    (
        "class Grid:\n    def __init__(self):\n        self.cells = jnp.zeros((4, 6))\n    def corner(self):\n"
        "        grid = self.cells\n        return grid[3, 6]\nout = Grid().corner()",
        "grid[3, 6]",
        "index 6 for an axis of size 6",
    ),
    (
        "@jax.jit\ndef steps(x):\n    total = 0.0\n    for i in range(4):\n        total = total + (x[i + 1] - x[i])\n"
        "    return total\nout = steps(jnp.arange(4.0))",
        "x[i + 1]",
        "index 4 (of `i + 1`) for an axis of size 4",
    ),
    (
        "a = jnp.arange(6.0)\ndef body(c, i):\n    return c + a[i + 1] - a[i], None\n"
        "out = lax.scan(body, 0.0, jnp.arange(6))[0]",
        "a[i + 1]",
        "index 6 (of `i + 1`) for an axis of size 6",
    ),
    (
        "out = lax.fori_loop(0, 5, lambda i, c: c + jnp.arange(4.0)[0] * i, 0.0)\nx = jnp.arange(4.0)\n"
        "def body(i, c):\n    return c + x[i]\nout = lax.fori_loop(0, 5, body, 0.0)",
        "x[i]",
        "index 4 (of `i`) for an axis of size 4",
    ),
    (
        "def total():\n    xs = jnp.linspace(0.0, 1.0, 5)\n    n, s = len(xs), 0.0\n    m = len(xs)\n"
        "    for i in range(m):\n        s = s + xs[i + 1]\n    return s\nout = total()",
        "xs[i + 1]",
        "index 5 (of `i + 1`) for an axis of size 5",
    ),
    ("x = jnp.zeros(3)\nout = x.at[3].add(1.0)", "x.at[3].add(1.0)", "index 3 for an axis of size 3"),
    ("x = jnp.zeros((2, 3))\nout = jnp.take(x, 6)", "jnp.take(x, 6)", "index 6 for an axis of size 6"),
    (
        "out = jax.vmap(lambda row: row[-4])(jnp.ones((5, 3)))",
        "row[-4]",
        "index -4 for an axis of size 3",
    ),
]


@pytest.mark.parametrize(("body", "marked", "told"), BEYOND)
def test_an_index_beyond_the_end_is_found_and_the_fix_states_what_is_meant(body: str, marked: str, told: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["index-out-of-range"]
    assert cell.marked("index-out-of-range") == marked
    assert told in cell.found("index-out-of-range").title
    assert cell.fixed("index-out-of-range").rules == []


def test_windows_and_branches_beyond_the_end_are_found():
    cell = watched(
        IMPORTS + "x = jnp.arange(5)\na = lax.dynamic_slice(x, (4,), (3,))\nb = lax.dynamic_slice_in_dim(x, 3, 3)\n"
        "c = lax.switch(7, [lambda: 0, lambda: 1, lambda: 2])\n"
        "d = lax.dynamic_update_slice(x, jnp.arange(3), (4,))"
    )
    assert cell.rules == ["index-out-of-range"] * 4
    assert "moves the window back" in cell.report.findings[0].explanation
    assert "branch number 7 for 3 branches" in cell.report.findings[2].title


LOOKED_UP = [
    (
        "@jax.jit\ndef nll(logits, y):\n    logp = jax.nn.log_softmax(logits)\n"
        "    return -jnp.take_along_axis(logp, y[:, None], axis=1).mean()\n"
        "labels = jnp.array([0, 3])\nout = nll(jnp.zeros((2, 3)), labels)",
        "jnp.take_along_axis(logp, y[:, None], axis=1)",
    ),
    ("ids = jnp.array([0, 2])\nout = jax.ops.segment_sum(jnp.ones(2), ids, num_segments=2)", "jax.ops.segment_sum"),
    ("y = jnp.array([1, 2, 3])\nout = jax.nn.one_hot(y, 3)", "jax.nn.one_hot(y, 3)"),
    (
        "import optax\nlogits = jnp.zeros((2, 3))\ny = jnp.array([1, 3])\n"
        "out = optax.softmax_cross_entropy_with_integer_labels(logits, y)",
        "optax.softmax_cross_entropy_with_integer_labels(logits, y)",
    ),
    (
        "from flax import nnx\nembed = nnx.Embed(num_embeddings=4, features=2, rngs=nnx.Rngs(0))\n"
        "out = embed(jnp.array([1, 4]))",
        "embed(jnp.array([1, 4]))",
    ),
    (
        "class Table:\n    def __init__(self): self.rows = jnp.zeros(3)\n    def write(self, i, v):\n"
        "        self.rows = self.rows.at[i].set(v)\nt = Table()\nfor i in range(4):\n    t.write(i, 1.0)",
        "self.rows.at[i].set(v)",
    ),
    (
        "@jax.jit\ndef pick(t, i):\n    return t[i]\nt = jnp.arange(3.0)\nout = pick(t, 1), pick(t, 3)",
        "t[i]",
    ),
    ("ks = jax.random.split(jax.random.PRNGKey(0), 2)\nout = [jax.random.normal(ks[i]) for i in range(3)]", "ks[i]"),
]


@pytest.mark.parametrize(("body", "marked"), LOOKED_UP)
def test_numbers_of_classes_segments_and_rows_beyond_the_end_are_found(body: str, marked: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["index-out-of-range"]
    assert cell.marked("index-out-of-range").startswith(marked)


INSIDE = [
    "y = jnp.array([-1, 2])\nout = jax.nn.one_hot(y, 3), jax.ops.segment_sum(jnp.ones(2), y, num_segments=3)",
    "x = jnp.arange(5)\nout = x[4], x[-5], x[2:9], x[jnp.array([0, 4])], x[...], x[None, 2]",
    "x = jnp.arange(5)\nfor i in range(5):\n    if i < 4:\n        y = x[i + 1]",
    "x = jnp.arange(5)\nfor i in range(9):\n    if i == 5:\n        break\n    y = x[i]",
    "x = jnp.zeros(5)\nout = x.at[5].set(1.0, mode='drop'), jnp.take(x, 7, mode='clip')",
    "x = np.arange(5)\nout = [x[i] for i in range(5)]",
    "x = {5: jnp.ones(2)}\nout = x[5]",
    "pairs = [jnp.ones(2) for _ in range(7)]\nout = pairs[6]",
    "x = jnp.ones((3, 4))\nmask = x > 0\nout = x[mask], x[0, 3], lax.dynamic_slice(x, (1, 0), (2, 4))",
    "@jax.jit\ndef f(x, i):\n    return x[i]\nout = f(jnp.ones(3), 1), f(jnp.ones(9), 8)",
    "a = jnp.arange(6.0)\ndef body(c, i):\n    return c + a[i + 1] - a[i], None\n"
    "out = lax.scan(body, 0.0, jnp.arange(5))[0], lax.dynamic_update_slice(a, jnp.zeros(2), (4,))",
    "n = 3\nn = 8\nx = jnp.ones(n)\nout = x[n - 1]",
]


@pytest.mark.parametrize("body", INSIDE)
def test_indices_that_are_right_guarded_or_unknown_are_left_alone(body: str):
    assert watched(IMPORTS + body).rules == []


@jax.jit
def encode(table: jax.Array, x: jax.Array) -> jax.Array:
    ids = (x * 12).astype(jnp.int32)
    return table[ids]


@jax.vmap
def guarded(table: jax.Array, i: jax.Array) -> jax.Array:
    return jax.lax.cond(i < 3, lambda i: table[i], lambda i: 0.0, i)


def test_values_that_were_tapped_are_compared_with_the_axis_they_index():
    table = jnp.ones((10, 2))
    with jaxmagic.tap() as t:
        encode(table, jnp.linspace(0, 1, 5))
    assert t.report is not None
    (finding,) = t.report.findings
    assert finding.rule == "index-out-of-range"
    assert finding.title == "`table[ids]`: index 12 (of `ids`) for an axis of size 10"
    assert finding.fix == "table.at[ids].get(mode='fill')"


def test_nothing_is_said_of_tapped_values_inside_of_the_axis_or_of_lanes_that_went_another_way():
    with jaxmagic.tap() as t:
        encode(jnp.ones((13, 2)), jnp.linspace(0, 1, 5))
        guarded(jnp.ones((2, 3)), jnp.array([1, 5]))
    assert t.report is not None
    assert t.report.findings == ()
