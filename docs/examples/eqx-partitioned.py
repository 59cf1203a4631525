import equinox as eqx
import jax
import jax.numpy as jnp

model = eqx.nn.MLP(3, 1, 4, 1, key=jax.random.key(0))
params, static = eqx.partition(model, eqx.is_array)


def loss(params, xs):
    return jax.vmap(params)(xs).mean()


jax.grad(loss)(params, jnp.ones((5, 3)))
