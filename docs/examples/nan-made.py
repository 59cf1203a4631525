# %%jaxtap --when nan
import jax
import jax.numpy as jnp


@jax.jit
def decay(x):
    def step(x, _):
        x = x - 1.0
        return x, jnp.sqrt(x)

    return jax.lax.scan(step, x, None, length=6)


decay(jnp.array([10.0, 3.0]))
