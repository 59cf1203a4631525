"""The statistics of one array: reduced on the device before they travel, or by numpy once a value is on the host."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxmagic.records import Summary

BINS = 16
SAMPLE = 128
"""Elements sent along with a reduced array; its histogram is made of these."""


def reduce(array: Array) -> tuple[Array, Array, Array]:
    """What the host needs to know of a large array; traced.

    Returns:
        `[4]` floats: least, greatest, mean and standard deviation of the finite elements (complex ones by magnitude);
        `[4]` int32 counts: NaN, +Inf, -Inf, zero; and up to `SAMPLE` elements from evenly spaced positions.
    """
    values = _as_real(array)
    sample = _sample(values)
    if not values.size:
        return jnp.zeros(4, values.dtype), jnp.zeros(4, jnp.int32), sample
    total = jnp.sum(values)
    # A finite sum proves every element finite, and then five plain reductions do: a tenth of the masked ones' time.
    moments, counts = lax.cond(jnp.isfinite(total), _reduce_finite, _reduce_masked, values)
    return moments, counts, sample


def _reduce_finite(values: Array) -> tuple[Array, Array]:
    mean = jnp.sum(values) / values.size
    spread = jnp.sum(jnp.square(values - mean)) / values.size
    zero = jnp.sum(values == 0, dtype=jnp.int32)
    none = jnp.zeros((), jnp.int32)
    moments = jnp.stack([jnp.min(values), jnp.max(values), mean, jnp.sqrt(spread)])
    return moments, jnp.stack([none, none, none, zero])


def _reduce_masked(values: Array) -> tuple[Array, Array]:
    finite = jnp.isfinite(values)
    count = jnp.maximum(jnp.sum(finite, dtype=jnp.int32), 1).astype(values.dtype)
    mean = jnp.sum(jnp.where(finite, values / count, 0))
    spread = jnp.sum(jnp.where(finite, jnp.square(values - mean), 0)) / count
    least = jnp.min(jnp.where(finite, values, jnp.inf))
    greatest = jnp.max(jnp.where(finite, values, -jnp.inf))
    kinds = (jnp.isnan(values), values == jnp.inf, values == -jnp.inf, values == 0)
    counts = jnp.stack([jnp.sum(kind, dtype=jnp.int32) for kind in kinds])
    return jnp.stack([least, greatest, mean, jnp.sqrt(spread)]), counts


def summary_of(moments: np.ndarray, counts: Sequence[int | np.integer], sample: np.ndarray, size: int) -> Summary:
    """The record of what `reduce` computed for an array of `size` elements."""
    nan, posinf, neginf, zero = (int(n) for n in counts)
    if size == nan + posinf + neginf:
        return Summary(count=size, nan=nan, posinf=posinf, neginf=neginf, zero=zero)
    least, greatest, mean, std = (float(x) for x in moments)
    bins = _histogram(sample, least, greatest)
    return Summary(size, least, greatest, mean, std, nan, posinf, neginf, zero, bins)


def summarize(array: np.ndarray) -> Summary | None:
    """The same on the host, for a value that came ashore whole; None for what has no numbers in it."""
    values = _as_numbers(array)
    if values is None:
        return None
    finite = values[np.isfinite(values)]
    counts = [np.count_nonzero(kind) for kind in (np.isnan(values), values == np.inf, values == -np.inf, values == 0)]
    if not finite.size:
        return summary_of(np.zeros(4), counts, finite, values.size)
    with np.errstate(all="ignore"):
        moments = np.array([finite.min(), finite.max(), finite.mean(), finite.std()])
    return summary_of(moments, counts, finite, values.size)


def combine(summaries: Sequence[Summary]) -> Summary:
    """The summary of all the arrays together, without a histogram."""
    counts: dict[str, Any] = {}
    for key in ("count", "nan", "posinf", "neginf", "zero"):
        counts[key] = sum(getattr(summary, key) for summary in summaries)
    parts = [(s.count - s.nan - s.posinf - s.neginf, s) for s in summaries if s.mean is not None]
    total = sum(weight for weight, _ in parts)
    if not total:
        return Summary(**counts)
    mean = sum(weight * (s.mean or 0.0) for weight, s in parts) / total
    square = sum(weight * ((s.std or 0.0) ** 2 + ((s.mean or 0.0) - mean) ** 2) for weight, s in parts) / total
    least = min(s.min for _, s in parts if s.min is not None)
    greatest = max(s.max for _, s in parts if s.max is not None)
    return Summary(min=least, max=greatest, mean=mean, std=math.sqrt(square), **counts)


def _as_real(array: Array) -> Array:
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        return jnp.abs(array)
    if array.dtype in (jnp.float32, jnp.float64):
        return array
    wide = jnp.issubdtype(array.dtype, jnp.integer) and array.dtype.itemsize == 8
    return array.astype(jnp.float64 if wide else jnp.float32)


def _as_numbers(array: np.ndarray) -> np.ndarray | None:
    if array.dtype.kind == "c":
        return np.abs(array).reshape(-1)
    try:
        return array.astype(np.float64).reshape(-1)
    except (TypeError, ValueError):
        return None


def _sample(values: Array) -> Array:
    """Evenly spaced elements, axis by axis, so that nothing is reshaped or gathered whole."""
    left = SAMPLE
    for axis in reversed(range(values.ndim)):
        keep = max(1, min(values.shape[axis], left))
        stride = max(1, math.ceil(values.shape[axis] / keep))
        values = values[(slice(None),) * axis + (slice(None, None, stride),)]
        left //= max(1, values.shape[axis])
    return values.reshape(-1)


def _histogram(sample: np.ndarray, least: float, greatest: float) -> tuple[int, ...]:
    finite = sample[np.isfinite(sample)].astype(np.float64)
    if not finite.size or not math.isfinite(greatest - least):
        return ()
    if least == greatest:
        return (finite.size,)
    counts, _ = np.histogram(np.clip(finite, least, greatest), bins=BINS, range=(least, greatest))
    return tuple(int(n) for n in counts)
