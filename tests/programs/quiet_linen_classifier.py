import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState


class Classifier(nn.Module):
    width: int
    classes: int

    @nn.compact
    def __call__(self, x, training):
        x = nn.Conv(self.width, kernel_size=(3, 3))(x)
        x = nn.max_pool(nn.relu(x), window_shape=(2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        x = nn.Dropout(0.2, deterministic=not training)(x)
        return nn.Dense(self.classes)(x)


@jax.jit
def train_step(state, images, labels, key):
    step_key = jax.random.fold_in(key, state.step)

    def loss_fn(params):
        logits = state.apply_fn({"params": params}, images, training=True, rngs={"dropout": step_key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


@jax.jit
def accuracy(state, images, labels):
    logits = state.apply_fn({"params": state.params}, images, training=False)
    return jnp.mean(logits.argmax(-1) == labels)


init_key, data_key, dropout_key = jax.random.split(jax.random.key(0), 3)
images = jax.random.uniform(data_key, (16, 8, 8, 1))
labels = jnp.arange(16) % 4
model = Classifier(width=4, classes=4)
params = model.init(init_key, images, training=False)["params"]
state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.sgd(0.1, momentum=0.9))
for epoch in range(3):
    state, loss = train_step(state, images, labels, dropout_key)
    print(epoch, float(loss), float(accuracy(state, images, labels)))
