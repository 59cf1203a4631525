# %%jaxtap --when nan
import jax
import jax.numpy as jnp


def log_likelihood(x):
    inside = jnp.log(x)
    return jnp.where(x > 0, inside, 0.0).sum()


jax.grad(log_likelihood)(jnp.array([0.0, 1.0]))
