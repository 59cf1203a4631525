"""The tap itself: every type of value arrives bit for bit, packed or not, reduced or not, at the right time."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.core import eval_jaxpr

from jaxmagic.core.taps.conditions import INF, NAN, condition
from jaxmagic.core.taps.delivery import Delivery, Site
from jaxmagic.core.taps.loops import number_loops
from jaxmagic.core.taps.packing import is_narrow, layout_of, pack, unpack
from jaxmagic.core.taps.summaries import Reduced
from jaxmagic.core.taps.transport import tap
from jaxmagic.records import Summary


class Parcel(NamedTuple):
    """One delivery, read."""

    values: tuple[Any, ...]
    marks: np.ndarray
    loop: tuple[int, ...]


class Shore:
    """Where values arrive."""

    def __init__(self) -> None:
        self.parcels: list[Parcel] = []
        self.deliveries: list[Delivery] = []

    def __call__(self, site: Site, delivery: Delivery, arrays: Any) -> None:
        self.deliveries.append(delivery)
        read = delivery.read([np.array(array)[None] for array in arrays])
        values = tuple(value.summaries()[0] if isinstance(value, Reduced) else value[0] for value in read.values)
        self.parcels.append(Parcel(values, read.marks[0], tuple(read.loops[0].tolist())))

    def site(self, **how: Any) -> Site:
        return Site("test", self, **how)


@pytest.fixture
def shore() -> Shore:
    return Shore()


@pytest.fixture
def x64() -> Iterator[None]:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def run(function, *arguments):
    result = jax.block_until_ready(jax.jit(function)(*arguments))
    jax.effects_barrier()
    return result


TYPES = [
    *("float32", "float16", "bfloat16", "float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "bool", "complex64"),
]
WIDE = ["float64", "int64", "uint64", "complex128"]


def sample(dtype: str) -> np.ndarray:
    """What a detour through another type would lose: the ends of its range, signed zeros, NaN and infinities."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if kind == np.bool_:
        return np.array([[True, False]])
    if kind.kind == "c":
        return np.array([[complex(1, 2), complex(np.nan, -0.0), complex(-0.0, np.inf), complex(-np.inf, 3)]], kind)
    if "int" in dtype:
        ends = ml_dtypes.iinfo(kind)
        return np.array([[ends.min, 0, 1, ends.max]], kind)
    ends = ml_dtypes.finfo(kind)
    with np.errstate(all="ignore"):
        extremes = [ends.max, ends.min, ends.max / kind.type(2), 1, 0.0, -0.0, np.nan, np.inf, -np.inf]
        return np.array([extremes]).astype(kind)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Which NaN it is does not matter: XLA keeps small floats in wider ones meanwhile."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    neither = ~((left != left) | (right != right)) | (left.dtype.kind == "c")
    return bool(((left != left) == (right != right)).all()) and left[neither].tobytes() == right[neither].tobytes()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("where", ["jit", "scan"])
def test_a_value_arrives_bit_for_bit(shore: Shore, dtype: str, where: str):
    value = sample(dtype)
    check_arrival(shore, value, where)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("where", ["jit", "scan"])
@pytest.mark.usefixtures("x64")
def test_a_wide_value_arrives_bit_for_bit(shore: Shore, dtype: str, where: str):
    check_arrival(shore, sample(dtype), where)


def check_arrival(shore: Shore, value: np.ndarray, where: str) -> None:
    site = shore.site()
    if where == "jit":
        run(lambda x: tap(site, [x]), value)
    else:
        run(
            lambda xs: lax.scan(lambda c, x: (tap(site, [x, c], ordered=True), (c + 1, None))[1], jnp.int32(0), xs),
            value,
        )
    arrived = np.stack([parcel.values[0] for parcel in shore.parcels]).reshape(value.shape)
    assert same_bits(arrived, np.asarray(jnp.asarray(value))), arrived


@pytest.mark.parametrize("dtype", TYPES)
def test_packing_is_undone_by_unpacking(dtype: str):
    arrays = [sample(dtype), np.float32(np.nan), np.zeros((0, 3), np.int32), sample("complex64")]
    arrays = [each for each in arrays if not is_narrow(each.dtype)]
    layout = layout_of([jnp.asarray(each) for each in arrays])
    buffer = np.asarray(jax.jit(pack)([jnp.asarray(each) for each in arrays]))
    for before, after in zip(arrays, unpack(layout, np.stack([buffer, buffer])), strict=True):
        assert same_bits(np.stack([before, before]), after)


def test_many_values_come_in_one_packed_callback(shore: Shore):
    site = shore.site()
    values = [jnp.float32(1), jnp.arange(3), jnp.array([True, False]), jnp.bfloat16(2), jnp.complex64(1 + 2j)]
    run(lambda *values: tap(site, values), *values)
    assert len(shore.parcels) == 1
    assert shore.deliveries[0].packed
    for sent, arrived in zip(values, shore.parcels[0].values, strict=True):
        assert np.asarray(sent).tobytes() == np.asarray(arrived).tobytes()


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey], ids=["typed", "raw"])
def test_keys_arrive_as_their_data(shore: Shore, make):
    site = shore.site()
    run(lambda key: tap(site, [key]), make(7))
    assert shore.parcels[0].values[0].tolist() == [0, 7]


def test_a_value_without_elements_arrives(shore: Shore):
    site = shore.site(reduce_above=4)
    run(lambda x: tap(site, [x, x.sum()]), jnp.zeros((0, 3)))
    assert shore.parcels[0].values[0].shape == (0, 3)


def test_a_weakly_typed_scalar_arrives(shore: Shore):
    site = shore.site()
    run(lambda x: tap(site, [x * 2]), 1.5)
    assert shore.parcels[0].values[0].item() == 3.0


@pytest.mark.one_pair
def test_a_hundred_million_elements_are_reduced_on_the_device(shore: Shore):
    site = shore.site(reduce_above=4096)
    run(lambda: tap(site, [(jnp.arange(100_000_000) % 8).astype(jnp.float32)]))
    (summary,) = shore.parcels[0].values
    assert isinstance(summary, Summary)
    assert (summary.count, summary.min, summary.max, summary.zero) == (100_000_000, 0.0, 7.0, 12_500_000)
    assert summary.mean == pytest.approx(3.5, rel=1e-4)
    assert summary.std == pytest.approx(np.std(np.arange(8)), rel=1e-4)
    assert shore.deliveries[0].bytes < 1000


def test_outside_of_a_program_a_value_arrives_at_once(shore: Shore):
    tap(shore.site(reduce_above=4), [jnp.arange(3), jnp.arange(10.0)])
    whole, summary = shore.parcels[0].values
    assert (whole.tolist(), summary.mean) == ([0, 1, 2], 4.5)


def test_vmapped_lanes_are_one_event_with_axes_in_front(shore: Shore):
    site = shore.site()
    function = jax.vmap(jax.vmap(lambda x, y: tap(site, [x + y, y]), (None, 0)), (1, None))
    run(function, jnp.ones((3, 2)), jnp.ones(4))
    (parcel,) = shore.parcels
    assert [value.shape for value in parcel.values] == [(2, 4, 3), (4,)]
    assert [part.lanes for part in shore.deliveries[0].parts] == [(True, True), (False, True)]


@pytest.mark.parametrize(
    ("gate", "steps"), [(NAN, [2]), (INF, [1]), (condition("x == 1"), [0]), (condition("x > 9"), [1])]
)
def test_a_gate_lets_through_what_it_holds_for(shore: Shore, gate, steps: list[int]):
    site = shore.site(gate=gate)

    def body(c, x):
        tap(site, [x], ordered=True)
        return c, None

    closed = number_loops(jax.make_jaxpr(lambda xs: lax.scan(body, 0, xs))(jnp.ones(3)))
    jax.block_until_ready(jax.jit(lambda xs: eval_jaxpr(_opened(closed), [], xs))(jnp.array([1, jnp.inf, jnp.nan])))
    jax.effects_barrier()
    held = [parcel for parcel in shore.parcels if parcel.marks[-1].any()]
    assert [parcel.loop[0] for parcel in held] == steps


def _opened(closed: Any) -> Any:
    return getattr(closed, "jaxpr", closed)


def test_a_gate_is_not_fooled_by_a_sum_that_overflows(shore: Shore):
    site = shore.site(gate=NAN)
    run(lambda x: tap(site, [x]), jnp.full(4, 3e38))
    assert not any(parcel.marks.any() for parcel in shore.parcels)


def test_a_gate_never_holds_for_whole_numbers(shore: Shore):
    site = shore.site(gate=NAN)
    run(lambda x: tap(site, [x]), jnp.arange(3))
    assert shore.parcels == []


def test_marks_say_for_which_values_a_condition_holds(shore: Shore):
    site = shore.site(marks=(condition("x > 1"), condition("x.ndim == 0")))
    run(lambda x, y: tap(site, [x, y]), jnp.float32(0), jnp.arange(3))
    assert shore.parcels[0].marks.tolist() == [[False, True], [True, False]]


def test_a_receiver_that_raises_does_not_end_the_program():
    def receive(site, delivery, arrays):
        raise ValueError("of no concern to the program")

    assert float(run(lambda x: (tap(Site("test", receive), [x]), x + 1)[1], 1.0)) == 2.0


def test_ordered_taps_of_different_sites_arrive_in_program_order():
    order: list[str] = []
    sites = [Site(name, lambda site, delivery, arrays: order.append(site.label)) for name in "abc"]

    def body(c, x):
        for site in sites:
            tap(site, [c], ordered=True)
        return c + 1, None

    run(lambda: lax.scan(body, 0, None, length=50))
    assert "".join(order) == "abc" * 50
