import flax.linen as nn
import jax
import jax.numpy as jnp


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.BatchNorm(use_running_average=True)(nn.Dense(4)(x))


net = Net()
variables = net.init(jax.random.key(0), jnp.ones((2, 3)))
net.apply({"params": variables["params"]}, jnp.ones((2, 3)))
