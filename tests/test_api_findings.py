"""`with jaxmagic.trace()` in a script or a function: findings as in a notebook, tracebacks as JAX leaves them."""

import traceback

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import jaxmagic


@pytest.fixture(autouse=True)
def shortened(monkeypatch: pytest.MonkeyPatch):
    """As in a script, whatever the test runner's own settings are."""
    before = jax.config.jax_traceback_filtering  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_traceback_filtering", "quiet_remove_frames")
    yield
    jax.config.update("jax_traceback_filtering", before)


def test_a_failing_layer_is_named_though_jax_has_cut_its_frames():
    layer = eqx.nn.Linear(3, 2, key=jax.random.key(0))
    with pytest.raises(TypeError) as raised, jaxmagic.trace() as t:
        eqx.filter_jit(lambda x: layer(x))(jnp.ones(4))
    assert t.report is not None
    assert t.report.failure is not None
    (finding,) = t.report.failure.findings
    assert finding.rule == "layer-input"
    assert "`layer` (Linear)" in finding.title
    names = [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert not any("/jax/_src/pjit" in name or "jaxmagic/core" in name for name in names)


def test_operands_keep_their_shapes():
    @jax.jit
    def product(a, b):
        return (a + 1) @ b

    with pytest.raises(TypeError), jaxmagic.trace() as t:
        product(jnp.ones((2, 3)), jnp.ones((2, 3)))
    assert t.report is not None
    assert t.report.failure is not None
    assert {operand.name: str(operand.aval) for operand in t.report.failure.operands} == {
        "a + 1": "f32[2,3]",
        "b": "f32[2,3]",
    }


def test_variables_of_the_function_are_known_to_the_rules():
    key = jax.random.key(0)

    @jax.jit
    def noise(x):
        return x + jax.random.normal(key)

    with jaxmagic.trace() as t:
        noise(1.0)
    assert t.report is not None
    assert [finding.rule for finding in t.report.findings] == ["key-captured"]


def test_a_rule_that_is_ignored_gives_no_finding():
    with jaxmagic.trace(ignore=("update-dropped",)) as t:
        x = jnp.ones(3)
        x.at[0].set(5.0)
        out = x.sum()
    assert out == 3
    assert t.report is not None
    assert t.report.findings == ()


def test_a_callback_that_fails_when_the_cell_has_ended_is_one_short_line():
    def check(value):
        raise ValueError("negative")

    @jax.jit
    def f(x):
        jax.debug.callback(check, x[0, 0])
        return x * 2

    late = True
    with jaxmagic.trace() as t:
        x = jnp.ones((1500, 1500)) @ jnp.ones((1500, 1500))
        try:
            f(x)
        except jax.errors.JaxRuntimeError:  # JAX 0.10 runs such a program before the call returns
            late = False
    assert t.report is not None
    said = [line for line in t.report.limits if "callback" in line]
    line = "a callback that was still running at the end of the cell raised ValueError: negative"
    assert said == ([line] if late else [])
