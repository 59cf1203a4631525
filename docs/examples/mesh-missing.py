import jax
import jax.numpy as jnp
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))


@jax.jit
def double(x):
    return jax.lax.with_sharding_constraint(x * 2, P("data"))


y = double(jnp.ones(8))
