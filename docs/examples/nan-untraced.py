# %%jaxtap --when nan
import jax
import jax.numpy as jnp


@jax.jit
def root(x):
    return jnp.sqrt(x - 1)


compiled = root.lower(jnp.array(0.0)).compile()
compiled(jnp.array(0.0))
