# %%jaxtap --when nan
import jax
import jax.numpy as jnp


@jax.jit
def root(x):
    y = jax.pure_callback(lambda x: x - 1, x, x)
    return jnp.sqrt(y)


root(jnp.array(0.0))
