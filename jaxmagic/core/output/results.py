"""What a cell gave as its value, as text. Only values whose `repr` is JAX's, numpy's or Python's own are printed."""

from typing import Any

import jax
import jax.core
import numpy as np

from jaxmagic.core.lines.values import leaves

MOST_ELEMENTS = 32
"""Larger arrays are described by their aval, not copied to the host."""

MOST_CHARACTERS = 500
_PLAIN = (bool, int, float, complex, str, bytes)


def described(value: Any) -> tuple[str, ...]:
    """One text for the value of a cell; none where it has none.

    Example:
        >>> described(jnp.ones((64, 3)))
        ('f32[64,3]',)
    """
    if value is None:
        return ()
    if type(value) in _PLAIN or _is_small_array(value):
        return (repr(value)[:MOST_CHARACTERS],)
    found, hidden = leaves(value, 8)
    arrays = [f"{leaf.path} {leaf}".strip() for leaf in found] + ([f"… {hidden} more"] if hidden else [])
    if len(found) == 1 and not found[0].path:
        return (arrays[0],)
    name = type(value).__qualname__
    return (f"{name}: {', '.join(arrays)}" if arrays else name,)


def _is_small_array(value: Any) -> bool:
    if isinstance(value, jax.core.Tracer) or not isinstance(value, jax.Array | np.ndarray | np.generic):
        return False
    if isinstance(value, jax.Array):
        return value.size <= MOST_ELEMENTS and value.is_fully_addressable and not value.is_deleted()
    return value.size <= MOST_ELEMENTS and value.dtype != object
