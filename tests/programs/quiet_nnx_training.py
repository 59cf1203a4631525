import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Network(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(8, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.drop = nnx.Dropout(0.1, rngs=rngs)
        self.last = nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        hidden = nnx.relu(self.norm(self.first(x)))
        return self.last(self.drop(hidden))[..., 0]


def loss_fn(model, x, y):
    return jnp.mean((model(x) - y) ** 2)


@nnx.jit
def train_step(model, optimizer, x, y):
    loss, grads = nnx.value_and_grad(loss_fn)(model, x, y)
    optimizer.update(model, grads)
    return loss


model = Network(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(1e-2), wrt=nnx.Param)
data_key, noise_key = jax.random.split(jax.random.key(1))
x = jax.random.normal(data_key, (64, 8))
y = x.sum(axis=1) + 0.01 * jax.random.normal(noise_key, (64,))
history = [float(train_step(model, optimizer, x, y)) for _ in range(5)]
model.eval()
print(history[-1], model(x).shape)
