"""The deliveries of one tap: counted as they come, sorted in batches, kept within bounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import numpy as np

from jaxmagic.core.taps.delivery import Delivery, Site
from jaxmagic.core.taps.keeping import Keeper
from jaxmagic.core.taps.series import Arrival, Name, Series

Raw = tuple[int, float, tuple[int, ...], Delivery, tuple[np.ndarray, ...], tuple[bool, ...]]
"""Number, time, steps, layout, arrays and alerts of an event: what an `Arrival` is made of where one is looked at."""


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


class Track:
    """One site in one run."""

    def __init__(self, site: Site, keep: Keep, counters: dict[Name, count]) -> None:
        self.site = site
        self.about: About = site.about
        self.names: tuple[Name, ...] = self.about.names
        self.total = 0
        self.bytes = 0
        self._counters = [counters.setdefault(name, count()) for name in self.names]
        self._chosen = dict.fromkeys(self.names, 0)
        """Events of each name, where the gate chooses among them."""
        self._alerting = [row for row in (self.about.alert, self.about.stop) if row is not None]
        self._waiting: list[Raw] = []
        self._keep = keep
        self._keeper: Keeper[Raw] | None = None
        self._size = 0

    @property
    def kept_bytes(self) -> int:
        return len(self._keeper) * self._size if self._keeper else 0

    def wait(self, now: float, delivery: Delivery, arrays: Sequence[np.ndarray], numbers: count) -> int:
        """Takes a delivery without looking at it; returns how many wait. The program waits as well: be quick."""
        steps = () if delivery.gated else tuple(map(next, self._counters))
        self._waiting.append((next(numbers), now, steps, delivery, tuple([array.copy() for array in arrays]), ()))
        return len(self._waiting)

    def sort_in(self) -> list[Raw]:
        """Decides what of the waiting to keep, and returns all of it that was asked for."""
        # Deliveries come meanwhile, on other threads: a list put in the place of this one would lose theirs.
        waiting = self._waiting[:]
        del self._waiting[: len(waiting)]
        if not waiting:
            return []
        self.bytes += sum([raw[3].bytes for raw in waiting])
        if self.site.gate or self.site.marks:
            waiting = [marked for raw in waiting if (marked := self._marked(*raw))[2]]
        self.total += len(waiting)
        self._keeper = self._keeper or self._sized(waiting[0][3].bytes if waiting else 0)
        self._keeper.extend(waiting)
        return waiting

    def arrival(self, raw: Raw) -> Arrival:
        return Arrival(self.names, *raw)

    def thin(self) -> bool:
        return self._keeper is not None and self._keeper.thin()

    def kept(self, name: Name) -> list[tuple[Arrival, int]]:
        """The kept events of one name, each with the index of its value."""
        index = self.names.index(name)
        events = self._keeper.events() if self._keeper else []
        return [(self.arrival(raw), index) for raw in events if raw[2][index] >= 0]

    def total_of(self, name: Name) -> int:
        return self._chosen[name] if self.site.gate else self.total

    def _marked(self, number: int, now: float, steps: Any, delivery: Delivery, arrays: Any, _: Any) -> Raw:
        """The event with the answers to its conditions; without steps where the gate did not hold after all."""
        marks = delivery.marks_of(arrays)
        if delivery.gated:
            steps = self._gated(marks[-1])
        alerts = tuple(map(bool, np.any(marks[self._alerting], axis=0))) if self._alerting else ()
        return number, now, steps, delivery, arrays, alerts

    def _gated(self, held: np.ndarray) -> tuple[int, ...]:
        """Steps of the values that the gate holds for, -1 for the others; empty if it holds for none after all."""
        if not held.any():
            return ()
        for name, hit in zip(self.names, held, strict=True):
            self._chosen[name] += bool(hit)
        return tuple([next(each) if hit else -1 for each, hit in zip(self._counters, held, strict=True)])

    def _sized(self, size: int) -> Keeper[Raw]:
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

    def kept(self, name: Name) -> list[tuple[Arrival, int]]: ...

    def total_of(self, name: Name) -> int: ...


def series_of(name: Name, tracks: Sequence[Source], each_s: float, began: float) -> Series:
    """The series of one name from all taps that feed it; each event took the host `each_s` seconds."""
    tracks = [track for track in tracks if name in track.names]
    kept = [each for track in tracks for each in track.kept(name)]
    total = sum(track.total_of(name) for track in tracks)
    size = sum(track.bytes // len(track.names) for track in tracks)
    seconds = sum(each_s * track.total / len(track.names) for track in tracks)
    return Series(name, kept, total, (size, seconds), began)
