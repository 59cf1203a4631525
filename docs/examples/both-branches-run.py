import jax
import jax.numpy as jnp


def dear(x):
    return jax.lax.fori_loop(0, 1000, lambda i, x: jnp.sin(x) + 0.1, x)


def f(x):
    return jax.lax.cond(x > 0, dear, lambda x: x, x)


jax.jit(lambda xs: jax.vmap(f)(xs))(jnp.array([-1.0, 2.0, -3.0]))
