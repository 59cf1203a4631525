"""Run by `test_devices.py` in a process with eight devices: each function asserts, or prints what went wrong."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from tests.core.tapping import tap

MESH = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
XS = jnp.arange(8.0)


def step(c, x):
    d = c + x
    return d, None


def per_device(x):
    return lax.scan(step, x[0], jnp.arange(3.0))[0][None]


def check_per_device(tapped, length: int = 3) -> None:
    """Every device sends each of its steps, in order, with its own number."""
    assert tapped.error is None, tapped.error
    assert tapped.limits == (), tapped.limits
    (series,) = tapped.taps.series()
    events = series.record(10_000).events
    assert len(events) == 8 * length
    for device in range(8):
        own = [(event.loop, event.value) for event in events if event.device == device]
        assert own == [((0,), device + 0.0), ((1,), device + 1.0), ((2,), device + 3.0)], (device, own)
    assert tapped.result.tolist() == [i + 3.0 for i in range(8)]


def sharded_map(**how):
    return jax.shard_map(per_device, mesh=MESH, in_specs=PartitionSpec("i"), out_specs=PartitionSpec("i"), **how)


def shard_map_in_jit():
    check_per_device(tap("d", jax.jit(sharded_map()), XS))


def shard_map_outside_of_jit():
    check_per_device(tap("d", sharded_map(), XS))


def shard_map_unchecked():
    check_per_device(tap("d", jax.jit(sharded_map(check_vma=False)), XS))


def pmap():
    check_per_device(tap("d", jax.pmap(lambda c: lax.scan(step, c, jnp.arange(3.0))[0], axis_name="i"), XS))


def collective_in_shard_map():
    def normalized(x):
        d = x / lax.psum(x, "i")
        return d

    function = jax.shard_map(normalized, mesh=MESH, in_specs=PartitionSpec("i"), out_specs=PartitionSpec("i"))
    tapped = tap("d", jax.jit(function), jnp.ones(8))
    events = tapped.taps.series()[0].record(100).events
    assert {event.device for event in events} == set(range(8))
    assert all(event.value == [0.125] for event in events)


def gradient_in_shard_map():
    def loss(x):
        y = x * 3
        return lax.psum((y**2).sum(), "i")

    function = jax.shard_map(loss, mesh=MESH, in_specs=PartitionSpec("i"), out_specs=PartitionSpec())
    tapped = tap("y", jax.jit(jax.grad(lambda x: function(x))), XS, grad=True)
    assert tapped.error is None, tapped.error
    gradient = tapped.series("y", gradient=True)
    assert sorted(value[0] for value in gradient.values) == [6.0 * i for i in range(8)]


def automatically_sharded():
    xs = jax.device_put(XS, NamedSharding(MESH, PartitionSpec("i")))

    def function(x):
        d = x * 2
        return d.sum()

    tapped = tap("d", jax.jit(function), xs)
    (series,) = tapped.taps.series()
    assert float(tapped.result) == 56.0
    assert series.values.tolist() == [[2.0 * i for i in range(8)]]
    assert series.record(0).transport.startswith("jax.debug.callback")


def automatically_sharded_and_large():
    xs = jax.device_put(jnp.ones((8, 10_000)), NamedSharding(MESH, PartitionSpec("i")))

    def function(x):
        d = x * 2
        return d.sum()

    tapped = tap("d", jax.jit(function), xs)
    assert tapped.series("d").summary.mean == 2.0
    assert tapped.series("d").record(0).bytes < 1000


def one_device_among_eight():
    tapped = tap("d", jax.jit(lambda x: lax.scan(step, x, jnp.arange(3.0))[0]), 1.0)
    assert tapped.error is None
    assert [(event.loop, event.value) for event in sorted(tapped.events)] == [((0,), 1.0), ((1,), 2.0), ((2,), 4.0)]


def stop_in_shard_map():
    tapped = tap("d", jax.jit(sharded_map()), XS, stop_when="x > 9")
    assert "stopped because 'x > 9' holds for d f32[]" in str(tapped.error), tapped.error
    jax.effects_barrier()
    assert float(jax.jit(lambda x: x + 1)(1.0)) == 2.0


def replace_in_shard_map():
    tapped = tap("q", jax.jit(sharded_map()), XS, replace={"step.c": lambda x: x * 0})
    np.testing.assert_array_equal(tapped.result, np.full(8, 2.0))


CHECKS = [
    shard_map_in_jit,
    shard_map_outside_of_jit,
    shard_map_unchecked,
    pmap,
    collective_in_shard_map,
    gradient_in_shard_map,
    automatically_sharded,
    automatically_sharded_and_large,
    one_device_among_eight,
    stop_in_shard_map,
    replace_in_shard_map,
]

if __name__ == "__main__":
    for check in CHECKS:
        try:
            check()
            print(check.__name__, "ok", flush=True)
        except Exception as error:  # noqa: BLE001 - the other checks are to run as well
            print(check.__name__, type(error).__name__, " ".join(str(error).split())[:600], flush=True)
