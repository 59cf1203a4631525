import flax.linen as nn
import jax
import jax.numpy as jnp

norm = nn.BatchNorm(use_running_average=False)
variables = norm.init(jax.random.key(0), jnp.ones((2, 3)))
y = norm.apply(variables, jnp.ones((2, 3)))
