import jax
import jax.numpy as jnp
import optax

params = {"w": jnp.ones(3), "b": jnp.zeros(())}
optimizer = optax.adamw(0.01)
state = optimizer.init(params)


@jax.jit
def step(params, state, x):
    grads = jax.grad(lambda p: jnp.sum(p["w"] * x + p["b"]))(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state


step(params, state, jnp.ones(3))
