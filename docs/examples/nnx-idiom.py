import jax
import jax.numpy as jnp
from flax import nnx

model = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
x = jnp.ones((2, 3))

variables = model.init(jax.random.key(0), x)
