import jax.numpy as jnp

pred, y = jnp.ones((50, 1)), jnp.ones(50)
loss = ((pred - y) ** 2).mean()
