"""Losses, and what optimizers do with their gradients."""

import jax
import jax.numpy as jnp
import optax
from jax import lax


def mean_squared_error(x):
    error = x - x.mean()
    loss = (error**2).mean()
    return loss


def huber(x):
    size = jnp.abs(x)
    loss = jnp.where(size < 1, 0.5 * x * x, size - 0.5).sum()
    return loss


def cross_entropy(x):
    labels = jnp.arange(x.shape[0]) % x.shape[1]
    logs = jax.nn.log_softmax(x)
    picked = jnp.take_along_axis(logs, labels[:, None], axis=1)
    loss = -picked.mean()
    return loss


def binary_cross_entropy(x):
    p = jax.nn.sigmoid(x)
    loss = -(jnp.log(p + 1e-3) + jnp.log(1 - p + 1e-3)).mean()
    return loss


def kl_divergence(x):
    p = jax.nn.softmax(x)
    q = jax.nn.log_softmax(x[::-1])
    loss = (p * (jnp.log(p) - q)).sum()
    return loss


def hinge(x):
    margin = 1 - x * jnp.sign(x[::-1])
    loss = jnp.maximum(margin, 0).mean()
    return loss


def focal(x):
    p = jax.nn.softmax(x)
    focus = (1 - p) ** 2
    loss = -(focus * jnp.log(p)).mean()
    return loss


def contrastive(x):
    unit = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    similar = unit @ unit.T
    loss = -jax.nn.log_softmax(similar * 5).diagonal().mean()
    return loss


def logsumexp(x):
    y = jax.nn.logsumexp(x, axis=1)
    return y


def gradient_of_mlp(x):
    def loss(w):
        h = jnp.tanh(x @ w)
        out = (h @ w.T) ** 2
        return out.mean()

    w = jnp.sin(x.T)
    g = jax.grad(loss)(w)
    return g


def gradient_of_attention(x):
    def loss(q):
        weights = jax.nn.softmax(q @ x.T)
        out = weights @ x
        return (out**2).sum()

    g = jax.grad(loss)(x)
    return g


def gradient_of_rnn(x):
    def loss(w):
        def step(h, row):
            h = jnp.tanh(w * h + row)
            return h, None

        h, _ = lax.scan(step, jnp.zeros(x.shape[1], x.dtype), x)
        return (h**2).sum()

    g = jax.grad(loss)(jnp.ones(x.shape[1], x.dtype))
    return g


def gradient_with_remat(x):
    @jax.checkpoint
    def block(h):
        h = jnp.sin(h @ x.T)
        return h @ x

    g = jax.grad(lambda x: block(block(x)).sum())(x)
    return g


def hessian_of_quadratic(x):
    def loss(v):
        r = x @ v
        return (r**2).sum() + (v**4).sum()

    h = jax.hessian(loss)(x[0])
    return h


def jacobian(x):
    def function(v):
        h = jnp.tanh(x @ v)
        return h * h

    j = jax.jacrev(function)(x[0])
    return j


def per_example_gradients(x):
    def loss(w, row):
        e = jnp.tanh(row @ w)
        return e**2

    g = jax.vmap(jax.grad(loss), (None, 0))(x[0], x)
    return g


def trained(optimizer):
    """Ten steps of an optimizer on a small regression."""

    def train(x):
        def loss(w):
            error = x @ w - 1
            return (error**2).mean()

        def step(carry, _):
            w, state = carry
            value, g = jax.value_and_grad(loss)(w)
            updates, state = optimizer.update(g, state, w)
            w = optax.apply_updates(w, updates)
            return (w, state), value

        w = jnp.zeros(x.shape[1], x.dtype)
        (w, _), values = lax.scan(step, (w, optimizer.init(w)), None, length=10)
        return w, values

    return train


OPTIMIZERS = {
    "sgd": optax.sgd(0.05),
    "momentum": optax.sgd(0.05, momentum=0.9),
    "nesterov": optax.sgd(0.05, momentum=0.9, nesterov=True),
    "adam": optax.adam(0.1),
    "adamw": optax.adamw(0.1),
    "rmsprop": optax.rmsprop(0.05),
    "adagrad": optax.adagrad(0.1),
    "lion": optax.lion(0.05),
    "lamb": optax.lamb(0.05),
    "clipped": optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.1)),
}


def _named(name, function):
    function.__name__ = name
    return function


PROGRAMS = [
    *(mean_squared_error, huber, cross_entropy, binary_cross_entropy, kl_divergence, hinge, focal, contrastive),
    *(logsumexp, gradient_of_mlp, gradient_of_attention, gradient_of_rnn, gradient_with_remat, hessian_of_quadratic),
    *(jacobian, per_example_gradients),
    *(_named(name, trained(optimizer)) for name, optimizer in OPTIMIZERS.items()),
]
