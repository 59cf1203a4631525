"""Quantities in the units a person reads."""

import math
from typing import TypeGuard

UNKNOWN = "–"


def seconds(value: float | None) -> str:
    """Wall seconds, three digits.

    Example:
        >>> seconds(0.0123), seconds(1.5), seconds(125.0)
        ('12.3 ms', '1.5 s', '2 min 5 s')
    """
    if not _known(value):
        return UNKNOWN
    if value == 0:
        return "0 s"
    if value >= 1e9:
        return f"{value:.3g} s"
    if value >= 119.5:
        minutes, rest = divmod(round(value), 60)
        return f"{minutes:,} min {rest} s"
    return next(f"{_three(value / size)} {unit}" for unit, size in _TIMES if value >= 0.9995 * size or size == 1e-9)


def amount(value: float | None, unit: str) -> str:
    """Three digits with an SI prefix.

    Example:
        >>> amount(26641738.0, "FLOP"), amount(915752, "B"), amount(12, "B")
        ('26.6 MFLOP', '916 kB', '12 B')
    """
    if not _known(value):
        return UNKNOWN
    if abs(value) >= 1e21:
        return f"{value:.3g} {unit}"
    for prefix, size in _PREFIXES:
        if abs(value) >= 0.9995 * size:
            return f"{_three(value / size)} {prefix}{unit}"
    return f"{_three(value)} {unit}"


def number(value: float | None) -> str:
    """A measured value, four significant digits; NaN and infinities by name."""
    return UNKNOWN if value is None else f"{value:.4g}"


def counted(count: int, thing: str, things: str = "") -> str:
    """A number of things.

    Example:
        >>> counted(1, "trace"), counted(1340, "step")
        ('1 trace', '1,340 steps')
    """
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


_TIMES = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
_PREFIXES = (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _three(value: float) -> str:
    if abs(value) >= 999.5:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return text if "e" not in text else f"{value:.3f}".rstrip("0").rstrip(".")
