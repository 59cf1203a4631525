# %%jaxtap --when inf
import jax
import jax.numpy as jnp


@jax.jit
def softplus(x):
    return jnp.log(1 + jnp.exp(x))


softplus(jnp.array([1.0, 100.0]))
