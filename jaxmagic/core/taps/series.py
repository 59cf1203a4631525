"""The events of one name: as arrays for Python, and as the record that is shown and saved."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from jaxmagic.core.taps.batches import Batch, Name, in_order, names_keys
from jaxmagic.core.taps.masks import running
from jaxmagic.core.taps.summaries import Reduced, combine, summarize, summarize_each
from jaxmagic.records import Summary, TapEvent, TapSeries

Column = tuple[Batch, int]
"""Events, and which of their values is meant."""


class Series:
    """All events of one name that were kept.

    Attributes:
        name: Name, function, span and aval of what was tapped.
        total: how many events came; `len(series)` of them were kept.
    """

    def __init__(self, name: Name, kept: Sequence[Batch], total: int, cost: tuple[int, float], began: float) -> None:
        self.name = name
        self.total = total
        self._began = began
        self._columns = [(_present(batch, column), column) for batch in kept for column in batch.columns_of(name)]
        numbers = [in_order(batch.numbers, column) for batch, column in self._columns]
        self._order = np.argsort(np.concatenate([np.zeros(0, int), *numbers]), kind="stable")
        self._bytes, self._host_s = cost

    def __len__(self) -> int:
        return len(self._order)

    def __repr__(self) -> str:
        return f"<{self.name.function}.{self.name.name}: {self.total} events, {len(self)} kept>"

    @property
    def steps(self) -> np.ndarray:
        """`int[n]`: which event of the series each kept one is, from 0."""
        steps = [batch.steps[:, column] for batch, column in self._columns]
        return np.concatenate([np.zeros(0, int), *steps])[self._order]

    @property
    def loops(self) -> list[tuple[int, ...]]:
        """For each kept event the iteration of each loop around it, outermost first."""
        return self._ordered([tuple(loop) for batch, _ in self._columns for loop in batch.parcels.loops.tolist()])

    @property
    def values(self) -> Any:
        """The kept values: `[n, *lanes, *shape]`, or a list of arrays where their shapes differ.

        Raises:
            ValueError: they were reduced on the device; `summaries` has what came ashore.
        """
        arrays = [batch.parcels.values[column] for batch, column in self._columns]
        whole = [array for array in arrays if not isinstance(array, Reduced)]
        if len(whole) < len(arrays):
            raise ValueError(f"{self.name.name} {self.name.aval} was reduced on the device; ask for values to keep it")
        if len({array.shape[1:] for array in whole}) == 1:
            return np.concatenate(whole)[self._order]
        return self._ordered([value for array in whole for value in array])

    @cached_property
    def summaries(self) -> list[Summary | None]:
        """Statistics of each kept event; None for what has no numbers in it."""
        return self._ordered([summary for column in self._columns for summary in _summaries(column)])

    @property
    def summary(self) -> Summary:
        """Statistics of all kept events together."""
        return combine([summary for summary in self.summaries if summary is not None])

    def to_dataframe(self) -> Any:
        """A pandas DataFrame, one row per kept event.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd

        rows = [
            {"step": e.step, "loop": e.loop, "time": e.time, "device": e.device, **_columns(e)}
            for e in self.events(lambda count: np.ones(count, bool))
        ]
        return pd.DataFrame(rows)

    def record(self, elements: int) -> TapSeries:
        """The record of this series, with the values of as many evenly spaced events as hold `elements` numbers."""
        stride = max(1, -(-len(self) * self.size // max(1, elements)))
        # The last event is the one that is looked at first.
        return self.recorded(lambda count: (np.arange(count)[::-1] % stride == 0) & (self.size <= elements))

    def recorded(self, whole: Callable[[int], np.ndarray]) -> TapSeries:
        """The record of this series; `whole` says for each of so many kept events whether its value goes into it."""
        events = self.events(whole)
        return TapSeries(
            name=self.name.name,
            function=self.name.function,
            span=self.name.span,
            aval=self.name.aval,
            gradient=self.name.gradient,
            events=tuple(events),
            total=self.total,
            dropped=self.total - len(events),
            transport="; ".join(dict.fromkeys(batch.delivery.way for batch, _ in self._columns)),
            bytes=self._bytes,
            host_s=self._host_s,
        )

    @property
    def size(self) -> int:
        """Numbers in the largest kept value."""
        parts = [batch.delivery.parts[column] for batch, column in self._columns]
        return max(1, *(int(np.prod(part.shape)) for part in parts if not part.reduced), 1)

    def events(self, whole: Callable[[int], np.ndarray]) -> list[TapEvent]:
        """The records of the kept events; see `recorded`."""
        wanted = np.zeros(len(self), bool)
        wanted[self._order] = whole(len(self))
        found, begin = [], 0
        for column in self._columns:
            end = begin + len(column[0])
            found += _events(column, wanted[begin:end], self._began)
            begin = end
        return self._ordered(found)

    def _ordered(self, items: list[Any]) -> list[Any]:
        return [items[position] for position in self._order]


def _present(batch: Batch, column: int) -> Batch:
    """Without the events where the gate did not hold for this value."""
    there = batch.steps[:, column] >= 0
    return batch if there.all() else batch[np.flatnonzero(there)]


def _events(column: Column, whole: np.ndarray, began: float) -> list[TapEvent]:
    batch, index = column
    parcels, part, count = batch.parcels, batch.delivery.parts[index], len(batch)
    devices = [None] * count if parcels.devices is None else parcels.devices.tolist()
    lanes = part.shape[: sum(part.lanes)]
    columns = zip(
        batch.numbers.tolist(),
        batch.steps[:, index].tolist(),
        map(tuple, parcels.loops.tolist()),
        [lanes] * count,
        devices,
        (batch.times - began).tolist(),
        _summaries(column),
        _plain_values(column, whole),
        _active(column),
        batch.alerts[:, index].tolist(),
        strict=True,
    )
    return [TapEvent(*fields) for fields in columns]


def _summaries(column: Column) -> list[Summary | None]:
    """Of the lanes that are running: what the others hold is not used."""
    batch, index = column
    value = batch.parcels.values[index]
    if names_keys(batch.names[index]):
        return [None] * len(batch)
    if isinstance(value, Reduced):
        return [*value.summaries()]
    found = summarize_each(value)
    for event, lanes in enumerate(_active(column)):
        if lanes:
            found[event] = summarize(value[event].reshape(len(lanes), -1)[np.array(lanes)])
    return found


def _plain_values(column: Column, whole: np.ndarray) -> list[Any]:
    """For each event its value if it is wanted `whole` and was not reduced, else None."""
    batch, index = column
    value = batch.parcels.values[index]
    found: list[Any] = [None] * len(batch)
    if not isinstance(value, Reduced) and whole.any():
        for position, each in zip(np.flatnonzero(whole).tolist(), plain(value[whole]), strict=True):
            found[position] = each
    return found


def plain(value: np.ndarray) -> Any:
    """A value as nested lists that JSON can hold; see `TapEvent.value`."""
    if value.dtype.kind == "c":
        value = np.stack([np.real(value), np.imag(value)], axis=-1)
    if value.dtype.kind not in "biu":
        value = value.astype(np.float64)
        if not np.isfinite(value).all():
            return _spelled(value.tolist())
    return value.tolist()


def _spelled(value: Any) -> Any:
    if isinstance(value, list):
        return [_spelled(part) for part in value]
    return value if math.isfinite(value) else str(value)


def _active(column: Column) -> list[tuple[bool, ...]]:
    """Where all of the masks hold, over all lanes of a value; empty where they hold everywhere."""
    batch, index = column
    part, masks = batch.delivery.parts[index], batch.parcels.active
    lanes = part.shape[: sum(part.lanes)]
    if not masks or not lanes:
        return [()] * len(batch)
    # The counters of lanes that end apart have all of the vmapped axes, and come after the masks.
    axes = [*batch.delivery.active, *[(True,) * len(part.lanes)] * (len(masks) - len(batch.delivery.active))]
    known = [(mask, (True, *has)) for mask, has in zip(masks, axes, strict=True) if mask.ndim == 1 + sum(has)]
    if not known:
        return [()] * len(batch)
    active = running((True, *part.lanes), *zip(*known, strict=True))
    flat = np.broadcast_to(active, (len(batch), *lanes)).reshape(len(batch), -1)
    return [() if all(each) else tuple(each) for each in flat.tolist()]


def _columns(event: TapEvent) -> dict[str, Any]:
    if isinstance(event.value, int | float | bool | str):
        return {"value": float(event.value)}
    statistics = event.summary
    return {k: getattr(statistics, k) for k in ("min", "max", "mean", "std", "nan")} if statistics else {}
