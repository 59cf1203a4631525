import jax
import jax.numpy as jnp
import optax

logits = jnp.ones((4, 3))
labels = jax.nn.one_hot(jnp.array([0, 2, 1, 1]), 3)

loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
