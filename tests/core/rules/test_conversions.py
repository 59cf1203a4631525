"""Traced arrays handed to Python's numbers, NumPy, string formatting and indices."""

import jax.numpy as jnp
import pytest
from failing_cells import failed

IMPORTS = "import math, jax, numpy as np, jax.numpy as jnp\n"

PROGRAMS = [
    ("number-from-traced", "out = jax.jit(lambda x: int(x))(1.7)", "int(x)", "x.astype(int)", 1),
    ("number-from-traced", "out = jax.jit(lambda x: float(x) * 2)(1.5)", "float(x)", "x.astype(float)", 3.0),
    ("number-from-traced", "out = jax.jit(lambda x: math.exp(x))(0.0)", "math.exp(x)", "jnp.exp(x)", 1.0),
    ("number-from-traced", "out = jax.jit(lambda x: x.sum().item())(jnp.ones(3))", "x.sum().item()", "x.sum()", 3.0),
    ("number-from-traced", "out = jax.jit(lambda n: n.item() + 1)(jnp.array(3))", "n.item()", "n", 4),
    ("numpy-on-traced", "out = jax.grad(lambda w: np.sin(w).sum())(jnp.zeros(2))", "np.sin(w)", "jnp.sin(w)", [1, 1]),
    (
        "numpy-on-traced",
        "out = jax.jit(lambda a: np.stack([a, a]))(jnp.ones(1))",
        "np.stack([a, a])",
        "jnp.stack([a, a])",
        [[1], [1]],
    ),
    (
        "numpy-on-traced",
        "out = jax.vmap(lambda a: np.linalg.norm(a))(jnp.ones((1, 4)))",
        "np.linalg.norm(a)",
        "jnp.linalg.norm(a)",
        [2],
    ),
    (
        "index-from-traced",
        "out = jax.jit(lambda i: [1.0, 2.0][i])(1)",
        "[1.0, 2.0][i]",
        "jnp.asarray([1.0, 2.0])[i]",
        2.0,
    ),
    ("numpy-on-traced", "t = np.arange(3)\nout = jax.jit(lambda i: t[i])(1)", "t[i]", "jnp.asarray(t)[i]", 1),
    ("index-from-traced", "out = jax.jit(lambda n: sum(i for i in range(n)))(4)", "range(n)", None, 6),
]


@pytest.mark.parametrize(("rule", "body", "marked", "fix", "result"), PROGRAMS)
def test_what_asks_for_a_number_is_rewritten_for_arrays(
    rule: str, body: str, marked: str, fix: str | None, result: object
):
    program = failed(IMPORTS + body)
    assert program.finding.rule == rule
    assert program.text == marked
    assert fix is None or program.finding.fix == fix
    assert jnp.allclose(program.fixed().namespace["out"], jnp.asarray(result))


def test_a_format_specification_becomes_a_print_that_runs_with_the_program(capfd: pytest.CaptureFixture[str]):
    program = failed(IMPORTS + '@jax.jit\ndef f(x, n):\n    print(f"x is {x:.3f} of {n}")\n    return x\nf(1.0, 2)')
    assert program.finding.rule == "format-of-traced"
    assert program.finding.fix == "jax.debug.print('x is {:.3f} of {}', x, n)"
    assert program.operands["x"] == "f32[]*"
    program.fixed()
    assert "x is 1.000 of 2" in capfd.readouterr().out


FORMATTED = [
    ("'x is %.2f, %d%%' % (x, n)", "jax.debug.print('x is {:.2f}, {}%', x, n)", "x is 1.00, 2%"),
    ("'x is {:.1f}'.format(x)", "jax.debug.print('x is {:.1f}', x)", "x is 1.0"),
    ("'x is {value:.1f}'.format(value=x)", "jax.debug.print('x is {value:.1f}', value=x)", "x is 1.0"),
]


@pytest.mark.parametrize(("string", "fix", "shown"), FORMATTED)
def test_older_ways_of_formatting_become_the_same_print(
    string: str, fix: str, shown: str, capfd: pytest.CaptureFixture[str]
):
    program = failed(IMPORTS + f"@jax.jit\ndef f(x, n):\n    print({string})\n    return x\nf(1.0, 2)")
    assert program.finding.rule == "format-of-traced"
    assert "`x` (f32[]*)" in program.finding.title
    assert program.finding.fix == fix
    program.fixed()
    assert shown in capfd.readouterr().out


KEPT = [
    ("losses.append(float(loss))", "jax.debug.callback(lambda loss: losses.append(float(loss)), loss)"),
    ("losses.append(loss.item())", "jax.debug.callback(lambda loss: losses.append(loss.item()), loss)"),
    (
        "losses.extend([float(loss * 2) / 2])",
        "jax.debug.callback(lambda value_1: losses.extend([float(value_1) / 2]), loss * 2)",
    ),
]


@pytest.mark.parametrize(("statement", "fix"), KEPT)
def test_a_number_that_is_kept_outside_is_handed_over_when_the_program_runs(statement: str, fix: str):
    program = failed(
        IMPORTS + f"losses = []\n@jax.jit\ndef f(loss):\n    {statement}\n    return loss",
        "f(1.5)\njax.effects_barrier()",
    )
    assert program.finding.rule == "number-from-traced"
    assert program.finding.fix == fix
    assert program.fixed().namespace["losses"] == [1.5]


def test_a_number_for_an_attribute_is_no_tracer_in_disguise():
    program = failed(
        IMPORTS + "class Meter:\n    total = 0.0\n    def add(self, x):\n        self.total += x.item()\nm = Meter()",
        "jax.jit(lambda x: m.add(x))(1.0)",
    )
    assert not program.finding.fix
    assert "What the program computes is returned" in program.finding.explanation


def test_a_formatted_message_for_a_logger_is_made_when_the_program_runs():
    program = failed(
        IMPORTS + "said = []\n@jax.jit\ndef f(loss):\n    said.append(f'loss {loss:.2f}')\n    return loss",
        "f(1.0)\njax.effects_barrier()",
    )
    assert program.finding.fix == "jax.debug.callback(lambda loss: said.append(f'loss {loss:.2f}'), loss)"
    assert program.fixed().namespace["said"] == ["loss 1.00"]


CHOSEN = [
    ("acts = [jnp.sin, jnp.cos]\nf = jax.jit(lambda i, x: acts[i](x))", "f(1, 0.0)", "jax.lax.switch(i, acts, x)", 1.0),
    (
        "layers = [jnp.ones(2), jnp.zeros(2)]\nf = jax.jit(lambda i: layers[i].sum())",
        "f(jnp.argmax(jnp.ones(3)))",
        "jnp.stack(layers)[i]",
        2.0,
    ),
    ("table = {'a': 1, 2: 3.0}\n@jax.jit\ndef f(i):\n    return table[i]", "f(2)", "@jax.jit(static_argnames='i')", 3),
    (
        "names = 'ab', 'cd'\n@jax.jit\ndef f(i):\n    return len(names[int(i)])",
        "f(1)",
        "@jax.jit(static_argnames='i')",
        2,
    ),
    (
        "levels = (0.5, 1.5)\nf = jax.jit(lambda i: levels[int(i)])",
        "f(jnp.argmax(jnp.array([0, 1])))",
        "jnp.asarray(levels)[i]",
        1.5,
    ),
    (
        "table = {0: 5.0, 1: 3.0}\n@jax.jit\ndef f(i):\n    return table[i]",
        "f(jnp.argmax(jnp.array([0, 1])))",
        "jnp.asarray(list(table.values()))[i]",
        3.0,
    ),
    (
        "import functools\n@functools.cache\ndef power(n):\n    return 2.0 ** n\n"
        "@jax.jit\ndef f(n):\n    return power(n)",
        "f(3)",
        "@jax.jit(static_argnames='n')",
        8.0,
    ),
]


@pytest.mark.parametrize(("before", "call", "fix", "result"), CHOSEN)
def test_a_traced_key_or_index_chooses_inside_the_program(before: str, call: str, fix: str, result: float):
    program = failed(IMPORTS + before, f"out = {call}")
    assert program.finding.rule == ("number-from-traced" if "int(i)" in before else "index-from-traced")
    assert program.finding.fix == fix
    assert program.fixed().namespace["out"] == result


LOOPS = [
    ("    for _ in range(n.max()):\n        x = x * 0.5\n    return x", 0.25),
    ("    total = 0.0\n    for i in range(1, n[0]):\n        total += i * x\n        x = x + 1\n    return total", 2.0),
]


@pytest.mark.parametrize(("body", "result"), LOOPS)
def test_a_loop_whose_length_is_an_array_becomes_one_of_the_program(body: str, result: float):
    program = failed(IMPORTS + f"@jax.jit\ndef f(n, x):\n{body}", "out = f(jnp.array([2, 1]), 1.0)")
    assert "jax.lax.fori_loop(" in program.finding.fix
    assert "static" not in program.finding.fix
    assert jnp.allclose(program.fixed().namespace["out"], result if "max" in body else 1.0)


UNLIKE = [
    "        last = i\n    return last",
    "        if x > 1:\n            break\n        x = x + 1\n    return x",
    "        y = x\n    return y",
    "        x = x + 1\n    return x + i",
]


@pytest.mark.parametrize("body", UNLIKE)
def test_a_loop_that_would_not_mean_the_same_is_left_alone(body: str):
    cell = f"@jax.jit\ndef f(n, x):\n    for i in range(n[0]):\n{body}\n"
    program = failed(IMPORTS + cell, "f(jnp.array([2]), 1.0)")
    assert not program.finding.fix


def test_scipy_is_called_as_jax_has_it_or_on_the_host():
    under_grad = failed(
        IMPORTS + "import scipy.special\ndef f(a):\n    return scipy.special.gammaln(a)", "out = jax.grad(f)(2.0)"
    )
    assert under_grad.finding.fix == "jax.scipy.special.gammaln(a)"
    assert jnp.allclose(under_grad.fixed().namespace["out"], 0.42278, atol=1e-4)
    only_there = failed(
        IMPORTS + "from scipy import special\n@jax.jit\ndef f(a):\n    return special.cosm1(a)", "out = f(jnp.zeros(2))"
    )
    assert "pure_callback(special.cosm1" in only_there.finding.fix
    assert only_there.fixed().namespace["out"].shape == (2,)


def test_a_numpy_array_that_is_filled_becomes_one_of_jax():
    program = failed(
        IMPORTS + "class Grid:\n    def fill(self, x):\n        out = np.zeros(3)\n        out[1] = x * 2\n"
        "        return out",
        "out = jax.jit(Grid().fill)(2.0)",
    )
    assert program.finding.rule == "numpy-on-traced"
    assert program.finding.fix == "out = jnp.asarray(out).at[1].set(x * 2)"
    assert program.fixed().namespace["out"].tolist() == [0, 4, 0]


APART = [
    ("jax.jit(lambda p: [a for a in p.sum()])(jnp.ones(2))", "p.sum()", "is a scalar"),
    ("def f(p):\n    a, b = p\n    return a\njax.vmap(f)(jnp.ones((4, 3)))", "p", "3 rows, but is unpacked into 2"),
    ("a, b = jnp.ones(())", "jnp.ones(())", "is a scalar"),
]


@pytest.mark.parametrize(("body", "marked", "said"), APART)
def test_an_array_that_cant_be_taken_apart_is_shown_with_its_shape(body: str, marked: str, said: str):
    program = failed(IMPORTS + body)
    assert program.finding.rule == "array-taken-apart"
    assert program.marked == marked
    assert said in program.finding.title


def test_a_draw_of_numpys_with_a_traced_setting_is_sent_to_jax_random():
    program = failed(IMPORTS + "jax.jit(lambda p: np.random.choice(3, p=p))(jnp.ones(3) / 3)")
    assert program.finding.rule == "numpy-on-traced"
    assert program.text == "np.random.choice(3, p=p)"
    assert "jax.random" in program.finding.explanation


def test_code_outside_jax_is_sent_to_a_callback():
    program = failed(IMPORTS + "import statistics\njax.jit(lambda x: np.asarray(x).mean())(jnp.ones(3))")
    assert program.finding.rule == "numpy-on-traced"
    assert program.finding.fix == "jnp.asarray(x)"
