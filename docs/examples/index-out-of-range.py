import jax.numpy as jnp

x = jnp.arange(5)
last = x[5]
