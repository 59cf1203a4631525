import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def double(x):
    jax.debug.print("x = {}", x)
    return x * 2


mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
out = jax.jit(jax.shard_map(double, mesh=mesh, in_specs=P("data"), out_specs=P("data")))(jnp.arange(8.0))
