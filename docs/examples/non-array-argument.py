import jax
import jax.numpy as jnp


@jax.jit
def reduce(x, how):
    return x.sum() if how == "sum" else x.mean()


reduce(jnp.ones(3), "sum")
