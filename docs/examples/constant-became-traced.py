import jax
import jax.numpy as jnp


@jax.jit
def head(x):
    count = jnp.minimum(3, x.shape[0])
    return jnp.arange(count)


head(jnp.ones(10))
