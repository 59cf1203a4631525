from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class State(NamedTuple):
    position: jax.Array
    log_density: jax.Array
    accepted: jax.Array


def log_density(x):
    return -0.5 * jnp.sum((x - 1.0) ** 2)


def transition(state, key):
    move_key, accept_key = jax.random.split(key)
    proposal = state.position + 0.5 * jax.random.normal(move_key, state.position.shape)
    proposed = log_density(proposal)
    accept = jnp.log(jax.random.uniform(accept_key)) < proposed - state.log_density
    state = State(
        jnp.where(accept, proposal, state.position),
        jnp.where(accept, proposed, state.log_density),
        state.accepted + accept,
    )
    return state, state.position


@jax.jit
def chain(key, start):
    keys = jax.random.split(key, 200)
    begin = State(start, log_density(start), jnp.zeros((), jnp.int32))
    return jax.lax.scan(transition, begin, keys)


keys = jax.random.split(jax.random.key(7), 4)
starts = jnp.zeros((4, 3))
final, path = jax.vmap(chain)(keys, starts)
draws = np.asarray(path[:, 100:]).reshape(-1, 3)
print(draws.mean(axis=0).round(2), final.accepted / 200)
rng = np.random.default_rng(0)
resampled = draws[rng.integers(0, len(draws), size=50)]
print(resampled.std(axis=0).shape)
