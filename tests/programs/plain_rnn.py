import jax
import jax.numpy as jnp


def cell(params, state, x):
    gate = jax.nn.sigmoid(x @ params["gate"] + state)
    candidate = jnp.tanh(x @ params["candidate"] + gate * state)
    return gate * state + (1.0 - gate) * candidate


@jax.checkpoint
def step(carry, x):
    params, state = carry
    state = cell(params, state, x)
    return (params, state), state.mean()


def loss_fn(params, xs):
    start = jnp.zeros(8)
    (_, last), means = jax.lax.scan(step, (params, start), xs)
    return last.sum() + means.sum()


@jax.jit
def update(params, xs):
    loss, grads = jax.value_and_grad(loss_fn)(params, xs)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, loss


keys = jax.random.split(jax.random.key(0), 3)
params = {"gate": jax.random.normal(keys[0], (4, 8)), "candidate": jax.random.normal(keys[1], (4, 8))}
xs = jax.random.normal(keys[2], (12, 4))
for _ in range(3):
    params, loss = update(params, xs)
print(loss.shape)
