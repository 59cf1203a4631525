"""Conditions on traced arrays, in sight and hidden: the diagnosis, and the fix applied and run."""

import jax.numpy as jnp
import pytest
from failing_cells import failed

IMPORTS = "import jax, jax.numpy as jnp\n"


def in_cell(body: str) -> str:
    return IMPORTS + body


@pytest.mark.parametrize(
    ("body", "fix", "result"),
    [
        (
            "@jax.jit\ndef norm_clip(g):\n    n = jnp.linalg.norm(g)\n    return g * min(1.0, 2.0 / n)\n"
            "out = norm_clip(jnp.array([3.0, 4.0]))",
            "jnp.minimum(1.0, 2.0 / n)",
            [1.2, 1.6],
        ),
        ("out = jax.jit(lambda a, b: max(a, b, 0.5))(1.0, 2.0)", "jnp.maximum(jnp.maximum(a, b), 0.5)", 2.0),
        ("out = jax.jit(lambda x: sorted(x))(jnp.array([2.0, 1.0]))", "jnp.sort(x)", [1.0, 2.0]),
        ("out = jax.jit(lambda x: any(x))(jnp.array([0.0, 1.0]))", "jnp.any(x)", True),
        ("out = jax.vmap(lambda x: max(x))(jnp.array([[2.0, 1.0]]))", "jnp.max(x)", [2.0]),
        ("out = jax.jit(lambda *each: max(*each))(1.0, 2.0)", "jnp.max(jnp.stack(each))", 2.0),
        (
            "@jax.jit\ndef ranked(s):\n    return sorted(range(3), key=lambda i: s[i])\n"
            "out = ranked(jnp.array([3.0, 1.0, 2.0]))",
            "jnp.argsort(s)",
            [1, 2, 0],
        ),
        ("out = jax.jit(lambda a, b: all([a > 0, b > 0]))(1.0, 2.0)", "jnp.all(jnp.stack([a > 0, b > 0]))", True),
    ],
)
def test_a_hidden_comparison_in_a_builtin_is_found_and_rewritten(body: str, fix: str, result: object):
    program = failed(in_cell(body))
    assert program.finding.rule == "builtin-on-traced"
    assert program.finding.fix == fix
    assert jnp.allclose(program.fixed().namespace["out"], jnp.asarray(result))


def test_the_builtin_names_both_values_and_the_arguments_they_depend_on():
    program = failed(
        in_cell("def clip(g, top):\n    n = jnp.sqrt(jnp.sum(g ** 2))\n    return g * min(1.0, top / n)\n"),
        "jax.jit(clip)(jnp.ones(3), 1.0)",
    )
    assert program.text == "min(1.0, top / n)"
    assert program.operands == {"top / n": "f32[]"}
    assert "`1.0` and `top / n` (f32[])" in program.finding.explanation
    assert "`g` and `top`" in program.finding.explanation
    assert program.failure.phase == "tracing"


CONDITIONS = [
    (
        "def f(x):\n    if x > 0:\n        return x\n    return -x\nout = jax.jit(f)(-2.0)",
        "x > 0",
        "return jnp.where(x > 0, x, -x)",
        2.0,
    ),
    (
        "def f(x):\n    if x > 0:\n        y = x\n    else:\n        y = 0.5 * x\n    return y\nout = jax.jit(f)(-2.0)",
        "x > 0",
        "y = jnp.where(x > 0, x, 0.5 * x)",
        -1.0,
    ),
    (
        "def f(x):\n    if jnp.sum(x) > 1:\n        x *= 2\n    return x\nout = jax.jit(f)(jnp.ones(2))",
        "jnp.sum(x) > 1",
        "x = jnp.where(jnp.sum(x) > 1, x * 2, x)",
        [2.0, 2.0],
    ),
    (
        "def f(x):\n    y = 0.0\n    if x > 0:\n        y = x\n        x = x - 1\n"
        "    return x + y\nout = jax.jit(f)(2.0)",
        "x > 0",
        "def when_true(y, x):\n    y = x\n    x = x - 1\n    return (y, x)\ndef when_false(y, x):\n"
        "    return (y, x)\ny, x = jax.lax.cond(x > 0, when_true, when_false, y, x)",
        3.0,
    ),
    ("out = jax.vmap(lambda x: 1.0 if x > 0 else -1.0)(jnp.array([2.0, -2.0]))", "x > 0", None, [1.0, -1.0]),
    ("out = jax.jit(lambda x: x > 0 and x < 3)(2.0)", "x > 0 and x < 3", None, True),
    ("out = jax.jit(lambda x: x < 0 or x > 1)(2.0)", "x < 0 or x > 1", None, True),
    ("out = jax.jit(lambda x: not x > 3)(2.0)", "not x > 3", None, True),
    ("out = jax.jit(lambda x: 0 < x < 3)(2.0)", "0 < x < 3", None, True),
    ("out = jax.jit(lambda x: x in (1.0, 2.0))(2.0)", "x in (1.0, 2.0)", None, True),
    (
        "def f(x):\n    while x > 1:\n        x = x / 2\n    return x\nout = jax.jit(f)(5.0)",
        "x > 1",
        "def step(x):\n    x = x / 2\n    return x\nx = jax.lax.while_loop(lambda x: x > 1, step, x)",
        0.625,
    ),
    (
        "def f(x):\n    n = 0\n    while x > 1:\n        x = x / 2\n        n += 1\n"
        "    return n\nout = jax.jit(f)(5.0)",
        "x > 1",
        None,
        3,
    ),
    (
        "@jax.jit\ndef f(x, training):\n    if training:\n        x = x * 0.5\n    return x\nout = f(2.0, True)",
        "training",
        "@jax.jit(static_argnames='training')",
        1.0,
    ),
]


@pytest.mark.parametrize(("body", "marked", "fix", "result"), CONDITIONS)
def test_a_condition_becomes_a_choice_inside_the_program(body: str, marked: str, fix: str | None, result: object):
    program = failed(in_cell(body))
    assert program.finding.rule == "condition-on-traced"
    assert program.text in marked
    assert fix is None or program.finding.fix == fix
    assert jnp.allclose(program.fixed().namespace["out"], jnp.asarray(result))


def test_under_vmap_the_batch_is_blamed_and_static_arguments_are_ruled_out():
    program = failed(
        in_cell("def escape(c, limit):\n    z = 0j\n    for i in range(limit):\n        z = z * z + c\n")
        + "        if jnp.abs(z) > 2.0:\n            return i\n    return limit",
        "jax.vmap(escape, in_axes=(0, None))(jnp.array([0.5 + 0.5j, 0.1 + 0.1j]), 20)",
    )
    assert program.text == "jnp.abs(z) > 2.0"
    assert program.operands == {"jnp.abs(z)": "f32[]"}
    assert "batch" in program.finding.explanation
    assert "`c`" in program.finding.explanation
    assert "no help" in program.finding.explanation
    written = [hint.span.line for hint in program.failure.operands[0].provenance]
    assert written[0] == 5


EARLY_RETURN = """
def escape(c, limit):
    z = 0.0 + 0.0j
    for i in range(limit):
        z = z * z + c
        if jnp.abs(z) > 2.0:
            return i
    return limit
"""


def test_an_early_return_becomes_a_loop_whose_finished_lanes_stand_still():
    program = failed(
        IMPORTS + EARLY_RETURN, "out = jax.vmap(escape, in_axes=(0, None))(jnp.array([0.5 + 0.5j, 0.1 + 0.1j]), 20)"
    )
    assert "jax.lax.fori_loop(0, limit, step, (z, False, limit))" in program.finding.fix
    assert program.fixed().namespace["out"].tolist() == [4, 20]


def test_an_assertion_becomes_a_check_that_runs_with_the_program():
    program = failed(in_cell("def f(x):\n    assert x > 0, 'positive'\n    return x\njax.jit(f)(1.0)"))
    assert program.finding.title == "an `assert` on a traced array"
    assert "checkify.debug_check(jnp.all(x > 0), 'positive')" in program.finding.fix


def test_the_users_own_name_for_jax_numpy_is_used():
    program = failed("import jax, jax.numpy as np\nout = jax.jit(lambda x: max(x, 0.0))(1.0)")
    assert program.finding.fix == "np.maximum(x, 0.0)"
    bare = failed("import jax\nout = jax.jit(lambda x: max(x, 0.0))(1.0)")
    assert bare.finding.fix == "jax.numpy.maximum(x, 0.0)"


VALUES = [
    ("def f(x, t=None):\n    return x / (t or 1.0)", "jax.jit(f)(2.0, 4.0)", "(t if t is not None else 1.0)", 0.5),
    ("def f(x, y):\n    return x or y", "jax.jit(f)(0.0, 4.0)", "jnp.where(x, x, y)", 4.0),
    ("class A:\n    def f(self, x):\n        return x and x * 2", "jax.vmap(A().f)(jnp.ones(1))[0]", "", 2.0),
]


@pytest.mark.parametrize(("before", "call", "fix", "result"), VALUES)
def test_and_or_as_a_value_keep_their_meaning(before: str, call: str, fix: str, result: float):
    program = failed(in_cell(before), f"out = {call}")
    assert program.finding.rule == "condition-on-traced"
    assert program.finding.fix == (fix or "jnp.where(x, x * 2, x)")
    assert program.fixed().namespace["out"] == result


def test_an_assertion_in_a_helper_is_kept_where_the_program_runs_under_grad_and_jit():
    program = failed(
        in_cell("def share(p):\n    total = p.sum()\n    assert total > 0, 'empty'\n    return p / total"),
        "out = jax.grad(jax.jit(lambda p: share(p)[0]))(jnp.ones(4))",
    )
    assert "checkify.debug_check(jnp.all(total > 0), 'empty')" in program.finding.fix
    assert jnp.allclose(program.fixed().namespace["out"][0], 0.1875)


def test_a_loop_carries_only_what_the_next_pass_needs():
    program = failed(
        in_cell(
            "def root(a, tol=1e-4):\n    x, err = a, jnp.inf\n    while err > tol:\n        new = 0.5 * (x + a / x)\n"
            "        err = abs(new - x)\n        x = new\n    return x"
        ),
        "out = jax.jit(root)(2.0)",
    )
    assert "new, err" not in program.finding.fix
    assert jnp.allclose(program.fixed().namespace["out"], 2**0.5)


def test_a_filter_in_a_sum_counts_the_rest_as_nothing():
    program = failed(
        in_cell("@jax.jit\ndef f(xs):\n    return sum(x for x in xs if x > 0)"), "out = f([1.0, -2.0, 3.0])"
    )
    assert program.fixed().namespace["out"] == 4.0


def test_a_match_names_its_subject():
    program = failed(
        in_cell("@jax.jit\ndef f(kind, x):\n    match kind:\n        case 0:\n            return -x\n    return x"),
        "out = f(0, 1.0)",
    )
    assert program.text == "kind"
    assert program.finding.title == "a `match` on a traced array"
    assert program.finding.fix == "@jax.jit(static_argnames='kind')"
    assert program.fixed().namespace["out"] == -1.0


def test_a_condition_in_a_librarys_code_names_the_setting_that_decides_it():
    program = failed(
        in_cell(
            "import flax.linen as nn\nclass Net(nn.Module):\n    @nn.compact\n    def __call__(self, x, rate):\n"
            "        return nn.Dropout(rate, deterministic=False)(x)\n"
            "@jax.jit\ndef forward(x, p):\n    return Net().apply({}, x, p, rngs={'dropout': jax.random.key(0)})"
        ),
        "out = forward(jnp.ones(3), 0.0)",
    )
    assert program.finding.rule == "argument-must-be-static"
    assert program.finding.title.startswith("`rate` decides what `nn.Dropout(rate, deterministic=False)(x)` does")
    assert program.finding.fix == "@jax.jit(static_argnames='p')"
    assert program.fixed().namespace["out"].tolist() == [1, 1, 1]


def test_under_grad_and_jit_it_is_jit_that_hides_a_condition():
    program = failed(in_cell("def f(x):\n    return x if x > 0 else -x"), "jax.jit(jax.grad(f))(1.0)")
    assert "While jit traces" in program.finding.explanation
