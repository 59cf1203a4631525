"""Programs that are older than the NumPy arrays, patches and functions that they were made with."""

import jax.numpy as jnp
import pytest
from observed_cells import watched

IMPORTS = "import jax, jax.numpy as jnp, numpy as np\nfrom functools import partial\n"
F = "@jax.jit\ndef f(x):\n    return "

IN_PLACE = [
    ("mask = np.ones(4, np.float32)\n" + F + "x * mask", "mask[0] = 0", "mask", "f(jnp.ones(4))"),
    ("mask = np.ones(4)\n" + F + "x * mask", "mask.fill(0)", "mask", "f(jnp.ones(4))"),
    ("table = np.arange(5)\n" + F + "jnp.asarray(table)[x]", "table += 10", "table", "f(1)"),
    (
        "allowed = np.array([True, False])\n" + F + "jnp.where(allowed, x, 0.0)",
        "allowed[1] = True",
        "allowed",
        "f(2.0)",
    ),
    (
        "stats = {'mean': np.zeros(3)}\n" + F + "x - stats['mean']",
        "stats['mean'][:] = 1.5",
        "stats['mean']",
        "f(jnp.ones(3))",
    ),
    (
        "class Net:\n    def __init__(self):\n        self.mask = np.ones(3)\n    @partial(jax.jit, static_argnums=0)\n"
        "    def call(self, x):\n        return x * self.mask\nnet = Net()",
        "net.mask[1] = 0.0",
        "self.mask",
        "net.call(jnp.ones(3))",
    ),
]


@pytest.mark.parametrize(("first", "change", "target", "call"), IN_PLACE)
def test_an_array_that_a_later_cell_wrote_to_is_found_and_becomes_an_argument(
    first: str, change: str, target: str, call: str
):
    cell = watched(f"{IMPORTS}{first}\nbefore = {call}", f"{change}\nout = {call}")
    assert "stale-program" in cell.rules
    assert f"still uses the old `{target}`" in cell.found("stale-program").title
    assert cell.marked("stale-program") == call
    given = target.replace("self", "net")
    fixed = cell.fixed("stale-program", call, f"{call[:-1]}, {given})")
    assert "stale-program" not in fixed.rules
    again = watched(f"{IMPORTS}{first}\n{change}", f"out = {call}").notebook.namespace
    assert jnp.array_equal(fixed.notebook.namespace["out"], again["out"])


@pytest.mark.parametrize(
    ("first", "change"),
    [
        ("mask = np.ones(4)\n" + F + "x * mask", "copy = mask.copy()\ncopy[0] = 0"),
        ("mask = np.ones(4)\n" + F + "x * mask", "mask[0] = 5.0\nmask[0] = 1.0"),
        ("mask = np.ones(4)\n" + F + "x * jnp.asarray(mask * 2)", "pass"),
        ("a, b = np.ones(4), np.zeros(4)\n" + F + "x * a + b.size", "b[0] = 1"),
        ("a = np.arange(6.0)\n" + F + "x * a[:4] + a[2:]", "pass"),
        ("mask = np.ones(4)\n" + F + "x * mask", "mask = np.ones(4)"),
        ("mask = np.ones(4, np.float32)\n@jax.jit\ndef f(x, mask=mask):\n    return x * mask", "pass"),
    ],
)
def test_copies_and_what_is_written_back_are_not_stale(first: str, change: str):
    cell = watched(f"{IMPORTS}{first}\nbefore = f(jnp.ones(4))", f"{change}\nout = f(jnp.ones(4))")
    assert "stale-program" not in cell.rules


@pytest.mark.parametrize(
    ("body", "target"),
    [
        ("mask = np.ones(4)\n" + F + "x * mask\na = f(jnp.ones(4))\nnp.copyto(mask, 0)\nb = f(jnp.ones(4))", "mask"),
        (
            "mask = np.ones(4)\n" + F + "x * mask\na = f(jnp.ones(4))\nnp.add(mask, 1, out=mask)\nb = f(jnp.ones(4))",
            "mask",
        ),
        (
            "import types\nfrom unittest import mock\nlib = types.SimpleNamespace(act=jnp.tanh)\n"
            + F
            + "lib.act(x)\na = f(1.0)\nwith mock.patch.object(lib, 'act', jnp.sin):\n    b = f(1.0)",
            "lib.act",
        ),
        ("k = 2.0\ndef f(x):\n    return x * k\na = jax.jit(f)(1.0)\nk = 3.0\nb = jax.jit(f)(1.0)", "k"),
        (
            "def f(x):\n    return x * k\nout = []\nfor k in (1.0, 2.0):\n    g = jax.jit(f)\n    out.append(g(1.0))",
            "k",
        ),
    ],
)
def test_functions_that_write_patches_and_a_second_jit_are_seen_within_a_cell(body: str, target: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["stale-program"]
    assert f"still uses the old `{target}`" in cell.found("stale-program").title


def test_a_second_jit_in_a_later_cell_finds_the_program_of_the_first():
    cell = watched(
        IMPORTS + "k = 2.0\ndef f(x):\n    return x * k\na = jax.jit(f)(1.0)", "k = 3.0\nb = jax.jit(f)(1.0)"
    )
    assert cell.found("stale-program").title.endswith("`k`: 2.0 in the program, 3.0 now")


def test_what_is_called_after_a_patch_is_not_stale():
    body = (
        "import types\nfrom unittest import mock\nlib = types.SimpleNamespace(act=jnp.tanh)\n" + F + "lib.act(x)\n"
        "a = f(1.0)\nwith mock.patch.object(lib, 'act', jnp.sin):\n    b = lib.act(1.0)\nc = f(1.0)"
    )
    assert watched(IMPORTS + body).rules == []


REDEFINED = [
    (
        ["def f(x):\n    return x * 2\ng = jax.jit(f)\na = g(1.0)", "def f(x):\n    return x * 3", "out = g(1.0)"],
        "g(1.0)",
        3.0,
    ),
    (
        ["def f(x):\n    return x * 2\ng = jax.jit(f)\na = g(1.0)\ndef f(x):\n    return x * 3\nout = g(1.0)"],
        "g(1.0)",
        3.0,
    ),
    (
        [
            "def loss(w):\n    return (w ** 2).sum()\nslope = jax.jit(jax.grad(loss))",
            "def loss(w):\n    return (w ** 3).sum()",
            "w = jnp.ones(2)\nfor _ in range(2):\n    out = slope(w)",
        ],
        "slope(w)",
        3.0,
    ),
]


@pytest.mark.parametrize(("cells", "marked", "right"), REDEFINED)
def test_a_jitted_function_may_still_run_the_definition_of_before(cells: list[str], marked: str, right: float):
    cell = watched(IMPORTS + cells[0], *cells[1:])
    assert cell.rules == ["stale-program"]
    assert cell.marked("stale-program") == marked
    assert not cell.found("stale-program").sure
    fixed = cell.fixed("stale-program")
    assert fixed.rules == []
    assert jnp.all(fixed.notebook.namespace["out"] == right)


OLD = "def f(x):\n    return x * 2\ng = jax.jit(f)\na = g(1.0)"


@pytest.mark.parametrize(
    "cells",
    [
        [OLD, "def f(x):\n    return x * 3\ng = jax.jit(f)", "out = g(1.0)"],
        [OLD, "def f(x):\n    return x * 3\nnew = jax.jit(f)", "out = g(1.0), new(1.0)"],
        [OLD, OLD, "out = g(1.0)"],
        [OLD, "out = g(1.0)\ndef f(x):\n    return x * 3"],
        ["@jax.jit\ndef f(x):\n    return x * 2\na = f(1.0)", "@jax.jit\ndef f(x):\n    return x * 3\nout = f(1.0)"],
    ],
)
def test_what_is_jitted_again_or_kept_beside_the_new_one_is_not_reported(cells: list[str]):
    assert watched(IMPORTS + cells[0], *cells[1:]).rules == []
