import equinox as eqx
import jax
import jax.numpy as jnp

model = eqx.nn.MLP(3, 1, 4, 1, key=jax.random.key(0))


@jax.jit
def predict(model, xs):
    return jax.vmap(model)(xs)


predict(model, jnp.ones((5, 3)))
