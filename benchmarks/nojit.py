"""P9: jit off for one small function of a loop, against `jax.disable_jit()` over all of it."""

from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
from rounds import Row, seconds

import jaxmagic

STEPS, LAYERS, WIDTH, INNER = 20, 12, 64, 200


def suspicious(x: jax.Array) -> jax.Array:
    y = jnp.tanh(x)
    return y / (1.0 + jnp.abs(y))


def layer(w: jax.Array, x: jax.Array) -> jax.Array:
    """A small recurrence, as in any RNN or solver: many little operations."""

    def body(state: jax.Array, _: None) -> tuple[jax.Array, None]:
        return jnp.sin(state @ w) * 0.5 + state * 0.5, None

    return jax.lax.scan(body, x, None, length=INNER)[0]


@jax.jit
def model(weights: jax.Array, x: jax.Array) -> jax.Array:
    for w in weights:
        x = layer(w, x)
    return x


suspicious_jitted = jax.jit(suspicious)


def run(weights: jax.Array, x: jax.Array, steps: int) -> None:
    for _ in range(steps):
        x = suspicious_jitted(model(weights, x))
    x.block_until_ready()


def rows(only: set[str]) -> Iterable[Row]:
    if only and "P9" not in only:
        return
    weights = jax.random.normal(jax.random.key(0), (LAYERS, WIDTH, WIDTH)) / WIDTH**0.5
    x = jnp.ones((8, WIDTH))
    run(weights, x, 1)
    plain = _per_step(lambda: run(weights, x, STEPS), STEPS)
    local = _per_step(lambda: _local(weights, x), STEPS)
    everywhere = _per_step(lambda: _everywhere(weights, x), 1, rounds=1)
    took = ", ".join(f"{each * 1e3:.1f}" for each in (plain, local, everywhere))
    yield Row(
        "P9",
        "`%jaxnojit --only f` in a loop, against jax.disable_jit() on all of it",
        "≥ 100 × faster",
        f"{everywhere / local:.0f} × ({took} ms a step with jit, with only f off, with all off)",
        everywhere / local >= 100,
    )


def _local(weights: jax.Array, x: jax.Array) -> None:
    with jaxmagic.nojit(suspicious_jitted):
        run(weights, x, STEPS)


def _everywhere(weights: jax.Array, x: jax.Array) -> None:
    with jax.disable_jit():
        run(weights, x, 1)


def _per_step(measured: Callable[[], None], steps: int, rounds: int = 3) -> float:
    return seconds(measured, rounds) / steps
