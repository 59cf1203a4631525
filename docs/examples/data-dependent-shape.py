import jax
import jax.numpy as jnp


@jax.jit
def positive(x):
    return jnp.nonzero(x > 0)[0]


positive(jnp.arange(-2, 3))
