import flax.linen as nn
import jax
import jax.numpy as jnp


class Net(nn.Module):
    def __call__(self, x):
        return nn.Dense(4)(x)


Net().init(jax.random.key(0), jnp.ones((2, 3)))
