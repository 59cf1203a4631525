"""Which lanes of a vmapped value are really running: JAX computes all branches, and all turns of a loop, for each."""

from collections.abc import Sequence
from typing import Any

Lanes = tuple[bool, ...]
"""For each vmap around, outermost first, whether an array has an axis for it; those axes lead."""


def running(lanes: Lanes, masks: Sequence[Any], axes: Sequence[Lanes]) -> Any:
    """Where all of the masks hold, for a value with these lanes; traced or not.

    Args:
        lanes: Of the value.
        masks: `bool` arrays with no other axes than those of their lanes.
        axes: The lanes of each mask.

    Returns:
        A `bool` array that broadcasts against the value's lanes; None where there is no mask.
    """
    missing = tuple(level for level, there in enumerate(lanes) if not there)
    found = None
    for mask, has in zip(masks, axes, strict=True):
        sizes = iter(mask.shape)
        own = mask.reshape([next(sizes) if each else 1 for each in has]).any(axis=missing)
        found = own if found is None else found & own
    return found
