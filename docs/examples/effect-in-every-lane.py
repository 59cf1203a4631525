import jax
import jax.numpy as jnp


def check(x):
    jax.lax.cond(x > 2, lambda v: jax.debug.print("large: {}", v), lambda v: None, x)
    return x


out = jax.vmap(check)(jnp.array([1.0, 3.0]))
