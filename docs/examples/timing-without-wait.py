import time

import jax
import jax.numpy as jnp

square = jax.jit(lambda a: a @ a)
start = time.perf_counter()
y = square(jnp.ones((500, 500)))
took = time.perf_counter() - start
