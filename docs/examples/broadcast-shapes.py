import jax.numpy as jnp

x, b = jnp.ones((3, 4)), jnp.ones(3)
x + b
