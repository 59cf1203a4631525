"""Prints that show something else than what was meant."""

import pytest
from observed_cells import watched

IMPORTS = "import jax, jax.numpy as jnp\n"


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        ('jax.debug.print("y shape: {s}", s=y.shape)', "jax.debug.print(f'y shape: {y.shape}')"),
        (
            'jax.debug.print("{} {{}} of {:.1f}", y.shape, y[0, 0])',
            "jax.debug.print(f'{y.shape} {{{{}}}} of {{:.1f}}', y[0, 0])",
        ),
    ],
)
def test_a_shape_printed_as_arrays_is_shown_as_it_is(call: str, fix: str):
    program = watched(IMPORTS + f"@jax.jit\ndef f(y):\n    {call}\n    return y\nf(jnp.ones((3, 4)));")
    finding = program.found("shape-printed-as-arrays")
    assert finding.title == "the shape is (3, 4): its entries were printed as arrays"
    assert "(Array(3, dtype=int32), Array(4, dtype=int32))" in finding.explanation
    assert finding.fix == fix
    assert finding.sure
    fixed = program.fixed("shape-printed-as-arrays")
    assert "(3, 4)" in fixed.report.printed[0].text
    assert fixed.rules == []


def test_a_shape_of_one_axis_is_one_too():
    program = watched(IMPORTS + "x = jnp.ones(7)\njax.debug.print('{}', x.shape)")
    assert program.found("shape-printed-as-arrays").title.startswith("the shape is (7,)")


def test_a_tuple_of_computed_integers_is_no_shape():
    program = watched(IMPORTS + "jax.jit(lambda i: jax.debug.print('{}', (i, i + 1)))(3)")
    assert program.report.printed[0].text.startswith("(Array(3, dtype=int32")
    assert program.rules == []


def test_a_tracer_in_an_f_string_is_explained():
    program = watched(IMPORTS + "@jax.jit\ndef f(x):\n    jax.debug.print(f'x of f = {x}')\n    return x\nf(1.5);")
    finding = program.found("tracer-in-f-string")
    assert finding.fix == "jax.debug.print('x of f = {}', x)"
    fixed = program.fixed("tracer-in-f-string")
    assert fixed.report.printed[0].text == "x of f = 1.5"
    assert fixed.rules == []
