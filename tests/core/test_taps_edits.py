"""Values that are replaced on their way, by an expression or by a host function."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.core.tapped_programs import body, cumulate, layer, mean_square
from tests.core.tapping import tap


@pytest.fixture
def params():
    return {"w": jnp.ones((2, 3)), "b": [jnp.zeros(3), jnp.ones(3)]}


def test_a_replaced_value_flows_on():
    def function(x):
        y = x * 2
        z = y + 1
        return z

    tapped = tap("z", jax.jit(function), 1.0, replace={"y": lambda x: x * 100})
    assert float(tapped.result) == 201.0
    assert tapped.values("z").tolist() == [201.0]


def test_a_replaced_value_is_differentiated():
    def function(x):
        y = x * 2
        z = y * y
        return z

    assert float(tap("", jax.jit(jax.grad(function)), 1.0, replace={"y": lambda x: 3 * x}).result) == 72.0


def test_a_value_is_replaced_in_a_scan_under_vmap():
    function = jax.jit(jax.vmap(cumulate))
    tapped = tap("d", function, jnp.ones((2, 3)), replace={"body.c": lambda x: x * 0})
    assert tapped.result.tolist() == [1.0, 1.0]


def test_a_scalar_stands_for_an_array_full_of_it():
    def function(x):
        y = x * 2
        return y + 1

    assert tap("q", jax.jit(function), jnp.ones(3), replace={"y": lambda x: 5}).result.tolist() == [6.0] * 3


def test_a_leaf_of_a_container_is_replaced_in_a_copy(params):
    tapped = tap("y", jax.jit(layer), params, jnp.ones(2), replace={"params['w']": jnp.zeros_like})
    assert tapped.result.tolist() == [1.0, 1.0, 1.0]
    assert params["w"].tolist() == [[1.0] * 3] * 2


class Pair(NamedTuple):
    left: jax.Array
    right: jax.Array


def test_a_field_of_a_named_tuple_is_replaced():
    def function(pair):
        return pair.left - pair.right

    tapped = tap("q", jax.jit(function), Pair(jnp.ones(()), jnp.ones(())), replace={"pair.right": lambda x: x * 3})
    assert float(tapped.result) == -2.0


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (lambda x: jnp.ones(4), r"the value set for y at line \d+ of function\(\) has shape \(4,\), not \(3,\)"),
        (lambda x: x > 0, None),
        (lambda x: x * 1j, r"the value set for y at line \d+ of function\(\) has dtype complex64, not float32"),
        (lambda x: x.nothing, r"line \d+ of function\(\): .*nothing"),
    ],
    ids=["shape", "a dtype that fits", "dtype", "error"],
)
def test_a_value_that_does_not_fit_is_an_error_with_the_line(new, message: str | None):
    def function(x):
        y = x * 2
        return y + 1

    tapped = tap("q", jax.jit(function), jnp.ones(3), replace={"y": new})
    if message is None:
        assert tapped.error is None
    else:
        with pytest.raises(Exception, match=message):
            raise tapped.error or AssertionError


def test_a_name_to_replace_that_was_not_found_is_told():
    tapped = tap("q", jax.jit(mean_square), jnp.ones((2, 2)), jnp.ones((3, 2)), replace={"losss": lambda x: x})
    assert tapped.taps.unknown()["losss"] == ("loss",)


def test_what_a_host_function_returns_flows_on():
    seen = []

    def double(value):
        seen.append(value)
        return value * 2

    tapped = tap("d", jax.jit(cumulate), jnp.ones(3), call=double)
    assert float(tapped.result) == 14.0
    assert [float(value) for value in seen] == [1.0, 3.0, 7.0]
    assert isinstance(seen[0], np.ndarray | np.generic)


def test_a_host_function_may_only_look():
    seen = []
    tapped = tap("d", jax.jit(cumulate), jnp.ones(3), call=lambda value: seen.append(float(value)))
    assert (float(tapped.result), seen) == (3.0, [1.0, 2.0, 3.0])


def test_a_host_function_is_called_for_each_lane():
    seen = []
    tapped = tap(
        "d", jax.jit(jax.vmap(lambda x: body(x, 1.0)[0])), jnp.arange(3.0), call=lambda v: seen.append(v.shape)
    )
    assert seen == [(), (), ()]
    assert tapped.result.tolist() == [1.0, 2.0, 3.0]


def test_the_gradient_through_a_host_function_is_zero():
    def function(x):
        y = x * 2
        return y + x

    assert float(tap("y", jax.jit(jax.grad(function)), 1.0, call=lambda value: value).result) == 1.0


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda value: np.ones(3), r"returned shape \(3,\) for d f32\[\] at line \d+ of body\(\), not \(\)"),
        (lambda value: 1j, r"returned dtype complex128 for d f32\[\] at line \d+ of body\(\), not float32"),
        (lambda value: 1 / 0, "division by zero"),
    ],
    ids=["shape", "dtype", "error"],
)
def test_a_bad_return_from_the_host_is_an_error_at_the_users_line(function, message: str):
    tapped = tap("d", jax.jit(cumulate), jnp.ones(3), call=function)
    with pytest.raises(Exception, match=message):
        raise tapped.error or AssertionError
    assert float(jax.jit(cumulate)(jnp.ones(3))) == 3.0
