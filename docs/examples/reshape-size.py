import jax.numpy as jnp

jnp.arange(10).reshape(3, 4)
