"""Half precision as it is used: float32 where it is asked for, a scaled loss, quantized weights, images, a hash."""

import jax
import jax.numpy as jnp
import numpy as np

params = {"w": jnp.ones((6, 6)), "scale": jnp.ones(6)}
loss_scale = jnp.float32(1024.0)


def norm(x, scale):
    wide = x.astype(jnp.float32)
    wide = wide * jax.lax.rsqrt((wide**2).mean(-1, keepdims=True) + np.float32(1e-6))
    return (wide * scale).astype(x.dtype)


def rotate(x):
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[0])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    a, b = x[:, :half], x[:, half:]
    rotated = jnp.concatenate(
        [a * jnp.cos(angles) - b * jnp.sin(angles), a * jnp.sin(angles) + b * jnp.cos(angles)], -1
    )
    return rotated.astype(x.dtype)


def attend(x):
    scores = jnp.einsum("qd,kd->qk", x, x, preferred_element_type=jnp.float32) / np.sqrt(x.shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape, bool)), scores, jnp.finfo(scores.dtype).min)
    return jax.nn.softmax(scores).astype(x.dtype) @ x * 0.5


@jax.jit
def step(params, x, y):
    def loss(params):
        half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
        out = attend(rotate(norm(x.astype(jnp.bfloat16) @ half["w"], params["scale"])))
        return ((out.astype(jnp.float32) - y) ** 2).mean() * loss_scale

    grads = jax.tree.map(lambda leaf: leaf / loss_scale, jax.grad(loss)(params))
    return jax.tree.map(lambda leaf, grad: leaf - 0.1 * grad, params, grads)


params = step(params, jnp.ones((8, 6)), jnp.zeros((8, 6)))
average = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
average = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, average, params)

step_size = jnp.abs(params["w"]).max() / 127
quantized = jnp.round(params["w"] / step_size).astype(jnp.int8)
restored = quantized * step_size
image = jnp.asarray(np.arange(240, dtype=np.uint8).reshape(8, 30))
bright = image.astype(jnp.float32) * 2 - image.mean()
positions = (jnp.arange(1000) / 1000).astype(jnp.bfloat16)
code = jnp.uint32(7)
for letter in range(4):
    code = code * jnp.uint32(2654435761) ^ jnp.uint32(letter)
