import jax
import jax.numpy as jnp


@jax.jit
def f(x):
    jax.debug.print("{}", x.shape)
    return x


out = f(jnp.ones((2, 3)))
