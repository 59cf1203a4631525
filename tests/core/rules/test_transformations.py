"""vmap, grad and loops under grad."""

import jax.numpy as jnp
import pytest
from failing_cells import failed

IMPORTS = "import jax, jax.numpy as jnp\n"

AXES = [
    (
        "out = jax.vmap(lambda a, b: a * b)(jnp.ones(3), 2.0)",
        "jax.vmap(lambda a, b: a * b, in_axes=(0, None))(jnp.ones(3), 2.0)",
        "`2.0`",
    ),
    (
        "p = {'w': jnp.ones((2, 3)), 'b': jnp.ones(2)}\nxs = jnp.ones((7, 3))\n"
        "out = jax.vmap(lambda p, x: p['w'] @ x + p['b'])(p, xs)",
        "jax.vmap(lambda p, x: p['w'] @ x + p['b'], in_axes=(None, 0))(p, xs)",
        "`x` has 7",
    ),
    (
        "w, xs = jnp.ones((2, 3)), jnp.ones((7, 3))\nout = jax.vmap(lambda w, x: w @ x, in_axes=(0,))(w, xs)",
        "jax.vmap(lambda w, x: w @ x, in_axes=(None, 0))(w, xs)",
        "1 entries",
    ),
]


@pytest.mark.parametrize(("body", "fix", "said"), AXES)
def test_arguments_that_cant_be_mapped_are_shared(body: str, fix: str, said: str):
    program = failed(IMPORTS + body)
    assert program.finding.rule == "in-axes"
    assert said in program.finding.title
    assert program.finding.fix == fix
    assert program.fixed().namespace["out"].shape[0] in (3, 7)


def test_in_axes_of_another_structure_are_shown():
    program = failed(IMPORTS + "jax.vmap(lambda p: p['w'], in_axes=({'v': 0},))({'w': jnp.ones(3)})")
    assert program.finding.rule == "in-axes"
    assert "not a prefix" in program.finding.title


GRADIENTS = [
    ("grad-output", "out = jax.grad(lambda w: w ** 2)(jnp.ones(3))", "(w ** 2).sum()"),
    ("grad-output", "def f(w):\n    y = w * 2\n    return y\nout = jax.value_and_grad(f)(jnp.ones(3))", "y.sum()"),
    (
        "grad-output",
        "out = jax.grad(lambda w: (jnp.sum(w), w))(jnp.ones(3))",
        "jax.grad(lambda w: (jnp.sum(w), w), has_aux=True)",
    ),
    ("grad-aux", "out = jax.grad(lambda w: w.sum(), has_aux=True)(jnp.ones(3))", "jax.grad(lambda w: w.sum())"),
    ("grad-input", "out = jax.grad(lambda w: w * 2.0)(3)", "3.0"),
    ("grad-input", "out = jax.grad(lambda x, n: x * n, argnums=(0, 1))(2.0, 3)", "3.0"),
]


@pytest.mark.parametrize(("rule", "body", "fix"), GRADIENTS)
def test_a_derivative_that_cant_be_taken_is_rewritten(rule: str, body: str, fix: str):
    program = failed(IMPORTS + body)
    assert program.finding.rule == rule
    assert program.finding.fix == fix
    assert "out" in program.fixed().namespace


def test_the_integer_leaf_is_named_by_its_path():
    program = failed(
        IMPORTS + 'params = {"w": jnp.ones(3), "bn": {"count": jnp.array(0)}}',
        'out = jax.grad(lambda p: (p["w"] ** 2).sum())(params)',
    )
    assert "`params['bn']['count']` (i32[]*)" in program.finding.title
    assert "allow_int=True" in program.finding.fix
    assert jnp.allclose(program.fixed().namespace["out"]["w"], 2.0)


def test_an_integer_output_has_no_derivative():
    program = failed(IMPORTS + "jax.grad(lambda w: jnp.int32(w))(3.0)")
    assert program.finding.rule == "grad-output-dtype"


def test_the_while_loop_is_shown_and_not_only_the_grad():
    program = failed(
        IMPORTS + "def newton(x):\n    return jax.lax.while_loop(\n        lambda s: abs(s * s - x) > 1e-6,\n"
        "        lambda s: 0.5 * (s + x / s),\n        x,\n    )",
        "out = jax.grad(newton)(2.0)",
    )
    assert program.finding.rule == "while-reverse-mode"
    assert program.finding.span is not None
    assert program.finding.span.line == 3
    assert program.marked.startswith("jax.lax.while_loop(")
    assert program.finding.fix == "jax.jacfwd(newton)(2.0)"
    assert jnp.allclose(program.fixed().namespace["out"], 0.35355335)


def test_a_trip_count_that_jit_traced_is_made_static():
    program = failed(
        IMPORTS + "def power(x, n):\n    return jax.lax.fori_loop(0, n, lambda i, a: a * x, 1.0)",
        "out = jax.jit(jax.grad(power))(2.0, 3)",
    )
    assert program.finding.fix == "jax.jit(jax.grad(power), static_argnames='n')"
    assert program.fixed().namespace["out"] == 12.0


MADE_ELSEWHERE = [
    (
        "in-axes",
        ("batch = jax.vmap(lambda w, b, x: w @ x + b, in_axes=(None, 0, 0))",),
        "out = batch(jnp.ones((2, 3)), jnp.ones(2), jnp.ones((5, 3))).shape",
        "in_axes=(None, None, 0)",
        (5, 2),
    ),
    (
        "in-axes",
        ("batch = {'x': jnp.ones((4, 2)), 't': 1.0}",),
        "out = jax.vmap(lambda b: b['x'] * b['t'])(batch).shape",
        "in_axes=({'x': 0, 't': None},)",
        (4, 2),
    ),
    (
        "in-axes",
        ("def f(x, scale):\n    return x * scale",),
        "out = jax.vmap(f)(jnp.ones(3), scale=2.0).shape",
        "jax.vmap(lambda x: f(x, scale=2.0))(jnp.ones(3))",
        (3,),
    ),
    (
        "grad-output",
        ("def loss(w):\n    l = (w ** 2).sum()\n    return l, {'l': l}", "step = jax.jit(jax.value_and_grad(loss))"),
        "out = step(jnp.ones(2))[0][0]",
        "jax.value_and_grad(loss, has_aux=True)",
        2.0,
    ),
    (
        "grad-output",
        ("class M:\n    def loss(self, w):\n        return w ** 2\nm = M()",),
        "out = jax.grad(m.loss)(jnp.ones(2))[0]",
        "(w ** 2).sum()",
        2.0,
    ),
    (
        "grad-aux",
        ("def loss(w):\n    return (w ** 2).sum()",),
        "(out, aux), g = jax.value_and_grad(loss, has_aux=True)(jnp.ones(2))",
        "((w ** 2).sum(), None)",
        2.0,
    ),
    (
        "while-reverse-mode",
        ("def f(a):\n    return jax.lax.while_loop(lambda s: s < 10, lambda s: s * a, 1.0)",),
        "out = jax.value_and_grad(f)(3.0)[1]",
        "(f(3.0), jax.jacfwd(f)(3.0))",
        27.0,
    ),
]


@pytest.mark.parametrize(("rule", "before", "call", "fix", "result"), MADE_ELSEWHERE)
def test_a_transformation_is_mended_where_it_was_made(
    rule: str, before: tuple[str, ...], call: str, fix: str, result: object
):
    program = failed(IMPORTS + before[0], *before[1:], call)
    assert program.finding.rule == rule
    assert fix in program.finding.fix
    assert jnp.allclose(jnp.asarray(program.fixed().namespace["out"]), jnp.asarray(result))


def test_a_function_without_a_return_is_said_to_have_none():
    program = failed(IMPORTS + "def loss(w):\n    l = w * 2", "jax.grad(loss)(1.0)")
    assert program.finding.title.endswith("this one returns None")
    assert program.marked.startswith("def loss")


def test_out_axes_are_counted():
    program = failed(IMPORTS + "jax.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(jnp.ones(3))")
    assert "it has 3 entries, the function returns 2" in program.finding.title


def test_a_bound_that_is_computed_from_an_array_is_not_made_static():
    program = failed(
        IMPORTS + "@jax.jit\ndef f(w, n):\n    return jax.lax.fori_loop(0, n.max(), lambda i, a: a * w, 1.0)",
        "out = jax.grad(f)(2.0, jnp.array([2, 3]))",
    )
    assert program.finding.fix == "jax.jacfwd(f)(2.0, jnp.array([2, 3]))"
    assert program.fixed().namespace["out"] == 12.0


def test_the_body_of_a_loop_may_be_a_method_or_an_object_that_is_called():
    for body, use in (("step", "cell.step"), ("__call__", "cell")):
        program = failed(
            IMPORTS + f"class Cell:\n    def {body}(self, h, x):\n        return h * x, None\ncell = Cell()",
            f"out = jax.lax.scan({use}, jnp.ones(2, jnp.bfloat16), jnp.ones((3, 2)))[0]",
        )
        assert program.finding.title == "the carry `h` enters as bf16[2] and leaves as f32[2]"
        assert program.finding.fix == "(h * x).astype(h.dtype)"
        assert program.fixed().namespace["out"].dtype == "bfloat16"


def test_the_branches_of_a_switch_are_found_in_a_list():
    program = failed(
        IMPORTS + "ops = [lambda x: x + 1, lambda x: x / 2]", "out = jax.lax.switch(1, ops, jnp.array([2, 4]))"
    )
    assert "`lambda x: x + 1` i32[2] and `lambda x: x / 2` f32[2]" in program.finding.title
    assert program.finding.fix == "jnp.asarray(x + 1, 'float32')"
    assert program.fixed().namespace["out"].tolist() == [1, 2]


def test_the_key_that_only_one_branch_returns_is_named():
    program = failed(
        IMPORTS + "def yes(x):\n    return {'x': x, 'done': True}\ndef no(x):\n    return {'x': x}",
        "jax.lax.cond(True, yes, no, 1.0)",
    )
    assert program.finding.title.endswith("only one has 'done'")
