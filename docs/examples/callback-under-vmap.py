import jax
import jax.numpy as jnp
import numpy as np


def f(x):
    return jax.pure_callback(np.sinh, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


jax.vmap(f)(jnp.ones(3))
