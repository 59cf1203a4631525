"""Values as records: every array found, no code of the user's run."""

import dataclasses
from collections import OrderedDict
from typing import Any, NamedTuple

import equinox as eqx
import flax.core
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.core import ShapedArray

from jaxmagic.core.lines.transforms import is_tracing, transforms
from jaxmagic.core.lines.values import MOST_PARTS, aval_from, aval_of, leaves
from jaxmagic.records import Aval, Leaf


def shown(value: Any, cap: int = 20) -> list[str]:
    """`path: leaf` for each leaf, and how many more there are."""
    found, hidden = leaves(value, cap)
    return [f"{leaf.path}: {leaf}" for leaf in found] + ([f"{hidden} more"] if hidden else [])


# --------------------------------------------------------------------------------------------- arrays


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (jnp.ones((3, 4)), "f32[3,4]"),
        (jnp.asarray(1.0), "f32[]*"),
        (jnp.arange(3, dtype=jnp.int8), "i8[3]"),
        (jnp.zeros(2, jnp.bfloat16), "bf16[2]"),
        (jnp.zeros((0, 2), bool), "bool[0,2]"),
        (jax.random.key(0), "key<fry>[]"),
        (np.ones((2, 3)), "f64[2,3]"),
        (np.float32(1.5), "f32[]"),
    ],
)
def test_an_array_is_shown_as_jax_shows_it(value, expected):
    assert str(aval_of(value)) == expected


@pytest.mark.parametrize("value", [1.0, "text", None, [jnp.ones(2)]])
def test_what_is_no_array_has_no_aval(value):
    with pytest.raises(TypeError, match="not an array"):
        aval_of(value)


def test_numpy_and_jax_arrays_are_told_apart():
    (found, _) = leaves([np.ones(1), jnp.ones(1)], 2)
    assert [leaf.kind for leaf in found] == ["numpy", "array"]
    assert str(found[0]) == "np f64[1]"


def test_a_symbolic_dimension_keeps_its_name():
    (size,) = jax.export.symbolic_shape("batch")
    assert aval_from(ShapedArray((size, 3), jnp.float32.dtype)) == Aval(("batch", 3), "float32")


def test_the_tangent_of_an_integer_is_float0():
    tangent = jax.vjp(lambda n: n * 1.0, 3)[1](1.0)[0]
    assert aval_of(tangent) == Aval((), "float0")


def test_a_table_of_records_is_no_array_of_numbers():
    assert leaves(np.zeros(2, [("a", "f4"), ("b", "i8")]), 1) == ((), 0)


def test_a_donated_array_is_still_described():
    array = jnp.ones(3)
    array.delete()
    assert str(aval_of(array)) == "f32[3]"


def test_an_array_on_one_device_has_no_sharding():
    assert aval_of(jax.device_put(jnp.ones(2), jax.devices()[0])).sharding is None


# -------------------------------------------------------------------------------------------- pytrees


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class State:
    step: int
    weight: Any


class Layer(eqx.Module):
    weight: jax.Array
    size: int = eqx.field(static=True, default=2)


class Network(nnx.Module):
    def __init__(self):
        self.first = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
        self.scale = nnx.Param(jnp.ones(3))
        self.rest = nnx.List([nnx.Linear(3, 3, use_bias=False, rngs=nnx.Rngs(0))])


@flax.struct.dataclass
class Trained:
    params: Any
    step: int = 0


def adam_state() -> Any:
    state: Any = optax.adam(1e-3).init({"w": jnp.ones(2)})
    return state[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"w1": jnp.ones(2), 7: jnp.ones(3), "name": "x"}, ["['w1']: f32[2]", "[7]: f32[3]"]),
        (OrderedDict(a=[jnp.ones(2)]), ["['a'][0]: f32[2]"]),
        ((jnp.ones(2), [None, jnp.ones(3)]), ["[0]: f32[2]", "[1][1]: f32[3]"]),
        (Point(jnp.ones(2), 3), [".x: f32[2]"]),
        (State(1, {"w": np.ones(2)}), [".weight['w']: np f64[2]"]),
        (Layer(jnp.ones(2)), [".weight: f32[2]"]),
        (Trained(params={"w": jnp.ones(2)}), [".params['w']: f32[2]"]),
        (flax.core.freeze({"a": jnp.ones(2)}), ["['a']: f32[2]"]),
        (adam_state(), [".count: i32[]", ".mu['w']: f32[2]", ".nu['w']: f32[2]"]),
        (nnx.Param(jnp.ones(2)), [": f32[2]"]),
        (
            Network(),
            [".first.kernel: f32[2,3]", ".first.bias: f32[3]", ".scale: f32[3]", ".rest[0].kernel: f32[3,3]"],
        ),
        (nnx.state(nnx.Linear(2, 3, rngs=nnx.Rngs(0))), ["['bias']: f32[3]", "['kernel']: f32[2,3]"]),
    ],
)
def test_a_pytree_is_shown_by_access_path(value, expected):
    assert sorted(shown(value)) == sorted(expected)


@pytest.mark.parametrize("value", [3, "text", None, object(), len, np, [], {"a": 1}, Point, np.array(["a"])])
def test_what_holds_no_array_has_no_leaves(value):
    assert leaves(value, 5) == ((), 0)


def test_leaves_beyond_the_cap_are_counted():
    assert shown([jnp.ones(n) for n in range(5)], cap=2) == ["[0]: f32[0]", "[1]: f32[1]", "3 more"]


def test_a_long_list_is_not_walked_to_its_end():
    array = jnp.ones(1)
    assert leaves([1.0] * (MOST_PARTS + 500) + [array], 1) == ((), 0)


def test_every_array_of_a_huge_pytree_is_counted():
    array = np.ones(2)
    assert leaves({str(n): array for n in range(10_000)}, 1)[1] == 9_999


def test_a_container_inside_itself_is_entered_once():
    container: list[Any] = [jnp.ones(2)]
    container.append(container)
    assert shown(container) == ["[0]: f32[2]"]


def test_an_array_that_is_held_twice_is_shown_twice():
    array = jnp.ones(2)
    assert shown({"a": array, "b": array}) == ["['a']: f32[2]", "['b']: f32[2]"]


class Plain:
    def __init__(self):
        self.weight = jnp.ones(2)
        self._cache = jnp.ones(3)


def test_plain_attributes_are_shown_of_the_users_own_classes_only():
    assert shown(Plain()) == []
    found, _ = leaves(Plain(), 5, owns=lambda cls: cls is Plain)
    assert [leaf.path for leaf in found] == [".weight"]


# --------------------------------------------------------------------------------------------- tracers


def inside(transform: Any, *args: Any) -> tuple[tuple[str, ...], list[str]]:
    """The transformations and the first argument's leaves, as a function sees them under `transform`."""
    seen: list[Any] = []

    def probe(x, *rest):
        seen.append((transforms(), shown(x)))
        assert is_tracing()
        return jnp.sum(x)

    transform(probe)(*args)
    assert not is_tracing()
    return seen[-1]


def test_a_tracer_is_shown_with_its_aval():
    assert inside(jax.jit, jnp.ones((2, 3))) == (("jit probe",), [": f32[2,3]"])


def test_under_vmap_the_aval_is_of_one_example_and_the_sizes_are_beside_it():
    nested = inside(lambda f: jax.vmap(jax.vmap(f)), jnp.ones((4, 5, 3)))
    assert nested == (("vmap ×5", "vmap ×4"), [": f32[3] ×5 (vmap) ×4 (vmap)"])


def test_a_value_that_vmap_does_not_map_has_no_size():
    def probe(x, y):
        assert shown(y) == [": f32[2]"]
        return x

    jax.vmap(probe, in_axes=(0, None))(jnp.ones(3), jnp.ones(2))


def test_sizes_are_found_through_other_transformations():
    seen = inside(lambda f: jax.jit(jax.vmap(jax.grad(f))), jnp.ones((6, 2)))
    assert seen == (("grad", "vmap ×6", "jit probe"), [": f32[2] ×6 (vmap)"])


def scanned(f):
    return lambda xs: jax.lax.scan(lambda carry, x: (carry + f(x), None), 0.0, xs)


def with_own_gradient(f):
    function = jax.custom_vjp(f)
    function.defvjp(lambda x: (jnp.sum(x), x), lambda x, t: (t * x,))
    return function


def with_own_tangent(f):
    function = jax.custom_jvp(f)
    function.defjvp(lambda xs, ts: (jnp.sum(xs[0]), jnp.sum(ts[0])))
    return function


@pytest.mark.parametrize(
    ("transform", "word"),
    [
        (lambda f: jax.jit(f), "jit probe"),
        (lambda f: jax.vmap(f), "vmap ×2"),
        (lambda f: jax.grad(f), "grad"),
        (lambda f: lambda x: jax.vjp(f, x), "grad"),
        (lambda f: lambda x: jax.jvp(f, (x,), (x,)), "jvp"),
        (scanned, "scan body"),
        (lambda f: lambda x: jax.lax.while_loop(lambda v: f(v) < 3, lambda v: v + 1, x), "while condition"),
        (lambda f: lambda x: jax.lax.while_loop(lambda v: v.sum() < 3, lambda v: v + f(v), x), "while body"),
        (lambda f: lambda x: jax.lax.fori_loop(0, 2, lambda i, v: v + f(v), x), "fori_loop body"),
        (lambda f: lambda x: jax.lax.cond(True, f, jnp.sum, x), "cond branch"),
        (lambda f: lambda x: jax.lax.switch(1, [jnp.sum, f], x), "switch branch"),
        (lambda f: jax.checkpoint(f), "remat"),
        (lambda f: jax.jit(with_own_gradient(f)), "custom_vjp"),
        (lambda f: jax.jit(with_own_tangent(f)), "custom_jvp"),
        (lambda f: lambda x: jax.eval_shape(f, x), "jit probe"),
        (lambda f: lambda x: jax.make_jaxpr(f)(x), "jit probe"),
        (lambda f: eqx.filter_jit(f), "jit probe"),
        (lambda f: nnx.jit(f), "jit probe"),
    ],
)
def test_each_transformation_has_its_word(transform, word):
    assert inside(transform, jnp.ones(2))[0][0] == word


def test_outside_of_any_transformation_there_are_none():
    assert transforms() == ()


def test_leaves_keep_no_tracer():
    kept: list[tuple[tuple[Leaf, ...], int]] = []
    with jax.checking_leaks():
        jax.jit(jax.vmap(jax.grad(lambda x: kept.append(leaves({"x": x}, 3)) or x.sum())))(jnp.ones((2, 3)))
    assert str(kept[0][0][0]) == "f32[3] ×2 (vmap)"


# --------------------------------------------------------------------------------------- hostile values

touched: list[str] = []


class _Meta(type):
    def __getattribute__(cls, name):
        touched.append(f"class {name}")
        return super().__getattribute__(name)

    def __eq__(cls, other):
        touched.append("class ==")
        return True

    def __hash__(cls):
        touched.append("class hash")
        return 0


class Hostile(metaclass=_Meta):
    """Whatever is asked of it is noted, and raises."""

    def _refuse(self, *args):
        touched.append("called")
        raise RuntimeError("do not touch")

    __getattribute__ = __getattr__ = __eq__ = __bool__ = __repr__ = __len__ = __iter__ = __hash__ = _refuse  # pyright: ignore
    __jax_array__ = __array__ = __index__ = __float__ = _refuse
    __class__ = property(_refuse)  # pyright: ignore
    __dict__ = property(_refuse)  # pyright: ignore


class HostileDict(dict):
    def _refuse(self, *args):
        touched.append("called")
        raise RuntimeError("do not touch")

    items = keys = values = get = __iter__ = __len__ = __getitem__ = __bool__ = _refuse  # pyright: ignore


class HostileList(list):
    def _refuse(self, *args):
        touched.append("called")
        raise RuntimeError("do not touch")

    __iter__ = __len__ = __getitem__ = __bool__ = __eq__ = _refuse  # pyright: ignore


class HostileArray(np.ndarray):
    @property
    def shape(self):  # pyright: ignore
        touched.append("shape")
        raise RuntimeError("do not touch")

    dtype = shape  # pyright: ignore


@dataclasses.dataclass
class HostileFields:
    weight: Any

    def __getattribute__(self, name):
        touched.append(name)
        raise RuntimeError("do not touch")


@jax.tree_util.register_pytree_node_class
class HostileNode:
    def tree_flatten(self):
        touched.append("tree_flatten")
        raise RuntimeError("do not touch")

    @classmethod
    def tree_unflatten(cls, data, children):
        raise RuntimeError("do not touch")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Hostile(), []),
        ([Hostile(), jnp.ones(2)], ["[1]: f32[2]"]),
        (HostileDict({"a": jnp.ones(2)}), ["['a']: f32[2]"]),
        (HostileList([jnp.ones(2)]), ["[0]: f32[2]"]),
        (np.ones(3).view(HostileArray), [": np f64[3]"]),
        (HostileFields(jnp.ones(2)), [".weight: f32[2]"]),
        (HostileNode(), []),
    ],
    ids=["object", "in a list", "dict", "list", "array", "dataclass", "pytree node"],
)
def test_no_code_of_a_value_is_run(value, expected):
    touched.clear()
    found = shown(value)
    assert touched == []
    assert found == expected


def test_a_key_of_the_users_own_class_is_not_asked_for_its_repr():
    class Key:
        def __repr__(self):
            raise RuntimeError("do not touch")

    assert shown({Key(): jnp.ones(2)}) == ["[<Key>]: f32[2]"]


def test_a_long_key_is_cut():
    (line,) = shown({"k" * 10_000: jnp.ones(2)})
    assert len(line) < 60
