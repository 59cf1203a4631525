import flax.linen as nn
import jax
import jax.numpy as jnp

layer = nn.Dense(4)
variables = layer.init(jax.random.key(0), jnp.ones((2, 3)))
layer(jnp.ones((2, 3)))
