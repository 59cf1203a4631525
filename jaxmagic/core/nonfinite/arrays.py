"""What an array holds that is no number: asked on the device where it is large, and without JAX where it is small."""

from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Kind = Literal["nan", "inf"]

SMALL = 4096
"""Elements that are looked at on the host, at once."""


def is_inexact(array: Any) -> bool:
    dtype = getattr(array, "dtype", None)
    return isinstance(array, float | complex) if dtype is None else bool(jnp.issubdtype(dtype, jnp.inexact))


def kinds_of(array: Any) -> frozenset[Kind]:
    """Whether there is a NaN, and whether there is an infinity, in an array or a number."""
    if not is_inexact(array):
        return frozenset()
    if isinstance(array, jax.Array) and array.is_deleted():
        return frozenset()
    if np.size(array) > SMALL and isinstance(array, jax.Array):
        nan, inf = np.asarray(_exact(array))
    else:
        values = np.asarray(array)
        nan, inf = np.isnan(values).any(), np.isinf(values).any()
    found: list[Kind] = ["nan"] if nan else []
    return frozenset([*found, "inf"] if inf else found)


@jax.jit
def _exact(array: Array) -> Array:
    return jnp.stack([jnp.any(jnp.isnan(array)), jnp.any(jnp.isinf(array))])


@jax.jit
def suspicious(arrays: Sequence[Array]) -> Array:
    """`bool[]`: true where one of the arrays holds a NaN or an infinity, and perhaps where a sum overflows."""
    return jnp.any(jnp.stack([~jnp.isfinite(jnp.sum(_wide(array))) for array in arrays]))


def _wide(array: Array) -> Array:
    return array if array.dtype.itemsize >= 4 else array.astype(jnp.float32)
