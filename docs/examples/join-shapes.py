import jax.numpy as jnp

jnp.concatenate([jnp.ones((2, 3)), jnp.ones((2, 4))])
