import flax.linen as nn
import jax
import jax.numpy as jnp

net = nn.Sequential([nn.Dense(4), nn.Dropout(0.5, deterministic=False)])
variables = net.init(jax.random.key(0), jnp.ones((2, 3)))
net.apply(variables, jnp.ones((2, 3)))
