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


def test_percent_formatting_is_recognised_too():
    program = failed(IMPORTS + "jax.jit(lambda x: '%.2f' % x)(1.0)")
    assert program.finding.rule == "format-of-traced" or program.finding.rule == "number-from-traced"
    assert "`x` (f32[]*)" in program.finding.title


def test_code_outside_jax_is_sent_to_a_callback():
    program = failed(IMPORTS + "import statistics\njax.jit(lambda x: np.asarray(x).mean())(jnp.ones(3))")
    assert program.finding.rule == "numpy-on-traced"
    assert program.finding.fix == "jnp.asarray(x)"
