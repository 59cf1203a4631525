import jax
import jax.numpy as jnp


def host(x):
    return x * 2


@jax.jit
def f(x):
    return jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


f(jnp.ones(3))
