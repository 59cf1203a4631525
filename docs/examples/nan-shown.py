import jax
import jax.numpy as jnp


@jax.jit
def loss(x):
    return jnp.log(x).sum()


print(loss(jnp.array([1.0, -1.0])))
