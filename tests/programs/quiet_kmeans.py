import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@partial(jax.jit, static_argnames="k")
def kmeans(points, key, k):
    centres = points[jax.random.choice(key, points.shape[0], (k,), replace=False)]

    def distances(centres):
        return jnp.sum((points[:, None, :] - centres[None, :, :]) ** 2, axis=-1)

    def body(carry):
        centres, _, steps = carry
        nearest = jnp.argmin(distances(centres), axis=1)
        counts = jnp.zeros(k).at[nearest].add(1.0)
        sums = jnp.zeros_like(centres).at[nearest].add(points)
        moved = sums / jnp.maximum(counts, 1.0)[:, None]
        return moved, jnp.max(jnp.abs(moved - centres)), steps + 1

    def running(carry):
        return (carry[1] > 1e-4) & (carry[2] < 20)

    centres, _, steps = lax.while_loop(running, body, (centres, jnp.inf, 0))
    return centres, jnp.argmin(distances(centres), axis=1), steps


rng = np.random.default_rng(1)
raw = np.concatenate([rng.normal(centre, 0.1, (50, 2)) for centre in (-1.0, 0.0, 1.0)]).astype(np.float32)
points = jnp.array(raw)
kmeans(points, jax.random.key(0), 3)[0].block_until_ready()
start = time.perf_counter()
centres, labels, steps = jax.block_until_ready(kmeans(points, jax.random.key(1), 3))
print(f"{time.perf_counter() - start < 60} after {int(steps)} steps")
raw[:] = 0.0
for label in range(3):
    print(label, np.asarray(points)[np.asarray(labels) == label].shape)
