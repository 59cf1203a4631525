# %%jaxtap --when nan
import jax
import jax.numpy as jnp


@jax.jit
def log_likelihood(x):
    inside = jnp.log(x)
    return jnp.where(x > 0, inside, 0.0).sum()


log_likelihood(jnp.array([-1.0, 1.0]))
