import jax.numpy as jnp

x = jnp.ones(3)
x.at[0].set(5.0)
total = x.sum()
