import jax
import jax.numpy as jnp


def step(total, x):
    return total + x, None


jax.lax.scan(step, jnp.int32(0), jnp.array([0.5, 1.5]))
