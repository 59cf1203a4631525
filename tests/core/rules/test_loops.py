"""scan, while_loop, fori_loop, cond and switch: what does not fit, named by the user's own names."""

import jax.numpy as jnp
import pytest
from failing_cells import failed

IMPORTS = "import jax, jax.numpy as jnp\nfrom jax import lax\n"


def test_a_widened_carry_is_named_and_cast_where_it_widens():
    program = failed(
        IMPORTS + "def step(carry, row):\n    total, n = carry\n    return (total * row, n + 1), None",
        "out = lax.scan(step, (jnp.ones(2, jnp.bfloat16), 0), jnp.ones((3, 2)))",
    )
    assert program.finding.rule == "carry-type"
    assert program.marked == "total * row"
    assert program.finding.title == "the carry `total` enters as bf16[2] and leaves as f32[2]"
    assert program.finding.fix == "(total * row).astype(total.dtype)"
    assert "each step gets one row of jnp.ones((3, 2)): f32[3,2]" in program.evidence
    assert program.fixed().namespace["out"][0][0].dtype == jnp.bfloat16


INTEGER_STARTS = [
    ("out = lax.scan(lambda c, x: (c + x, None), jnp.zeros((), jnp.int32), jnp.array([0.5, 1.5]))[0]", "c + x", 2.0),
    ("out = lax.while_loop(lambda c: c < 3, lambda c: c + 0.5, jnp.int32(0))", "c + 0.5", 3.0),
    ("out = lax.fori_loop(0, 3, lambda i, c: c + i * 0.5, jnp.int32(0))", "c + i * 0.5", 1.5),
    (
        "def body(i, state):\n    s, t = state\n    s = s + 0.5\n    return s, t\n"
        "out = lax.fori_loop(0, 3, body, (jnp.int32(0), 1))[0]",
        "s + 0.5",
        1.5,
    ),
]


@pytest.mark.parametrize(("body", "marked", "result"), INTEGER_STARTS)
def test_an_integer_start_value_becomes_a_float(body: str, marked: str, result: float):
    program = failed(IMPORTS + body)
    assert program.finding.rule == "carry-type"
    assert program.marked == marked
    assert program.finding.fix.startswith("jnp.asarray(")
    assert program.fixed().namespace["out"] == result


def test_a_growing_carry_is_shown_with_both_shapes_and_no_cast():
    program = failed(IMPORTS + "lax.scan(lambda c, x: (jnp.append(c, x), None), jnp.ones(1), jnp.ones(3))")
    assert program.finding.title == "the carry `c` enters as f32[1] and leaves as f32[2]"
    assert not program.finding.fix


def test_a_scan_body_that_returns_no_pair_gets_one():
    program = failed(IMPORTS + "out = lax.scan(lambda c, x: c + x, 1.0, jnp.ones(3))[0]")
    assert program.finding.rule == "carry-structure"
    assert program.finding.fix == "(c + x, None)"
    assert program.fixed().namespace["out"] == 4.0


def test_a_carry_of_other_structure_is_told_from_one_of_other_type():
    program = failed(IMPORTS + "lax.scan(lambda c, x: ((c, c), None), 1.0, jnp.ones(3))")
    assert program.finding.rule == "carry-structure"
    assert "another structure" in program.finding.title
    assert program.marked == "((c, c), None)"


CONTAINERS = [
    (
        "def body(state):\n    x, n = state\n    return [x * 2, n + 1]\n"
        "out = lax.while_loop(lambda state: state[1] < 3, body, (1.0, 0))[0]",
        "(x * 2, n + 1)",
        8.0,
    ),
    (
        "class Walk:\n    def step(self, state, t):\n        return {'x': state['x'] + t}, state['x']\n"
        "start = {'x': 0.0, 'speed': 1.0}\nout = lax.scan(Walk().step, start, jnp.ones(3))[0]['x']",
        "{**state, 'x': state['x'] + t}",
        3.0,
    ),
    ("out = lax.fori_loop(0, 3, lambda i, c: (c + i, None), 1.0)", "c + i", 4.0),
    (
        "@jax.jit\ndef run(x):\n    def body(i, pair):\n        return pair[1], pair[0]\n"
        "    return lax.fori_loop(0, 3, body, [x, x + 1])\nout = jax.vmap(run)(jnp.arange(2.0))[0][0]",
        "[pair[1], pair[0]]",
        1.0,
    ),
]


@pytest.mark.parametrize(("body", "fix", "out"), CONTAINERS)
def test_a_carry_is_returned_in_the_container_that_it_came_in(body: str, fix: str, out: float):
    program = failed(IMPORTS + body)
    assert (program.finding.rule, program.finding.fix) == ("carry-structure", fix)
    assert program.fixed().namespace["out"] == out


def test_branches_are_named_with_what_they_return():
    program = failed(
        IMPORTS + "def grow(x):\n    return x * 1.5\ndef reset(x):\n    return 0",
        "out = lax.cond(False, grow, reset, jnp.float32(2.0))",
    )
    assert program.finding.rule == "branch-type"
    assert program.finding.title == "the branches return different dtypes: `grow` f32[] and `reset` i32[]"
    assert program.finding.fix == "jnp.asarray(0, 'float32')"
    assert program.fixed().namespace["out"] == 0.0


def test_lambdas_on_one_line_are_told_apart_by_their_text():
    program = failed(IMPORTS + "lax.cond(True, lambda x: x[:2], lambda x: x, jnp.ones(3))")
    assert "`lambda x: x[:2]` f32[2] and `lambda x: x` f32[3]" in program.finding.title


def test_a_switch_with_a_branch_of_other_dtype():
    program = failed(IMPORTS + "out = lax.switch(1, [lambda x: x, lambda x: x.astype(int)], 2.5)")
    assert program.finding.rule == "branch-type"
    assert program.fixed().namespace["out"] == 2.0


SHAPES = [
    ("out = lax.cond(True, lambda x: jnp.zeros(1), lambda x: x.mean(), jnp.ones(3))", "jnp.reshape(x.mean(), (1,))", 1),
    ("out = lax.switch(1, [lambda x: x, lambda x: x[None]], jnp.ones(3))", "jnp.reshape(x[None], (3,))", 3),
    (
        "class Policy:\n    def rest(self, x):\n        return x[0]\n    def act(self, x, go):\n"
        "        return lax.cond(go, lambda x: x[:1], self.rest, x)\nout = jax.jit(Policy().act)(jnp.ones(3), True)",
        "jnp.reshape(x[0], (1,))",
        1,
    ),
]


@pytest.mark.parametrize(("body", "fix", "size"), SHAPES)
def test_a_branch_of_as_many_elements_is_reshaped(body: str, fix: str, size: int):
    program = failed(IMPORTS + body)
    assert program.finding.rule == "branch-type"
    assert program.finding.fix == fix
    assert program.fixed().namespace["out"].shape == (size,)


def test_branches_of_other_sizes_get_no_fix():
    program = failed(IMPORTS + "lax.cond(True, lambda x: x[:2], lambda x: x, jnp.ones(3))")
    assert program.finding.rule == "branch-type"
    assert not program.finding.fix


def test_branches_of_other_structure():
    program = failed(IMPORTS + "lax.cond(True, lambda x: (x, x), lambda x: x, 1.0)")
    assert program.finding.rule == "branch-structure"
    assert "`(x, x)` and `x`" in program.finding.title


BRANCHES = [
    ("out = lax.cond(True, lambda x: (x, 2 * x), lambda x: [x, x], 1.0)[1]", "(x, x)", 2.0),
    (
        "class Policy:\n    def rest(self, x):\n        return x,\n    def act(self, x):\n        return -x\n"
        "    def __call__(self, x):\n        return lax.cond(x > 0, self.act, self.rest, x)\n"
        "out = jax.jit(Policy().__call__)(2.0)",
        "x",
        -2.0,
    ),
    (
        "def low(x):\n    return [x, x.sum()]\ndef high(x):\n    return x * 2, x.max()\n"
        "out = jax.grad(lambda x: lax.switch(1, [low, high], x)[1])(jnp.arange(2.0))[1]",
        "[x * 2, x.max()]",
        1.0,
    ),
]


@pytest.mark.parametrize(("body", "fix", "out"), BRANCHES)
def test_branches_return_the_same_container(body: str, fix: str, out: float):
    program = failed(IMPORTS + body)
    assert (program.finding.rule, program.finding.fix) == ("branch-structure", fix)
    assert program.fixed().namespace["out"] == out


@pytest.mark.parametrize(
    ("body", "fix"),
    [
        ("out = lax.while_loop(lambda c: c < 3, lambda c: c + 1, jnp.ones(2))", "(c < 3).any()"),
        ("x = jnp.ones(3)\nout = lax.cond(x > 0, lambda x: x, lambda x: -x, x)", "jnp.any(x > 0)"),
        (
            "class Gate:\n    def __call__(self, x):\n        return lax.cond(x.mean(0) > 0, jnp.sin, jnp.cos, x)\n"
            "out = jax.jit(Gate().__call__)(jnp.ones((3, 2)))",
            "jnp.any(x.mean(0) > 0)",
        ),
    ],
)
def test_a_condition_of_many_values_is_reduced(body: str, fix: str):
    program = failed(IMPORTS + body)
    assert program.finding.rule == "predicate-not-scalar"
    assert program.finding.fix == fix
    assert "out" in program.fixed().namespace
