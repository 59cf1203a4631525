"""What a tap sends, to whom, and how to read it, so that a callback need only keep the raw buffers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from jaxmagic.core.placed import Placed
from jaxmagic.core.taps.conditions import Condition
from jaxmagic.core.taps.packing import Layout, unpack, words_in
from jaxmagic.core.taps.summaries import Reduced

Kind = Literal["value", "anchor", "active", "loop"]
"""What an operand of the tap is: sent; only there to tie the tap to its loop; which lanes run; a loop's counter."""


_MOST_WAITING = 512
_MOST_WAITING_BYTES = 2**22


class TapStopped(Placed):
    """The condition to stop on held for a tapped value. Raised in a callback, and again at the user's line."""


class Part(NamedTuple):
    """One value in a delivery."""

    reduced: bool
    arrays: int
    """How many arrays carry it."""
    shape: tuple[int, ...]
    dtype: np.dtype
    """Before it was widened or reduced."""
    lanes: tuple[bool, ...]
    """For each vmap around, outermost first, whether the value has an axis for it; those axes lead."""


class Parcels(NamedTuple):
    """`n` deliveries that are laid out alike, read."""

    values: tuple["np.ndarray | Reduced", ...]
    """Each `[n, *shape]`."""
    marks: np.ndarray
    """`bool[n, conditions, values]`"""
    active: tuple[np.ndarray, ...]
    """`bool` masks, one per branch or loop whose lanes may go apart."""
    loops: np.ndarray
    """`int[n, loops]`: iteration of each loop around the tap, outermost first."""
    devices: np.ndarray | None
    """`int[n]`"""


@dataclass(frozen=True, eq=False)
class Delivery:
    """The layout of what one tap sends, fixed when its program was lowered."""

    parts: tuple[Part, ...]
    conditions: int = 0
    gated: bool = False
    """The last condition is the gate; what it is false of was not asked for."""
    active: tuple[tuple[bool, ...], ...] = ()
    """The vmapped axes of each mask over the lanes, as in `Part.lanes`."""
    loops: int = 0
    devices: tuple[int, ...] | None = None
    layout: Layout = ()
    """Of the arrays that are sent: marks, values, masks, counters, partition."""
    packed: bool = False
    """They travel in one buffer."""
    way: str = ""
    """The transport that was chosen, in words."""

    @cached_property
    def bytes(self) -> int:
        """Copied from device to host each time."""
        return sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in self.layout)

    @cached_property
    def sent(self) -> Layout:
        """Of the arrays that a callback is given."""
        if not self.packed:
            return self.layout
        return (((sum(words_in(*entry) for entry in self.layout),), np.dtype(np.uint32)),)

    @cached_property
    def most_waiting(self) -> int:
        """Deliveries that may wait to be looked at; fewer where they are large."""
        return max(1, min(_MOST_WAITING, _MOST_WAITING_BYTES // max(1, self.bytes)))

    def marks_of(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Only the answers to the conditions in one delivery, `bool[conditions, values]`, without reading the rest."""
        return arrays[0].reshape(-1)[: self.conditions * len(self.parts)].astype(bool).reshape(self.conditions, -1)

    def read(self, arrays: Sequence[np.ndarray]) -> Parcels:
        """The values of `n` deliveries and where they came from; `arrays` have the deliveries in front."""
        count = len(arrays[0])
        flat = list(unpack(self.layout, arrays[0]) if self.packed else arrays)
        marks = flat.pop(0) if self.conditions else np.zeros((count, 0), bool)
        devices = np.array(self.devices)[flat.pop()] if self.devices else None
        values = []
        for part in self.parts:
            values.append(_value(part, flat[: part.arrays]))
            del flat[: part.arrays]
        masks, counters = flat[: len(self.active)], flat[len(self.active) :]
        loops = [counter.reshape(count, -1).max(axis=1) for counter in counters]
        # Lanes that have ended have stopped counting.
        masks += [(last == c.T).T for c, last in zip(counters, loops, strict=True) if c.ndim > 1]
        return Parcels(
            tuple(values),
            marks.reshape(count, self.conditions, len(self.parts)),
            tuple(masks),
            np.stack(loops, axis=1) if loops else np.zeros((count, 0), int),
            devices,
        )


class Receiver(Protocol):
    def __call__(self, site: "Site", delivery: Delivery, arrays: Sequence[np.ndarray]) -> None:
        """Takes what arrived. `arrays` are views that die with the call; it may run on any thread."""


@dataclass(frozen=True, eq=False)
class Site:
    """Where values leave the program. A static parameter of the tap, compared by identity."""

    label: str
    receive: Receiver = field(repr=False)
    reduce_above: int | None = None
    """Values of more elements are reduced on the device; None never reduces."""
    gate: Condition | None = None
    """Nothing is sent unless it holds for one of the values."""
    marks: tuple[Condition, ...] = ()
    """Tested for each value and sent along with it."""
    about: Any = field(default=None, repr=False)
    """Whatever the receiver needs to know; not looked at here."""

    def __repr__(self) -> str:
        return f"Site({self.label})"


def _value(part: Part, arrays: Sequence[np.ndarray]) -> "np.ndarray | Reduced":
    if part.reduced:
        moments, counts, sample = arrays
        return Reduced(moments, counts, sample, int(np.prod(part.shape)))
    return arrays[0].astype(part.dtype, copy=False)
