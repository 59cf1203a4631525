import jax.numpy as jnp

total = jnp.arange(100_000).sum()
