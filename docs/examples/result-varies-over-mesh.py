import jax
import jax.numpy as jnp
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))


def loss(x):
    return (x**2).mean()


y = jax.shard_map(loss, mesh=mesh, in_specs=P("data"), out_specs=P())(jnp.ones(8))
