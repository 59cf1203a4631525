import jax
import jax.numpy as jnp

table = jnp.ones((600, 600))


@jax.jit
def look(x):
    return table @ x


out = look(jnp.ones(600))
