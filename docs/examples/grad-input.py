import jax
import jax.numpy as jnp

params = {"w": jnp.ones(3), "count": jnp.array(0)}
jax.grad(lambda p: (p["w"] ** 2).sum())(params)
