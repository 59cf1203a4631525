import jax.numpy as jnp

errors = jnp.array([300.0, 2.0], jnp.float16)
loss = errors**2
print(loss)
