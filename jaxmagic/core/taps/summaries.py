"""The statistics of arrays: reduced on the device before they travel, or by numpy once values are on the host."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

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


class Reduced(NamedTuple):
    """What `reduce` computed for each of `n` arrays of `size` elements."""

    moments: np.ndarray
    """`[n, 4]`"""
    counts: np.ndarray
    """`[n, 4]`"""
    samples: np.ndarray
    """`[n, up to SAMPLE]`"""
    size: int

    def summaries(self) -> list[Summary]:
        finite = self.size - self.counts[:, :3].sum(axis=1)
        moments = self.moments.astype(np.float64)
        bins = _histograms(self.samples.astype(np.float64), moments[:, 0], moments[:, 1])
        rows = zip(finite.tolist(), moments.tolist(), self.counts.tolist(), bins, strict=True)
        return [_summary(self.size, *row) for row in rows]


def _summary(size: int, finite: int, moments: list[float], counts: list[int], bins: tuple[int, ...]) -> Summary:
    nan, posinf, neginf, zero = counts
    if not finite:
        return Summary(count=size, nan=nan, posinf=posinf, neginf=neginf, zero=zero)
    least, greatest, mean, std = moments
    return Summary(size, least, greatest, mean, std, nan, posinf, neginf, zero, bins)


def summarize(array: np.ndarray) -> Summary | None:
    """The same on the host, for a value that came ashore whole; None for what has no numbers in it."""
    return summarize_each(array[None])[0]


def summarize_each(arrays: np.ndarray) -> list[Summary | None]:
    """The summary of each of `arrays[n, *shape]`, some millions of numbers at a time."""
    size = math.prod(arrays.shape[1:])
    stride = max(1, _AT_ONCE // max(1, size))
    found: list[Summary | None] = []
    for begin in range(0, len(arrays), stride):
        values = _as_numbers(arrays[begin : begin + stride])
        found += [None] * len(arrays[begin : begin + stride]) if values is None else _reduced(values).summaries()
    return found


_AT_ONCE = 2**20


def _reduced(values: np.ndarray) -> Reduced:
    """Of `values[n, size]`, with all of them as the sample."""
    finite = np.isfinite(values)
    kinds = (np.isnan(values), values == np.inf, values == -np.inf, values == 0)
    counts = np.stack([np.count_nonzero(kind, axis=1) for kind in kinds], axis=1)
    return Reduced(_moments(values, finite), counts, values, values.shape[1])


def _moments(values: np.ndarray, finite: np.ndarray) -> np.ndarray:
    if not values.size:
        return np.zeros((len(values), 4))
    with np.errstate(all="ignore"):
        if finite.all():
            parts = [values.min(axis=1), values.max(axis=1), values.mean(axis=1), values.std(axis=1)]
            return np.stack(parts, axis=1)
        count = np.maximum(1, finite.sum(axis=1))
        mean = np.where(finite, values, 0).sum(axis=1) / count
        spread = np.square(np.where(finite, values - mean[:, None], 0)).sum(axis=1) / count
        least = np.where(finite, values, np.inf).min(axis=1)
        greatest = np.where(finite, values, -np.inf).max(axis=1)
        return np.stack([least, greatest, mean, np.sqrt(spread)], axis=1)


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


def _as_numbers(arrays: np.ndarray) -> np.ndarray | None:
    """`float64[n, size]`"""
    shape = len(arrays), math.prod(arrays.shape[1:])
    if arrays.dtype.kind == "c":
        return np.abs(arrays).astype(np.float64).reshape(shape)
    try:
        return arrays.astype(np.float64).reshape(shape)
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


def _histograms(samples: np.ndarray, least: np.ndarray, greatest: np.ndarray) -> list[tuple[int, ...]]:
    """Of each of `samples[n, size]`, as `numpy.histogram` would count them, one by one."""
    finite = np.isfinite(samples)
    sizes = finite.sum(axis=1)
    found: list[tuple[int, ...]] = [() for _ in sizes]
    with np.errstate(all="ignore"):
        width = greatest - least
    for row in np.flatnonzero((width == 0) & (sizes > 0)):
        found[row] = (int(sizes[row]),)
    rows = np.flatnonzero(np.isfinite(width) & (width > 0) & (sizes > 0))
    if rows.size:
        counts = _counted(samples[rows], finite[rows], least[rows], greatest[rows])
        for row, each in zip(rows, counts.tolist(), strict=True):
            found[row] = tuple(each)
    return found


def _counted(samples: np.ndarray, finite: np.ndarray, least: np.ndarray, greatest: np.ndarray) -> np.ndarray:
    """`int[n, BINS]`"""
    values = np.clip(np.where(finite, samples, least[:, None]), least[:, None], greatest[:, None])
    edges = np.linspace(least, greatest, BINS + 1, axis=1)
    bins = ((values - least[:, None]) / (greatest - least)[:, None] * BINS).astype(int)
    bins = np.minimum(bins, BINS - 1)
    # Rounding may have put a value next to an edge on its wrong side.
    bins -= values < np.take_along_axis(edges, bins, axis=1)
    bins += (values >= np.take_along_axis(edges, bins + 1, axis=1)) & (bins < BINS - 1)
    places = bins + BINS * np.arange(len(samples))[:, None]
    return np.bincount(places[finite], minlength=BINS * len(samples)).reshape(-1, BINS)
