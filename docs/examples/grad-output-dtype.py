import jax
import jax.numpy as jnp

jax.grad(lambda x: (x > 0).sum())(jnp.ones(3))
