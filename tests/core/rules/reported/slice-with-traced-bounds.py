import jax, jax.numpy as jnp
@jax.jit
def window(x, i):
    return x[i:i + 2]
window(jnp.arange(10), 3)
# %%
print(jax.jit(lambda x, i: jax.lax.dynamic_slice_in_dim(x, i, 2))(jnp.arange(10), 3))
print(jax.jit(lambda x, i: jax.lax.dynamic_slice_in_dim(x, i, 2))(jnp.arange(10), 9))
