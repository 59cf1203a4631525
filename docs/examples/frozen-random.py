import jax
import numpy as np

np.random.seed(0)


@jax.jit
def noisy(x):
    return x + np.random.normal()


out = noisy(0.0), noisy(0.0)
