"""Loop counters in a jaxpr that is being rewritten: one whole number, or one for each lane."""

from typing import Any

import jax.core
import numpy as np

from jaxmagic.core import jax_internals
from jaxmagic.core.jax_internals import Literal

COUNTER = jax.core.ShapedArray((), np.dtype(np.int32))


def counter_variable(like: Any = COUNTER) -> Any:
    """A counter, with an axis for each of those of `like`."""
    return jax_internals.new_variable(like.update(dtype=COUNTER.dtype))


def counter_literal(value: int, aval: Any = COUNTER) -> Any:
    number = np.int32(value) if aval.shape == () else np.full(aval.shape, value, np.int32)
    return Literal(number, aval)
