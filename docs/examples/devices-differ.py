import jax
import jax.numpy as jnp

w = jax.device_put(jnp.ones(4), jax.devices()[0])
x = jax.device_put(jnp.ones(4), jax.devices()[1])
y = w * x
