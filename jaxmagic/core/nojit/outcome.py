"""What a run left behind, on the host: every array, number and text in the variables that it set."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from jaxmagic.core.lines.containers import Owns, children
from jaxmagic.core.lines.values import aval_of
from jaxmagic.core.nojit.arrays import on_host
from jaxmagic.records import Aval

MOST = 2_000
"""Parts of all variables together."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Item(NamedTuple):
    """One array, or one plain value of Python."""

    value: Any
    """In numpy for an array, None where it can't be read."""
    aval: Aval | None = None


class Outcome(NamedTuple):
    """How a run ended."""

    items: dict[str, Item]
    """By variable and path: `state.params['w1']`."""
    error: str = ""
    """What it raised."""
    seconds: float = 0.0
    """Without tracing and compiling."""
    hidden: int = 0
    """Parts that were not looked at."""


def items_of(variables: Mapping[str, Any], owns: Owns) -> tuple[dict[str, Item], int]:
    """Everything that can be compared in some variables, and how many parts there are beyond `MOST`."""
    found: dict[str, Item] = {}
    hidden = 0
    for name, value in variables.items():
        for path, item in _items(name, value, owns, 0, set()):
            if len(found) < MOST:
                found[path] = item
            else:
                hidden += 1
    return found, hidden


def _items(path: str, value: Any, owns: Owns, depth: int, around: set[int]) -> Iterator[tuple[str, Item]]:
    if isinstance(value, Tracer):
        return
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        if isinstance(value, jax.Array) or value.dtype.kind in "biufcV":
            yield path, Item(on_host(value), aval_of(value))
    elif isinstance(value, _PLAIN):
        yield path, Item(value)
    elif depth < 12 and id(value) not in around:
        around.add(id(value))
        count = 0
        for step, part in children(value, owns) or ():
            count += 1
            yield from _items(path + step, part, owns, depth + 1, around)
        if isinstance(value, list):
            yield f"len({path})", Item(count)
        around.discard(id(value))
