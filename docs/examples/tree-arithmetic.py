import jax
import jax.numpy as jnp

params = {"w": jnp.ones(3), "b": jnp.zeros(())}


def loss(params, x):
    return jnp.sum(params["w"] * x + params["b"])


grads = jax.grad(loss)(params, jnp.ones(3))
params = params - 0.1 * grads
