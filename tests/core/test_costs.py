import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.export import export

from jaxmagic.core.programs.costs import constants, cost
from jaxmagic.records import Constant, Cost


@pytest.fixture
def product():
    """A compiled product of matrices, float32[8,16] and float32[16,4]."""
    return jax.jit(jnp.matmul).lower(jnp.ones((8, 16)), jnp.ones((16, 4))).compile()


def told(constant: Constant) -> tuple[str, str, int]:
    return constant.name, str(constant.aval), constant.bytes


def test_a_product_of_matrices_costs_what_arithmetic_says(product):
    found = cost(product)
    assert found.flops == 2 * 8 * 16 * 4
    assert found.bytes_accessed == 4 * (8 * 16 + 16 * 4 + 8 * 4)


def test_memory_is_that_of_arguments_and_results(product):
    found = cost(product)
    assert found.argument_bytes == 4 * (8 * 16 + 16 * 4)
    assert found.output_bytes == 4 * 8 * 4
    assert found.temporary_bytes is not None
    assert found.peak_bytes is not None
    assert found.code_bytes is not None


def test_what_has_no_analysis_gives_a_cost_of_unknowns():
    assert cost(export(jax.jit(jnp.sin))(1.0)) == Cost()


def test_constants_are_named_by_the_caller_and_largest_first():
    table = jnp.arange(100.0)
    small = jnp.arange(3.0)
    jaxpr = jax.jit(lambda x: x + table[:3].sum() + small).trace(jnp.ones(3)).jaxpr
    found = constants(jaxpr, {id(table): "table"})
    assert [(each.name, str(each.aval), each.bytes) for each in found] == [
        ("table", "f32[100]", 400),
        ("", "f32[3]", 12),
    ]


def test_a_constant_of_an_inner_function_is_found_once():
    table = jnp.arange(10.0)
    inner = jax.jit(lambda x: x + table)
    jaxpr = jax.jit(lambda x: inner(inner(x)) + table).trace(jnp.ones(10)).jaxpr
    assert [(each.name, each.bytes) for each in constants(jaxpr, {id(table): "table"})] == [("table", 40)]


def test_a_numpy_constant_keeps_the_users_name():
    weights = np.arange(5, dtype=np.float32)
    jaxpr = jax.jit(lambda x: jnp.sin(x) * weights).trace(jnp.ones(5)).jaxpr
    assert [(each.name, str(each.aval)) for each in constants(jaxpr, {id(weights): "weights"})] == [
        ("weights", "f32[5]")
    ]


def test_numbers_are_no_constants():
    assert constants(jax.jit(lambda x: x * 2.0 + 1).trace(1.0).jaxpr) == ()


def test_a_key_is_a_constant():
    key = jax.random.key(0)
    jaxpr = jax.jit(lambda x: x + jax.random.normal(key, (2,))).trace(jnp.ones(2)).jaxpr
    (found,) = constants(jaxpr, {id(key): "key"})
    assert (found.name, str(found.aval)) == ("key", "key<fry>[]")
