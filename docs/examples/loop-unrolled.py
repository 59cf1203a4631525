import jax
import jax.numpy as jnp


@jax.jit
def simulate(x):
    for _ in range(200):
        x = jnp.sin(x) * 1.01 + 0.1
    return x


out = simulate(1.0)
