import jax
import jax.numpy as jnp
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Explicit, AxisType.Explicit))
with jax.set_mesh(mesh):
    a = jax.device_put(jnp.ones((4, 4)), P("data", None))
    b = jax.device_put(jnp.ones((4, 4)), P(None, "data"))
    c = a + b
