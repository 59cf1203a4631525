"""Two outcomes, name by name."""

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np

from jaxmagic.core.nojit.numbers import Tolerance, distance
from jaxmagic.core.nojit.outcome import Item, Outcome
from jaxmagic.records import Aval, Difference


def differences(jit: Outcome, plain: Outcome, tolerance: Tolerance) -> tuple[Difference, ...]:
    """One for each name that either run has set, in the order in which they were set."""
    return tuple(_differences(jit, plain, tolerance))


def _differences(jit: Outcome, plain: Outcome, tolerance: Tolerance) -> Iterator[Difference]:
    for name in dict.fromkeys((*plain.items, *jit.items)):
        left, right = jit.items.get(name), plain.items.get(name)
        if left is None or right is None:
            only = "without jit" if left is None else "with jit"
            yield Difference(name, f"only {only}", left=_aval(left), right=_aval(right))
        elif left.aval is not None and right.aval is not None:
            yield _of_arrays(name, left, right, tolerance)
        elif _is_number(left) and _is_number(right) and not _both_exact(left, right):
            yield _of_numbers(name, left, right, tolerance)
        else:
            yield _of_python(name, left, right)


def _of_python(name: str, left: Item, right: Item) -> Difference:
    if left.aval is None and right.aval is None and left.value == right.value:
        return Difference(name, "equal")
    return Difference(name, f"{_short(left)} with jit, {_short(right)} without", left=left.aval, right=right.aval)


def _is_number(item: Item) -> bool:
    if item.aval is not None:
        return item.value is not None and item.value.ndim == 0
    return isinstance(item.value, bool | int | float | complex)


def _both_exact(left: Item, right: Item) -> bool:
    """Whether both are Python's own and not floating-point: then there is no rounding to allow for."""
    return all(item.aval is None and isinstance(item.value, bool | int) for item in (left, right))


def _of_numbers(name: str, left: Item, right: Item, tolerance: Tolerance) -> Difference:
    """Python numbers, of which one at least may have been made from an array: they are no more exact than that."""
    type_of = next((item.value.dtype for item in (left, right) if item.aval is not None), jnp.result_type(float))
    with np.errstate(all="ignore"):
        numbers = [np.asarray(item.value).astype(type_of) for item in (left, right)]
    found = distance(numbers[0], numbers[1], tolerance)
    mixed = found.verdict == "equal" and (left.aval is None) != (right.aval is None)
    verdict = "type differs" if mixed else found.verdict
    return Difference(name, verdict, found.max_abs, found.max_rel, found.max_ulp, left.aval, right.aval)


def _of_arrays(name: str, left: Item, right: Item, tolerance: Tolerance) -> Difference:
    assert left.aval is not None
    assert right.aval is not None
    if left.value is None or right.value is None:
        return Difference(name, "not readable: deleted, or on other devices", left=left.aval, right=right.aval)
    if left.value.shape != right.value.shape:
        return Difference(name, "another shape", left=left.aval, right=right.aval)
    found = distance(left.value, right.value, tolerance)
    verdict = "type differs" if found.verdict == "equal" and not _same_type(left.aval, right.aval) else found.verdict
    return Difference(name, verdict, found.max_abs, found.max_rel, found.max_ulp, left.aval, right.aval)


def _same_type(left: Aval, right: Aval) -> bool:
    return (left.dtype, left.weak) == (right.dtype, right.weak)


def _aval(item: Item | None) -> Aval | None:
    return None if item is None else item.aval


def _short(item: Item) -> str:
    if item.aval is not None:
        return str(item.aval)
    text = repr(item.value)
    return text if len(text) <= 40 else text[:40] + "…"
