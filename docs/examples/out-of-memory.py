import jax.numpy as jnp

x = jnp.zeros((1_000_000, 1_000_000, 100))
