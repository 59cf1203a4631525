"""A series of numbers as a few block characters."""

import math
from collections.abc import Sequence
from itertools import pairwise

_BARS = "▁▂▃▄▅▆▇█"
NOT_A_NUMBER = "×"


def sparkline(values: Sequence[float | None], most: int = 12) -> str:
    """Means of equal runs of the series, from its least to its greatest; × where a run has no number.

    Example:
        >>> sparkline([1.0, 2.0, 3.0, None])
        '▁▅█×'
    """
    count = min(most, len(values))
    edges = [i * len(values) // count for i in range(count + 1)] if count else []
    means = [_mean(values[start:end]) for start, end in pairwise(edges)]
    known = [mean for mean in means if mean is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return "".join(NOT_A_NUMBER if mean is None else _bar(mean, low, high) for mean in means)


def _mean(run: Sequence[float | None]) -> float | None:
    known = [value for value in run if value is not None and math.isfinite(value)]
    return sum(known) / len(known) if len(known) == len(run) else None


def _bar(value: float, low: float, high: float) -> str:
    part = (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.0
    return _BARS[min(7, round(part * 7))]
