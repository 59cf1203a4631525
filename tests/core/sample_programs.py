"""Functions to take apart in tests: real ones, and the odd corners of tracing."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from flax import nnx
from numpyro.infer.util import initialize_model


def mlp_loss(params, x, y):
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    logits = hidden @ params["w2"]
    return jnp.mean((jax.nn.softmax(logits) - y) ** 2)


def mlp_step(params, x, y):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return loss, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def collatz(start):
    def step(state, _):
        length, n = jax.lax.while_loop(lambda s: s[1] != 1, halved_or_tripled, (0, state))
        return jnp.where(length > 5, state + n, state), length

    return jax.lax.scan(step, start, jnp.arange(3))


def halved_or_tripled(state):
    length, n = state
    return length + 1, jax.lax.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n)


@jax.custom_vjp
def clipped(x):
    return jnp.sin(x)


def clipped_forward(x):
    return clipped(x), x


def clipped_backward(x, gradient):
    return (jnp.clip(gradient, -1.0, 1.0) * jnp.cos(x),)


clipped.defvjp(clipped_forward, clipped_backward)


def remat_loss(w, x):
    block = jax.checkpoint(lambda h: jnp.sin(h @ w))
    return jnp.sum(block(block(x)))


class Block(nnx.Module):
    def __init__(self, width, rngs):
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, width, decode=False, rngs=rngs)
        self.up = nnx.Linear(width, 2 * width, rngs=rngs)
        self.down = nnx.Linear(2 * width, width, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.down(nnx.gelu(self.up(x)))


def block_loss(graph, state, x):
    return jnp.mean(nnx.merge(graph, state)(x) ** 2)


def regression(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(slope * x, 0.1), obs=y)


def transformer_block() -> tuple[Callable, tuple]:
    graph, state = nnx.split(Block(8, nnx.Rngs(0)))
    return jax.value_and_grad(partial(block_loss, graph)), (state, jnp.ones((2, 5, 8)))


def potential() -> tuple[Callable, tuple]:
    x = jnp.linspace(0.0, 1.0, 5)
    model = initialize_model(jax.random.key(0), regression, model_args=(x, 2 * x), dynamic_args=False)
    return jax.grad(model.potential_fn), (model.param_info.z,)


def mlp() -> tuple[Callable, tuple]:
    params = {"w1": jnp.ones((3, 4)), "b1": jnp.zeros(4), "w2": jnp.ones((4, 2))}
    return mlp_step, (params, jnp.ones((8, 3)), jnp.ones((8, 2)))


# A function and its arguments, made when asked for.
SAMPLES: dict[str, Callable[[], tuple[Callable, tuple]]] = {
    "mlp training step": mlp,
    "scan of while of cond": lambda: (collatz, (7,)),
    "custom derivative": lambda: (jax.grad(lambda x: clipped(x).sum()), (jnp.ones(3),)),
    "remat": lambda: (jax.grad(remat_loss), (jnp.ones((3, 3)), jnp.ones(3))),
    "NNX transformer block": transformer_block,
    "NumPyro potential": potential,
    "vmap of jit": lambda: (jax.vmap(jax.jit(mlp_loss), (None, 0, 0)), mlp()[1]),
}


def traced(name: str) -> Any:
    """The jaxpr of a sample, jitted."""
    function, arguments = SAMPLES[name]()
    return jax.jit(function).trace(*arguments).jaxpr
