"""Branches under vmap, where both are computed: said where that is dear, and not where they are cheap or chosen."""

import pytest
from observed_cells import watched

IMPORTS = "import jax, jax.numpy as jnp\nfrom jax import lax\n"
DEAR = "def dear(x):\n    return lax.fori_loop(0, 9, lambda i, x: jnp.sin(x), x)\n"

BOTH = [
    (
        DEAR + "def f(x):\n    return lax.cond(x > 0, dear, lambda x: x, x)\nout = jax.vmap(f)(jnp.array([-1.0, 2.0]))",
        "lax.cond(x > 0, dear, lambda x: x, x)",
    ),
    (
        DEAR + "@jax.jit\ndef f(x):\n    return lax.cond(x > 0, lambda x: dear(x) + 1, lambda x: x, x)\n"
        "out = jax.vmap(f)(jnp.array([-1.0, 2.0]))",
        "lax.cond(x > 0, lambda x: dear(x) + 1, lambda x: x, x)",
    ),
    (
        "class Solver:\n    def invert(self, a): return a @ a @ a\n    def __call__(self, i, a):\n"
        "        return lax.switch(i, [lambda a: a, self.invert], a)\n"
        "out = jax.jit(jax.vmap(Solver()))(jnp.array([0, 1]), jnp.ones((2, 3, 3)))",
        "lax.switch(i, [lambda a: a, self.invert], a)",
    ),
]


@pytest.mark.parametrize(("body", "marked"), BOTH)
def test_a_dear_branch_that_runs_for_every_example_is_found(body: str, marked: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["both-branches-run"]
    assert cell.marked("both-branches-run") == marked


def test_a_map_computes_only_the_branch_that_is_taken():
    cell = watched(IMPORTS + BOTH[0][0])
    assert cell.found("both-branches-run").fix == "jax.lax.map(f, jnp.array([-1.0, 2.0]))"
    assert cell.fixed("both-branches-run").rules == []


CHEAP = [
    "def f(x):\n    return lax.cond(x > 0, lambda x: x, lambda x: -x, x)\nout = jax.vmap(f)(jnp.array([-1.0, 2.0]))",
    DEAR + "def f(x, big):\n    return lax.cond(big, dear, lambda x: x, x)\n"
    "out = jax.vmap(f, (0, None))(jnp.array([-1.0, 2.0]), True)",
    DEAR + "def f(x):\n    return lax.cond(x > 0, dear, lambda x: x, x)\nout = lax.map(f, jnp.array([-1.0, 2.0]))",
    DEAR + "def f(x):\n    return jnp.where(x > 0, dear(x), x)\nout = jax.vmap(f)(jnp.array([-1.0, 2.0]))",
]


@pytest.mark.parametrize("body", CHEAP)
def test_cheap_branches_common_predicates_and_maps_are_left_alone(body: str):
    assert watched(IMPORTS + body).rules == []
