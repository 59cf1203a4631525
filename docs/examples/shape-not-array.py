import jax
import jax.numpy as jnp

y = jax.eval_shape(jnp.sin, jnp.ones(3))
z = y + 1
