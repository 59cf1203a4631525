"""What made the NaN that JAX's checker stopped at."""

import jax.numpy as jnp
from failing_cells import failed

IMPORTS = "import jax, jax.numpy as jnp\n"


def checked(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return IMPORTS + "with jax.debug_nans(True):\n" + lines


def test_a_softmax_by_hand_is_named_as_what_overflowed():
    program = failed(
        checked("def p(logits):\n    return jnp.exp(logits) / jnp.exp(logits).sum()\nout = p(jnp.array([100.0, 0.0]))")
    )
    assert program.finding.rule == "nan-found"
    assert program.finding.fix == "jax.nn.softmax(logits)"
    assert jnp.allclose(program.fixed().namespace["out"], jnp.array([1.0, 0.0]))


def test_a_masked_nan_is_only_possibly_wrong_and_the_mask_goes_inside():
    program = failed(
        checked(
            "def f(x):\n    bad = jnp.log(x)\n    return jnp.where(x > 0, bad, 0.0).sum()\n"
            "out = f(jnp.array([-1.0, 1.0]))"
        )
    )
    assert program.text == "jnp.log(x)"
    assert not program.finding.sure
    assert program.finding.fix == "jnp.log(jnp.where(x > 0, x, 1))"
    assert program.fixed().namespace["out"] == 0.0


def test_a_logarithm_outside_its_domain_is_sure():
    program = failed(checked("x = jnp.array([-1.0])\ny = jnp.log(x)"))
    assert program.finding.sure
    assert program.operands == {"x": "f32[1]"}


def test_the_gradient_of_a_norm_at_zero_blames_the_norm_and_not_the_multiplication():
    program = failed(
        checked("def d(p, q):\n    return jnp.sqrt(jnp.sum((p - q) ** 2))\njax.grad(d)(jnp.ones(2), jnp.ones(2))")
    )
    assert program.finding.rule == "nan-found"
    assert "derivative of `jnp.sqrt(" in program.finding.title
    assert "infinite at zero" in program.finding.explanation
    assert program.finding.fix == "jnp.sqrt(jnp.sum((p - q) ** 2) + 1e-12)"
    program.fixed()


def test_a_norm_that_is_differentiated_by_name_gets_a_fix_that_runs():
    program = failed(checked("out = jax.grad(jnp.linalg.norm)(jnp.zeros(3))"))
    assert program.finding.fix == "lambda x: jnp.sqrt(jnp.sum(x ** 2) + 1e-12)"
    assert program.fixed().namespace["out"].tolist() == [0.0, 0.0, 0.0]
