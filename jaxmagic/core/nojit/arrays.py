"""Real arrays as they are met: a small one is copied, a large one reduced at once, and nothing of JAX's is kept."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from jaxmagic.core import jax_internals
from jaxmagic.core.lines.containers import Owns, children
from jaxmagic.core.lines.values import aval_from, aval_of
from jaxmagic.core.taps.summaries import summarize
from jaxmagic.records import Aval, Summary

COPIED = 512
"""Elements up to which an array is copied, to be looked at when the cell is over."""

REDUCED = 1_000_000
"""Elements up to which a larger one is reduced."""

SHOWN = 8
"""Elements up to which the value itself is shown."""

_COLUMNS = re.compile(r"(?<=\[)\s+|\s+(?=[],])|(?<=,)\s+(?= )")
"""Spaces that only put numbers below each other."""

_DEEPEST = 6
_MOST_PARTS = 100


class Sighting(NamedTuple):
    """What is left of an array that a variable held."""

    path: str
    type: Any
    """JAX's own description of the array, without the array."""
    lanes: tuple[int, ...]
    value: np.ndarray | None
    summary: Summary | None

    @property
    def aval(self) -> Aval:
        return self.type if isinstance(self.type, Aval) else aval_from(self.type)

    def summarized(self) -> Summary | None:
        return summarize(self.value) if self.value is not None and self.value.size else self.summary

    def text(self) -> str:
        """The value, where it is small."""
        if self.value is None or self.value.size > SHOWN:
            return ""
        text = np.array2string(self.value, precision=4, separator=", ", max_line_width=1000)
        return _COLUMNS.sub("", text.replace("\n", " ")).replace("  ", " ")


def sightings(value: Any, most: int, owns: Owns) -> list[Sighting]:
    """The real arrays in a value, those behind tracers of vmap and grad included."""
    found: list[Sighting] = []
    for path, array in _arrays("", value, 0, owns):
        if len(found) == most:
            break
        found.append(_sighting(path, array))
    return found


def on_host(array: Any) -> np.ndarray | None:
    """A copy in numpy; None for what is deleted, lies on other processes' devices, or has no numbers (keys)."""
    if isinstance(array, jax.Array):
        if array.is_deleted() or not array.is_fully_addressable:
            return None
        if not isinstance(array.dtype, np.dtype):
            array = jax.random.key_data(array)
    return np.array(array)  # a copy: a view would keep JAX from giving the buffer away


def _arrays(path: str, value: Any, depth: int, owns: Owns) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Tracer):
        if jax_internals.concrete_of(value) is not None:
            yield path, value
    elif isinstance(value, jax.Array | np.ndarray | np.generic):
        yield path, value
    elif depth < _DEEPEST:
        for number, (step, part) in enumerate(children(value, owns) or ()):
            if number == _MOST_PARTS:
                break
            yield from _arrays(path + step, part, depth + 1, owns)


def _sighting(path: str, value: Any) -> Sighting:
    traced = isinstance(value, Tracer)
    array = jax_internals.concrete_of(value) if traced else value
    lanes = jax_internals.batch_sizes(value) if traced else ()
    aval = value.aval if traced or isinstance(value, jax.Array) else aval_of(value)
    if array.size > REDUCED:
        return Sighting(path, aval, lanes, None, None)
    host = on_host(array)
    if host is None or host.size <= COPIED:
        return Sighting(path, aval, lanes, host, None)
    return Sighting(path, aval, lanes, None, summarize(host))
