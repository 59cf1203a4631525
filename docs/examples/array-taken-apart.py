import jax
import jax.numpy as jnp


def distance(point):
    x, y = point
    return jnp.hypot(x, y)


jax.vmap(distance)(jnp.ones((5, 3)))
