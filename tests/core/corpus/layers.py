"""Layers of neural networks."""

import jax
import jax.numpy as jnp
from jax import lax


def dense(x):
    w = jnp.cos(x.T)
    h = x @ w
    y = jax.nn.relu(h + 0.1)
    return y


def mlp(x):
    h = jnp.tanh(x @ jnp.sin(x.T))
    g = jax.nn.gelu(h @ h)
    y = g @ x + x
    return y


def gated_linear_unit(x):
    a = x @ jnp.ones((x.shape[1], 6), x.dtype)
    left, right = jnp.split(a, 2, axis=1)
    y = left * jax.nn.sigmoid(right)
    return y


def layer_norm(x):
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    variance = (centred**2).mean(axis=-1, keepdims=True)
    y = centred * lax.rsqrt(variance + 1e-5)
    return y


def rms_norm(x):
    scale = lax.rsqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)
    y = x * scale
    return y


def batch_norm(x):
    mean = x.mean(axis=0)
    variance = x.var(axis=0)
    y = (x - mean) / jnp.sqrt(variance + 1e-5)
    return y


def group_norm(x):
    groups = x.reshape(2, -1)
    mean = groups.mean(axis=1, keepdims=True)
    spread = groups.std(axis=1, keepdims=True)
    y = ((groups - mean) / (spread + 1e-5)).reshape(x.shape)
    return y


def softmax(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    weights = jnp.exp(shifted)
    y = weights / weights.sum(axis=-1, keepdims=True)
    return y


def attention(x):
    q, k, v = x, jnp.roll(x, 1, axis=0), x * 0.5
    scores = q @ k.T / jnp.sqrt(jnp.asarray(x.shape[1], x.dtype))
    weights = jax.nn.softmax(scores, axis=-1)
    y = weights @ v
    return y


def causal_attention(x):
    scores = x @ x.T
    mask = jnp.tril(jnp.ones(scores.shape, bool))
    masked = jnp.where(mask, scores, -1e9)
    y = jax.nn.softmax(masked, axis=-1) @ x
    return y


def multi_head_attention(x):
    heads = x.reshape(x.shape[0], 2, -1).swapaxes(0, 1)
    scores = jnp.einsum("hid,hjd->hij", heads, heads)
    weights = jax.nn.softmax(scores, axis=-1)
    mixed = jnp.einsum("hij,hjd->hid", weights, heads)
    y = mixed.swapaxes(0, 1).reshape(x.shape)
    return y


def convolution_1d(x):
    kernel = jnp.array([0.25, 0.5, 0.25], x.dtype)
    y = jax.vmap(lambda row: jnp.convolve(row, kernel, mode="same"))(x)
    return y


def convolution_2d(x):
    image = x[None, None]
    kernel = jnp.ones((2, 1, 3, 3), x.dtype) / 9
    features = lax.conv(image, kernel, (1, 1), "SAME")
    y = jax.nn.relu(features)
    return y


def depthwise_convolution(x):
    image = x[None, None].repeat(2, axis=1)
    kernel = jnp.ones((2, 1, 2, 2), x.dtype)
    y = lax.conv_general_dilated(image, kernel, (1, 1), "VALID", feature_group_count=2)
    return y


def max_pooling(x):
    y = lax.reduce_window(x, jnp.array(-jnp.inf, x.dtype), lax.max, (2, 2), (2, 2), "VALID")
    return y


def embedding(x):
    indices = jnp.argsort(x[:, 0])
    rows = x[indices]
    y = rows.sum(axis=0)
    return y


def dropout(x):
    keep = jax.random.bernoulli(jax.random.key(0), 0.5, x.shape)
    y = jnp.where(keep, x / 0.5, 0)
    return y


def rnn(x):
    def step(h, row):
        h = jnp.tanh(h * 0.5 + row)
        return h, h

    last, hidden = lax.scan(step, jnp.zeros(x.shape[1], x.dtype), x)
    return last, hidden


def gru(x):
    def step(h, row):
        z = jax.nn.sigmoid(h + row)
        r = jax.nn.sigmoid(h - row)
        candidate = jnp.tanh(r * h + row)
        h = (1 - z) * h + z * candidate
        return h, h

    return lax.scan(step, jnp.zeros(x.shape[1], x.dtype), x)


def lstm(x):
    def step(state, row):
        h, c = state
        forget = jax.nn.sigmoid(row + h)
        c = forget * c + (1 - forget) * jnp.tanh(row)
        h = jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros(x.shape[1], x.dtype)
    return lax.scan(step, (zeros, zeros), x)[1]


def residual_tower(x):
    for _ in range(4):
        h = jnp.tanh(x @ x.T)
        x = x + 0.1 * h @ x
    return x


PROGRAMS = [
    *(dense, mlp, gated_linear_unit, layer_norm, rms_norm, batch_norm, group_norm, softmax, attention),
    *(causal_attention, multi_head_attention, convolution_1d, convolution_2d, depthwise_convolution, max_pooling),
    *(embedding, dropout, rnn, gru, lstm, residual_tower),
]
