import jax
import jax.numpy as jnp


def step(carry, x):
    return carry + x


jax.lax.scan(step, 0.0, jnp.ones(3))
