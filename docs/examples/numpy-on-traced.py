import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def wave(x):
    return np.sin(x)


wave(jnp.ones(3))
