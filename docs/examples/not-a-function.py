import jax
import jax.numpy as jnp


def loss(w):
    return (w**2).sum()


jax.grad(loss(jnp.ones(3)))
