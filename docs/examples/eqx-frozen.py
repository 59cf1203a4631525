import equinox as eqx
import jax
import jax.numpy as jnp

layer = eqx.nn.Linear(3, 2, key=jax.random.key(0))
layer.weight = jnp.zeros((2, 3))
