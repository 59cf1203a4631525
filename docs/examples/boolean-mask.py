import jax
import jax.numpy as jnp


@jax.jit
def total(x):
    return x[x > 0].sum()


total(jnp.arange(-2.0, 3.0))
