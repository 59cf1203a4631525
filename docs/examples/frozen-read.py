import time

import jax


@jax.jit
def stamp(x):
    return x + time.time()


out = stamp(0.0)
