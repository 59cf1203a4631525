import jax.numpy as jnp

scores = jnp.exp(jnp.arange(16.0).reshape(4, 4) / 16)
weights = scores / scores.sum(axis=1)
