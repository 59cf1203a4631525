"""How far two arrays are apart, and in what way."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

ULPS = 4
"""Neighbouring floats that count as rounding."""

REASSOCIATED = 1_000
"""Rounding errors that add up when a sum or product of many terms is made in another order."""

_COARSEST = 0.05
"""Of what still counts as such, for types that have few digits."""

ORDER = (
    "equal",
    "type differs",
    "rounding",
    "re-association",
    "within tolerance",
    "infinite without jit",
    "infinite with jit",
    "NaN without jit",
    "NaN with jit",
    "different",
)
"""Verdicts on two arrays, gravest last."""

AGREEING = ORDER[:5]
"""Those that a correct program may show."""


class Tolerance(NamedTuple):
    """What the user counts as equal, beside rounding; where nothing is given, it depends on the type."""

    rtol: float | None = None
    atol: float | None = None


BY_TYPE = Tolerance()


class Distance(NamedTuple):
    """Between an array made with jit and the same made without."""

    verdict: str
    max_abs: float | None = None
    max_rel: float | None = None
    """Of the largest element."""
    max_ulp: float | None = None


def distance(jit: np.ndarray, plain: np.ndarray, tolerance: Tolerance = BY_TYPE) -> Distance:
    """Compares arrays of one shape; types may differ.

    Args:
        jit: With jit.
        plain: Without.
        tolerance: Beyond which they are different.
    """
    if jit.dtype.kind not in "fcV" or plain.dtype.kind not in "fcV":
        return _exact(jit, plain)
    left, right = _wide(jit), _wide(plain)
    if left is None or right is None:
        return Distance("equal" if jit.tobytes() == plain.tobytes() else "different")
    strange = _strange(left, right)
    both = np.isfinite(left) & np.isfinite(right)
    if not both.any():
        return Distance(strange or "equal", 0.0, 0.0, 0.0)
    gaps = np.abs(left[both] - right[both])
    largest = float(np.maximum(np.abs(left[both]), np.abs(right[both])).max())
    gap = float(gaps.max())
    relative = gap / largest if largest else 0.0
    ulps = _ulps(jit, plain, both)
    verdict = strange or _verdict(gap, relative, ulps, largest, jit.dtype, tolerance)
    return Distance(verdict, gap, relative, ulps)


def worse(one: str, other: str) -> str:
    """The graver of two verdicts; one that is not in the list is graver than all that are."""
    return max(one, other, key=lambda verdict: ORDER.index(verdict) if verdict in ORDER else len(ORDER))


def _verdict(gap: float, relative: float, ulps: float | None, largest: float, dtype: Any, tol: Tolerance) -> str:
    if gap == 0:
        return "equal"
    step = float(jnp.finfo(dtype).eps)
    if (ulps is not None and ulps <= ULPS) or relative <= ULPS * step:
        return "rounding"
    if tol.rtol is not None or tol.atol is not None:
        allowed = (tol.atol or 0.0) + (tol.rtol or 0.0) * largest
        return "within tolerance" if gap <= allowed else "different"
    return "re-association" if relative <= min(REASSOCIATED * step, _COARSEST) else "different"


def _exact(jit: np.ndarray, plain: np.ndarray) -> Distance:
    """For integers and booleans, where there is no rounding."""
    if np.array_equal(jit, plain):
        return Distance("equal", 0.0, 0.0, 0.0)
    left, right = jit.astype(np.float64), plain.astype(np.float64)
    gap = float(np.abs(left - right).max())
    largest = float(np.maximum(np.abs(left), np.abs(right)).max())
    return Distance("different", gap, gap / largest if largest else 0.0)


def _strange(left: np.ndarray, right: np.ndarray) -> str:
    """A NaN or an infinity that only one side has."""
    if (np.isnan(left) & ~np.isnan(right)).any():
        return "NaN with jit"
    if (np.isnan(right) & ~np.isnan(left)).any():
        return "NaN without jit"
    infinite = np.isinf(left) | np.isinf(right)
    if (left[infinite] != right[infinite]).any():
        return "infinite without jit" if np.isfinite(left[infinite]).any() else "infinite with jit"
    return ""


def _wide(array: np.ndarray) -> np.ndarray | None:
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _ulps(jit: np.ndarray, plain: np.ndarray, where: np.ndarray) -> float | None:
    """Floats between the two, at most; None for types where that has no meaning."""
    if jit.dtype != plain.dtype or jit.dtype.kind == "c":
        return None
    kind = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}.get(jit.dtype.itemsize)
    if kind is None:
        return None
    left, right = (_ordered(np.ascontiguousarray(each[where]).view(kind)) for each in (jit, plain))
    return float(np.abs(left - right).max())


def _ordered(bits: np.ndarray) -> np.ndarray:
    """Bit patterns as numbers that grow with the float; subtracting two counts the floats between."""
    wide = bits.astype(np.float64 if bits.dtype.itemsize == 8 else np.int64)
    return np.where(bits < 0, float(np.iinfo(bits.dtype).min) - wide, wide)
