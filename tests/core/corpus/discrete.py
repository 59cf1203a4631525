"""Sampling, sorting, counting, keys: results that must always be identical."""

import jax
import jax.numpy as jnp
from jax import lax


def normal_samples(x):
    key = jax.random.key(3)
    y = jax.random.normal(key, x.shape, x.dtype) + x
    return y


def split_keys(x):
    keys = jax.random.split(jax.random.key(1), 3)
    last = jax.random.fold_in(keys[2], 7)
    return keys, last


def categorical_samples(x):
    draws = jax.random.categorical(jax.random.key(2), x, axis=1)
    return draws


def permutation(x):
    order = jax.random.permutation(jax.random.key(4), x.shape[0])
    rows = x[order]
    return order, rows


def gumbel_top_k(x):
    noise = jax.random.gumbel(jax.random.key(5), x.shape, x.dtype)
    _, picked = lax.top_k(x + noise, 2)
    return picked


def metropolis(x):
    def step(state, key):
        at, accepted = state
        proposal = at + jax.random.normal(key, at.shape, at.dtype)
        better = jax.random.uniform(key, (), at.dtype) < jnp.exp((at**2 - proposal**2).sum())
        at = jnp.where(better, proposal, at)
        return (at, accepted + better), at

    (_, accepted), path = lax.scan(step, (x[0], 0), jax.random.split(jax.random.key(6), 10))
    return accepted, path


def random_walk(x):
    steps = jnp.sign(jax.random.uniform(jax.random.key(8), x.shape) - 0.5).astype(x.dtype)
    path = jnp.cumsum(steps, axis=0)
    return path


def sorting(x):
    order = jnp.argsort(x, axis=1)
    ranked = jnp.take_along_axis(x, order, axis=1)
    return order, ranked


def counting(x):
    bins = jnp.floor(x * 2).astype(jnp.int32) % 4
    counts = jnp.bincount(bins.reshape(-1), length=4)
    return counts


def segments(x):
    owner = jnp.arange(x.shape[0]) % 2
    sums = jax.ops.segment_sum(x, owner, 2)
    return sums


def thresholds(x):
    above = x > x.mean()
    first = jnp.argmax(above, axis=1)
    return above, first


def hashing(x):
    state = (jnp.abs(x) * 1000).astype(jnp.uint32)
    for _ in range(3):
        state = (state ^ (state >> 3)) * jnp.uint32(2654435761)
    return state


def collatz(x):
    start = (jnp.abs(x[0]) * 10).astype(jnp.int32) + 1

    def step(state):
        n, count = state
        n = jnp.where(n % 2 == 0, n // 2, 3 * n + 1)
        return n, count + 1

    count = jax.vmap(lambda n: lax.while_loop(lambda s: s[0] > 1, step, (n, 0))[1])(start)
    return count


def game_of_life(x):
    board = x > 0
    for _ in range(2):
        shifts = [jnp.roll(board, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        around = sum(shift.astype(jnp.int32) for shift in shifts)
        board = (around == 3) | (board & (around == 2))
    return board


PROGRAMS = [
    *(normal_samples, split_keys, categorical_samples, permutation, gumbel_top_k, metropolis, random_walk),
    *(sorting, counting, segments, thresholds, hashing, collatz, game_of_life),
]
