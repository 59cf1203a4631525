import jax
import jax.numpy as jnp

jax.grad(lambda w: w**2)(jnp.ones(3))
