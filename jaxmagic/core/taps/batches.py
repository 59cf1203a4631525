"""Events of one tap that came together, as columns: what is kept, and decoded only where somebody looks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from jaxmagic.core.taps.delivery import Delivery, Parcels
from jaxmagic.records import Aval, Span

_MOST_VALUES = 2**16
"""In one event."""

Raw = tuple[bytes, ...]
"""The bytes of each array of one delivery."""


class Name(NamedTuple):
    """What a series is of."""

    name: str
    """A variable and the path into it: `loss`, `params['w1']`; `return` for what the function returned."""
    function: str
    span: Span | None
    aval: Aval
    gradient: bool = False


def names_keys(name: Name) -> bool:
    """Whether it is of random keys, whose bits are no numbers to take a mean of."""
    return name.aval.dtype.startswith("key<")


@dataclass(frozen=True, eq=False)
class Batch:
    """`n` events of one tap, all laid out alike."""

    names: tuple[Name, ...]
    """Of the values in each event; a line that ran several times in a frame is there several times."""
    delivery: Delivery
    numbers: np.ndarray
    """`int[n]`: order of arrival among all events of the run."""
    times: np.ndarray
    """`float[n]`: seconds on the clock of `time.perf_counter`."""
    steps: np.ndarray
    """`int[n, values]`: which event of its series each value is; -1 where the gate did not hold for it."""
    arrays: tuple[np.ndarray, ...]
    """As they were sent, with the events in front."""
    alerts: np.ndarray
    """`bool[n, values]`"""

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, events: np.ndarray) -> "Batch":
        """A copy of the events at these indices."""
        return replace(
            self,
            numbers=self.numbers[events],
            times=self.times[events],
            steps=self.steps[events],
            arrays=tuple(array[events] for array in self.arrays),
            alerts=self.alerts[events],
        )

    @cached_property
    def parcels(self) -> Parcels:
        return self.delivery.read(self.arrays)

    @property
    def alerting(self) -> np.ndarray:
        """`bool[n]`"""
        return np.any(self.alerts, axis=1)

    def columns_of(self, name: Name) -> list[int]:
        return [column for column, each in enumerate(self.names) if each == name]


def in_order(numbers: np.ndarray, column: int) -> np.ndarray:
    """Numbers by which the values of all events can be sorted: by arrival, then as they stand in their event."""
    return numbers * _MOST_VALUES + column


def gathered(delivery: Delivery, raws: Sequence[Raw]) -> tuple[np.ndarray, ...]:
    """The arrays of many deliveries, each `[len(raws), *shape]`."""
    return tuple(
        _stacked(parts, (len(raws), *shape), dtype)
        for parts, (shape, dtype) in zip(zip(*raws, strict=True), delivery.sent, strict=True)
    )


def merged(batches: Iterable[Batch]) -> list[Batch]:
    """The same events in as few batches as there are layouts."""
    alike: dict[Delivery, list[Batch]] = {}
    for batch in batches:
        alike.setdefault(batch.delivery, []).append(batch)
    return [_joined(each) if len(each) > 1 else each[0] for each in alike.values()]


def _joined(batches: list[Batch]) -> Batch:
    return replace(
        batches[0],
        numbers=np.concatenate([batch.numbers for batch in batches]),
        times=np.concatenate([batch.times for batch in batches]),
        steps=np.concatenate([batch.steps for batch in batches]),
        arrays=tuple(map(np.concatenate, zip(*[batch.arrays for batch in batches], strict=True))),
        alerts=np.concatenate([batch.alerts for batch in batches]),
    )


def _stacked(parts: Sequence[bytes], shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.ndarray(shape, dtype, b"".join(parts)) if 0 not in shape else np.empty(shape, dtype)
