import jax
import jax.numpy as jnp

with jax.debug_nans(True):
    jnp.log(jnp.array(-1.0))
