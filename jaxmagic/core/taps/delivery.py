"""What a tap sends, to whom, and how to read it, so that a callback need only keep the raw buffers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from jaxmagic.core.placed import Placed
from jaxmagic.core.taps.conditions import Condition
from jaxmagic.core.taps.packing import Layout, unpack
from jaxmagic.core.taps.summaries import summary_of

Kind = Literal["value", "anchor", "active", "loop"]
"""What an operand of the tap is: sent; only there to tie the tap to its loop; which lanes run; a loop's counter."""


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


class Parcel(NamedTuple):
    """One delivery, read."""

    values: tuple[Any, ...]
    """Each a numpy array, or a `Summary` where it was reduced on the device."""
    marks: np.ndarray
    """`bool[conditions, values]`"""
    active: tuple[np.ndarray, ...]
    """`bool` masks, one per branch or loop whose lanes may go apart."""
    loop: tuple[int, ...]
    """Iteration of each loop around the tap, outermost first."""
    device: int | None


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
    packed: Layout | None = None
    way: str = ""
    """The transport that was chosen, in words."""
    bytes: int = 0
    """Copied from device to host each time."""

    def marks_of(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Only the answers to the conditions, `bool[conditions, values]`, without reading the rest."""
        count = self.conditions * len(self.parts)
        return arrays[0][:count].astype(bool).reshape(self.conditions, -1)

    def read(self, arrays: Sequence[np.ndarray]) -> Parcel:
        """The values and where they came from."""
        flat = list(unpack(self.packed, arrays[0]) if self.packed else arrays)
        marks = flat.pop(0).reshape(self.conditions, -1) if self.conditions else np.zeros((0, len(self.parts)), bool)
        device = self.devices[int(flat.pop())] if self.devices else None
        values = []
        for part in self.parts:
            values.append(_value(part, flat[: part.arrays]))
            del flat[: part.arrays]
        masks, counters = flat[: len(self.active)], flat[len(self.active) :]
        # Lanes that have ended have stopped counting.
        masks += [counter == counter.max() for counter in counters if counter.ndim]
        return Parcel(tuple(values), marks, tuple(masks), tuple(int(np.max(each)) for each in counters), device)


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


def _value(part: Part, arrays: Sequence[np.ndarray]) -> Any:
    if part.reduced:
        moments, counts, sample = arrays
        return summary_of(moments, list(counts), sample, int(np.prod(part.shape)))
    return np.asarray(arrays[0]).astype(part.dtype, copy=False)
