import jax.numpy as jnp

order = jnp.array([2.0, 0.0])
jnp.arange(5.0)[order]
