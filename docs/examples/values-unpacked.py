import jax
import jax.numpy as jnp


def loss(w, x):
    prediction = w * x
    return jnp.mean(prediction**2), prediction


value, prediction, grads = jax.value_and_grad(loss, has_aux=True)(jnp.ones(3), jnp.ones(3))
