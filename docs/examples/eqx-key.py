import equinox as eqx
import jax
import jax.numpy as jnp

key, other = jax.random.split(jax.random.key(0))
model = eqx.nn.Sequential([eqx.nn.Linear(3, 4, key=key), eqx.nn.Dropout(0.5)])


@eqx.filter_value_and_grad
def loss(model, xs, key):
    return jax.vmap(model)(xs).mean()


loss(model, jnp.ones((5, 3)), other)
