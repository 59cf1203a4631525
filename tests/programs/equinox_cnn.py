import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class CNN(eqx.Module):
    conv: eqx.nn.Conv2d
    pool: eqx.nn.MaxPool2d
    head: eqx.nn.Linear

    def __init__(self, key):
        conv_key, head_key = jax.random.split(key)
        self.conv = eqx.nn.Conv2d(1, 4, kernel_size=3, key=conv_key)
        self.pool = eqx.nn.MaxPool2d(kernel_size=2, stride=2)
        self.head = eqx.nn.Linear(4 * 13 * 13, 10, key=head_key)

    def __call__(self, image):
        hidden = jax.nn.relu(self.conv(image))
        pooled = self.pool(hidden)
        return self.head(pooled.ravel())


@eqx.filter_value_and_grad
def loss_fn(model, images, labels):
    logits = jax.vmap(model)(images)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


@eqx.filter_jit
def step(model, state, images, labels):
    loss, grads = loss_fn(model, images, labels)
    updates, state = optimizer.update(grads, state, model)
    return eqx.apply_updates(model, updates), state, loss


model = CNN(jax.random.key(0))
optimizer = optax.adam(1e-3)
state = optimizer.init(eqx.filter(model, eqx.is_array))
images = jnp.ones((8, 1, 28, 28))
labels = jnp.arange(8)
for _ in range(2):
    model, state, loss = step(model, state, images, labels)
print(loss.shape)
