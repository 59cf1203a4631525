import jax.numpy as jnp

x = jnp.arange(200.0)
total = 0.0
for i in range(200):
    total += x[i]
