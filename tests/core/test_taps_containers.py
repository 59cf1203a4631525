"""Values inside of containers: replaced, and watched for their gradient, in whatever holds them."""

from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import equinox as eqx
import flax.core
import flax.struct
import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from tests.core.tapping import tap


class Pair(NamedTuple):
    left: Any
    right: Any


class Layer(eqx.Module):
    left: Any
    right: Any


@flax.struct.dataclass
class State:
    left: Any
    right: Any


class Network(nnx.Module):
    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = nnx.Param(left), nnx.Param(right)


class Sorted(OrderedDict):
    """A dictionary of the user's own."""


class Bag(list):
    """A list of the user's own."""


def difference(pair: Any) -> Any:
    # Where the fields are kept in another order, a container that was not rebuilt right shows itself.
    if isinstance(pair, dict | flax.core.FrozenDict | nnx.State):
        fields: Any = pair
        d = fields["left"] - fields["right"]
    elif isinstance(pair, list):
        d = pair[0] - pair[1]
    else:
        d = pair.left - pair.right
    return d


CONTAINERS = {
    "named tuple": (Pair, "pair.right"),
    "Equinox module": (Layer, "pair.right"),
    "flax.struct": (State, "pair.right"),
    "NNX module": (Network, "pair.right"),
    "NNX state": (lambda left, right: nnx.state(Network(left, right)), "pair['right']"),
    "dict": (lambda left, right: {"right": right, "left": left}, "pair['right']"),
    "defaultdict": (lambda left, right: defaultdict(list, right=right, left=left), "pair['right']"),
    "dict of the user's": (lambda left, right: Sorted(right=right, left=left), "pair['right']"),
    "FrozenDict": (lambda left, right: flax.core.freeze({"right": right, "left": left}), "pair['right']"),
    "list of the user's": (lambda left, right: Bag([left, right]), "pair[1]"),
    "object of the user's": (lambda left, right: SimpleModel(left, right), "pair.right"),
}


class SimpleModel:
    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("way", ["python", "closed over by jit"])
def test_a_part_of_any_container_is_replaced_and_the_container_of_the_user_is_as_before(kind: str, way: str):
    make, path = CONTAINERS[kind]
    pair = make(jnp.ones(()), jnp.ones(()))
    function = difference if way == "python" else lambda pair: jax.jit(lambda: difference(pair))()
    tapped = tap("d", function, pair, replace={f"difference.{path}": lambda x: x * 3})
    assert tapped.error is None
    assert tapped.values("d").tolist() == [-2.0]
    assert float(difference(pair)) == 0.0


@pytest.mark.parametrize("kind", [kind for kind in CONTAINERS if "user's" not in kind])
def test_a_part_of_any_pytree_is_replaced_under_jit(kind: str):
    make, path = CONTAINERS[kind]
    pair = make(jnp.ones(()), jnp.ones(()))
    compiled = nnx.jit(difference) if kind == "NNX module" else jax.jit(difference)
    assert float(tap("d", compiled, pair, replace={path: lambda x: x * 3}).result) == -2.0
    assert float(difference(pair)) == 0.0


@pytest.mark.parametrize("kind", [kind for kind in CONTAINERS if kind not in ("list of the user's", "NNX state")])
def test_the_gradient_of_a_part_of_any_pytree_comes_ashore(kind: str):
    make, path = CONTAINERS[kind]
    if "user's" in kind:
        pytest.skip("not a pytree")
    pair = make(jnp.ones(()), jnp.ones(()))
    compiled = nnx.jit(nnx.grad(difference)) if kind == "NNX module" else jax.jit(jax.grad(difference))
    tapped = tap(path, compiled, pair, grad=True)
    assert tapped.series(path, gradient=True).values.tolist() == [-1.0]


def test_the_same_array_in_two_places_is_replaced_in_one():
    shared = jnp.ones(())
    tapped = tap("d", difference, {"left": shared, "right": shared}, replace={"pair['right']": lambda x: x * 3})
    assert tapped.values("d").tolist() == [-2.0]


def test_what_the_program_writes_to_a_module_that_was_set_is_kept():
    def train(model):
        model.left[...] = model.right[...] + 1

    network = Network(jnp.ones(()), jnp.ones(()))
    tap("model.left", nnx.jit(train), network, replace={"model": lambda x: x * 10})
    assert (float(network.left[...]), float(network.right[...])) == (11.0, 1.0)
