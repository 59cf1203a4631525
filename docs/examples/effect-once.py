import jax
import jax.numpy as jnp

steps = 0


@jax.jit
def step(w):
    global steps
    steps += 1
    return w - 0.1 * w


w = jnp.ones(3)
for _ in range(5):
    w = step(w)
