import jax.numpy as jnp

x, w = jnp.ones((5, 3)), jnp.ones((4, 3))
x @ w
