import functools

import jax
import jax.numpy as jnp


def init_layer(key, inputs, outputs):
    weight_key, bias_key = jax.random.split(key)
    return {
        "w": jax.random.normal(weight_key, (inputs, outputs)) / jnp.sqrt(inputs),
        "b": 0.01 * jax.random.normal(bias_key, (outputs,)),
    }


def dense(layer, x):
    return x @ layer["w"] + layer["b"]


def encode(params, x):
    hidden = jnp.tanh(dense(params["encoder"], x))
    return dense(params["mean"], hidden), dense(params["log_scale"], hidden)


def elbo(params, x, key):
    mean, log_scale = encode(params, x)
    z = mean + jnp.exp(log_scale) * jax.random.normal(key, mean.shape)
    logits = dense(params["decoder"], z)
    likelihood = jnp.sum(x * jax.nn.log_sigmoid(logits) + (1.0 - x) * jax.nn.log_sigmoid(-logits))
    divergence = 0.5 * jnp.sum(jnp.exp(2.0 * log_scale) + mean**2 - 1.0 - 2.0 * log_scale)
    return likelihood - divergence


@functools.partial(jax.jit, static_argnames=("rate",), donate_argnums=0)
def step(params, batch, key, rate=1e-3):
    keys = jax.random.split(key, batch.shape[0])

    def loss(params):
        return -jnp.mean(jax.vmap(elbo, in_axes=(None, 0, 0))(params, batch, keys))

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - rate * g, params, grads), value


key = jax.random.key(42)
key, data_key, *layer_keys = jax.random.split(key, 6)
batch = jax.random.bernoulli(data_key, 0.3, (12, 20)).astype(jnp.float32)
sizes = {"encoder": (20, 16), "mean": (16, 4), "log_scale": (16, 4), "decoder": (4, 20)}
params = {name: init_layer(k, *sizes[name]) for name, k in zip(sizes, layer_keys, strict=True)}
for epoch in range(4):
    key, step_key = jax.random.split(key)
    params, value = step(params, batch, step_key)
    if epoch % 2 == 0:
        print(f"epoch {epoch}: {value:.3f}")
