import jax.numpy as jnp
from flax import nnx

counter = nnx.Variable(jnp.array(0))


@nnx.jit
def tick(x):
    counter[...] = counter[...] + 1
    return x


tick(1.0)
