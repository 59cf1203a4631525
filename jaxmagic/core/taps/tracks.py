"""The deliveries of one tap: sorted in batches, numbered, kept within bounds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from jaxmagic.core.taps.batches import Batch, Name, Raw, gathered, in_order, merged
from jaxmagic.core.taps.delivery import Delivery, Site
from jaxmagic.core.taps.keeping import Keeper
from jaxmagic.core.taps.series import Series


@dataclass(frozen=True)
class Keep:
    """What to keep of each series."""

    first: int = 64
    last: int = 64
    spaced: int = 4096
    every: int = 1
    bytes: int = 64 * 2**20
    """Of all values together; beyond it the largest series are thinned out."""


@dataclass(frozen=True)
class About:
    """What a site's tap sends: names in the order of its values, and which of its conditions is which."""

    names: tuple[Name, ...]
    alert: int | None = None
    stop: int | None = None


Waiting = tuple[int, float, Raw]
"""Number, time and bytes of a delivery that nobody has looked at yet."""


class Counters:
    """How many events of each name there have been, from whichever tap."""

    def __init__(self) -> None:
        self._totals: dict[Name, int] = {}

    @property
    def names(self) -> tuple[Name, ...]:
        """In the order in which they first came."""
        return tuple(self._totals)

    def number(self, batches: Iterable[Batch]) -> None:
        """Fills in the steps of all events that came since the last time; those that are -1 stay so."""
        columns: dict[Name, list[tuple[Batch, int]]] = {}
        for batch in batches:
            for column, name in enumerate(batch.names):
                columns.setdefault(name, []).append((batch, column))
        for name, found in columns.items():
            self._number(name, found)

    def _number(self, name: Name, columns: list[tuple[Batch, int]]) -> None:
        first = self._totals.get(name, 0)
        (batch, column), *others = columns
        if not others and not batch.delivery.gated:
            self._totals[name] = first + len(batch)
            batch.steps[:, column] = np.arange(first, first + len(batch))
            return
        held = [np.flatnonzero(batch.steps[:, column] >= 0) for batch, column in columns]
        order = [in_order(batch.numbers[at], column) for (batch, column), at in zip(columns, held, strict=True)]
        steps = first + _ranks(np.concatenate(order))
        self._totals[name] = first + len(steps)
        for (batch, column), at in zip(columns, held, strict=True):
            batch.steps[at, column], steps = steps[: len(at)], steps[len(at) :]


def _ranks(keys: np.ndarray) -> np.ndarray:
    """For each key how many are less."""
    ranks = np.empty(len(keys), int)
    ranks[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    return ranks


class Track:
    """One site in one run."""

    def __init__(self, site: Site, keep: Keep) -> None:
        self.site = site
        self.about: About = site.about
        self.names: tuple[Name, ...] = self.about.names
        self.total = 0
        self.bytes = 0
        self._totals = dict.fromkeys(self.names, 0)
        self._alerting = [row for row in (self.about.alert, self.about.stop) if row is not None]
        self._keep = keep
        self._keeper: Keeper[Batch] | None = None
        self._size = 0

    @property
    def kept_bytes(self) -> int:
        return len(self._keeper) * self._size if self._keeper else 0

    def batch(self, delivery: Delivery, waiting: Sequence[Waiting]) -> Batch:
        """What was asked for of these deliveries, all laid out alike; its steps are still to be numbered."""
        numbers, times, raws = zip(*waiting, strict=True)
        batch = Batch(
            names=self.names,
            delivery=delivery,
            numbers=np.array(numbers),
            times=np.array(times),
            steps=np.zeros((len(waiting), len(self.names)), int),
            arrays=gathered(delivery, raws),
            alerts=np.zeros((len(waiting), len(self.names)), bool),
        )
        self.bytes += delivery.bytes * len(batch)
        return self._marked(batch) if delivery.conditions else batch

    def keep(self, batch: Batch) -> None:
        """Takes in the events, once their steps are numbered, and keeps some of them."""
        self.total += len(batch)
        for name, came in zip(self.names, (batch.steps >= 0).sum(axis=0).tolist(), strict=True):
            self._totals[name] += came
        self._keeper = self._keeper or self._sized(batch.delivery.bytes)
        self._keeper.extend(batch, batch.alerting)

    def thin(self) -> bool:
        return self._keeper is not None and self._keeper.thin()

    def kept(self) -> list[Batch]:
        return merged(self._keeper.kept()) if self._keeper else []

    def total_of(self, name: Name) -> int:
        return self._totals[name]

    def _marked(self, batch: Batch) -> Batch:
        """With the answers to the conditions, and without the events that the gate does not hold for after all."""
        marks = batch.parcels.marks
        alerts = marks[:, self._alerting].any(axis=1)
        if not batch.delivery.gated:
            return replace(batch, alerts=alerts)
        held = marks[:, -1]
        marked = replace(batch, alerts=alerts, steps=np.where(held, 0, -1))
        return marked[np.flatnonzero(held.any(axis=1))]

    def _sized(self, size: int) -> Keeper[Batch]:
        """What is kept from the ends is cut where values are so large that it would be most of the budget."""
        self._size = size
        fits = max(1, self._keep.bytes // 8 // max(1, size))
        return Keeper(min(self._keep.first, fits), min(self._keep.last, fits), self._keep.spaced, self._keep.every)


class Source(Protocol):
    """Whatever has events of some names: a track, or a ring that was read."""

    @property
    def names(self) -> tuple[Name, ...]: ...

    @property
    def total(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    def kept(self) -> list[Batch]: ...

    def total_of(self, name: Name) -> int: ...


def all_series(sources: Sequence[Source], names: Iterable[Name], each_s: float, began: float) -> tuple[Series, ...]:
    """One series for each name, from all taps that feed it; each event took the host `each_s` seconds."""
    kept = [(source, source.kept()) for source in sources]
    found = (_series_of(name, kept, each_s, began) for name in names)
    return tuple(series for series in found if series.total)


def _series_of(name: Name, kept: Sequence[tuple[Source, list[Batch]]], each_s: float, began: float) -> Series:
    feeding = [(source, batches) for source, batches in kept if name in source.names]
    total, size, seconds = 0, 0, 0.0
    for source, _ in feeding:
        share = source.names.count(name) / len(source.names)
        total += source.total_of(name)
        size += int(source.bytes * share)
        seconds += each_s * source.total * share
    return Series(name, [batch for _, batches in feeding for batch in batches], total, (size, seconds), began)
