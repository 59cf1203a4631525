"""Kinds of surprise without jit, each in several dresses: what stays traced, scans over nothing, NaN that is masked."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax import lax

import jaxmagic
from jaxmagic.core.lines.values import aval_of
from jaxmagic.records import NoJit, Report

XS = jnp.array([1.0, -1.0])


def report(call, *only) -> tuple[Report, Exception | None]:
    """What a block without jit shows, and what it raised."""
    recorder, raised = jaxmagic.nojit(*only), None
    try:
        with recorder:
            call()
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises
        raised = error
    assert recorder.report is not None
    return recorder.report, raised


def nojit(found: Report) -> NoJit:
    assert found.nojit is not None
    return found.nojit


# --------------------------------------------------------- vmap and grad trace, whether there is a jit or not (078)


def absolute(x):
    return x * 2 if x > 0 else x


class Absolute:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        return x * self.scale if x > 0 else x


class Layer(eqx.Module):
    scale: jax.Array

    def __call__(self, x):
        scaled = x * self.scale
        if scaled > 0:
            return scaled
        return x


def while_positive(x):
    while x > 0:
        x = x - 1
    return x


UNDER_VMAP = {
    "a function": lambda: jax.vmap(absolute)(XS),
    "a jitted function": lambda: jax.vmap(jax.jit(absolute))(XS),
    "an object": lambda: jax.vmap(Absolute(2.0))(XS),
    "a method of an Equinox module": lambda: eqx.filter_vmap(Layer(jnp.ones(())))(XS),
    "a while": lambda: jax.jit(jax.vmap(while_positive))(XS),
    "grad inside of vmap": lambda: jax.vmap(jax.grad(absolute))(XS),
    "vmap inside of a scan": lambda: lax.scan(lambda c, _: (jax.vmap(absolute)(c), None), XS, None, length=2),
    "vmap of vmap": lambda: jax.vmap(jax.vmap(absolute))(XS[None]),
    "nnx.vmap": lambda: nnx.vmap(absolute)(XS),
}


@pytest.mark.parametrize("dress", UNDER_VMAP)
def test_an_if_under_vmap_is_explained_as_vmaps_and_not_as_jits(dress: str):
    found, raised = report(UNDER_VMAP[dress])
    assert type(raised).__name__ == "TracerBoolConversionError"
    assert found.failure is not None
    assert found.failure.span is not None
    assert found.failure.span.file == __file__
    (finding,) = found.failure.findings
    assert "Under vmap it stands for a whole batch, one value per example" in finding.explanation
    assert "There is no jit here" in finding.explanation
    assert any("vmap" in word for each in nojit(found).traced for word in each.transforms)


UNDER_GRAD = {
    "a function": lambda: jax.grad(absolute)(1.0),
    "an object": lambda: jax.grad(Absolute(2.0))(1.0),
    "value_and_grad of a jitted function": lambda: jax.value_and_grad(jax.jit(absolute))(1.0),
    "an Equinox module": lambda: eqx.filter_grad(lambda layer: layer(1.0).sum())(Layer(jnp.ones(()))),
    "grad of grad": lambda: jax.grad(jax.grad(absolute))(1.0),
}


@pytest.mark.parametrize("dress", UNDER_GRAD)
def test_an_if_under_grad_has_a_real_value_and_grad_is_named(dress: str):
    found, raised = report(UNDER_GRAD[dress])
    assert raised is None
    assert any("grad" in word for each in nojit(found).traced for word in each.transforms)
    assert any(value.text for value in nojit(found).values)


# ------------------------------------------------------------------------------------ scans over nothing (080)


class Recurrent:
    def step(self, carry, x):
        return carry + x, carry * x

    def __call__(self, xs):
        return lax.scan(self.step, 0.0, xs)


class Cell(nnx.Module):
    def __init__(self):
        self.weight = nnx.Param(jnp.ones(()))

    def __call__(self, xs):
        return lax.scan(lambda c, x: (c + self.weight[...] * x, c), jnp.zeros(()), xs)


OVER_NOTHING = {
    "a scan": lambda: lax.scan(lambda c, x: (c + x, x), 0.0, jnp.zeros(0)),
    "a scan of a pytree": lambda: lax.scan(lambda c, x: (c, {"y": x["a"] * 2}), 0.0, {"a": jnp.zeros((0, 3))}),
    "a scan of a method": lambda: Recurrent()(jnp.zeros(0)),
    "a map": lambda: lax.map(lambda x: x * 2, jnp.zeros((0, 2))),
    "a scan by its length": lambda: lax.scan(lambda c, _: (c, c), 1.0, None, length=0),
    "a scan inside of a scan": lambda: lax.scan(
        lambda c, x: (lax.scan(lambda d, y: (d + y, d), c, jnp.zeros(0))[0] + x, c), 0.0, XS
    ),
    "a scan in a jitted NNX module": lambda: nnx.jit(lambda cell, xs: cell(xs))(Cell(), jnp.zeros(0)),
    "the gradient of a scan": lambda: jax.grad(lambda c: lax.scan(lambda c, x: (c * x, c), c, jnp.zeros(0))[0])(1.0),
    "a scan under vmap": lambda: jax.vmap(lambda c: lax.scan(lambda c, x: (c + x, c), c, jnp.zeros(0)))(XS),
}


def _type(value) -> object:
    return aval_of(value) if hasattr(value, "dtype") else type(value)


@pytest.mark.parametrize("dress", OVER_NOTHING)
def test_a_scan_over_nothing_gives_what_it_gives_with_jit_and_the_report_says_why(dress: str):
    expected = OVER_NOTHING[dress]()
    results = []
    found, raised = report(lambda: results.append(OVER_NOTHING[dress]()))
    assert raised is None
    left, right = jax.tree.leaves(expected), jax.tree.leaves(results[0])
    assert [_type(a) for a in left] == [_type(b) for b in right]
    assert all(bool(jnp.array_equal(a, b)) for a, b in zip(left, right, strict=True))
    assert any("a scan over nothing ran with jit" in line for line in found.limits)


# ------------------------------------------------------------------------------------------ masked NaN (082)


def masked(x):
    bad = jnp.log(x)
    return jnp.where(x > 0, bad, 0.0).sum()


class Masked(eqx.Module):
    def __call__(self, x):
        root = jnp.sqrt(x)
        return jnp.nan_to_num(root).sum()


def masked_in_a_loop(x):
    def body(c, t):
        bad = jnp.log(t)
        return c + jnp.where(t > 0, bad, 0.0), None

    return lax.scan(body, 0.0, x)[0]


MASKED = {
    "a function": lambda: jax.jit(masked)(XS),
    "a module": lambda: eqx.filter_jit(Masked())(XS),
    "a loop": lambda: jax.jit(masked_in_a_loop)(XS),
    "vmap": lambda: jax.vmap(masked_in_a_loop)(XS[None]),
}


@pytest.mark.parametrize("dress", MASKED)
def test_a_masked_nan_is_shown_where_it_is_and_is_no_failure(dress: str):
    found, raised = report(MASKED[dress])
    assert raised is None
    assert found.failure is None
    nans = {value.name for value in nojit(found).values if value.summary is not None and value.summary.nan}
    assert nans in ({"bad"}, {"root"})


@pytest.mark.parametrize("dress", MASKED)
def test_under_debug_nans_a_masked_nan_is_told_from_one_that_reaches_a_result(dress: str):
    with jax.debug_nans(True):
        found, raised = report(MASKED[dress])
    assert isinstance(raised, FloatingPointError)
    assert found.failure is not None
    (finding,) = found.failure.findings
    assert finding.title.endswith("gave a NaN here")
    assert "with jit only at what a jitted function returns" in finding.explanation
