import jax
import jax.numpy as jnp


@jax.jit
def angles(x):
    positions = jnp.arange(x.shape[0], dtype=x.dtype)
    return x * jnp.cos(positions)


angles(jnp.ones(1024, jnp.bfloat16))
