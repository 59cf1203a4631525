import jax
import jax.numpy as jnp

add = jax.jit(lambda total, x: total + x)
total = 0.0
for _ in range(4):
    total = add(total, jnp.float32(1))
