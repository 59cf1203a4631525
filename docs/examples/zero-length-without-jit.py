import jax
import jax.numpy as jnp

with jax.disable_jit():
    jax.lax.scan(lambda c, x: (c + x, x), 0.0, jnp.zeros(0))
