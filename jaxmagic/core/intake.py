"""Receives what taps send, on whatever thread: counts it, keeps some of it, passes it on, stops the program."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from jaxmagic.core.delivery import Delivery, Site, TapStopped
from jaxmagic.core.interrupts import Interrupts
from jaxmagic.core.keeping import Keeper
from jaxmagic.core.limits import Limits
from jaxmagic.core.series import Arrival, Name, Series
from jaxmagic.records import Summary

_runs: list["Intake"] = []


def receive(site: Site, delivery: Delivery, arrays: Sequence[np.ndarray]) -> None:
    """Hands a delivery to the run that is current, which need not be the one whose tap it was; else drops it."""
    if _runs:
        _runs[-1].take(site, delivery, arrays)


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


class Intake:
    """Everything that came ashore in one run."""

    def __init__(self, keep: Keep, wants: Callable[[Name], bool], limits: Limits) -> None:
        self.stopped: TapStopped | None = None
        self.interrupted = False
        self._keep = keep
        self._wants = wants
        self._limits = limits
        self._lock = threading.Lock()
        self._tracks: dict[Site, _Track | None] = {}
        self._counters: dict[Name, _Counter] = {}
        self._numbers = count()
        self._unchecked = 0
        self._began = 0.0
        self._sinks: list[Callable[[Arrival], None]] = []
        self._interrupts = Interrupts()

    def start(self) -> None:
        """Makes this the current run."""
        self._began = time.perf_counter()
        self._interrupts.start()
        _runs.append(self)

    def stop(self) -> None:
        if self in _runs:
            _runs.remove(self)
            self._interrupts.stop()

    def on_event(self, sink: Callable[[Arrival], None]) -> None:
        """Has every arrival handed to `sink`, on the thread where it came; whatever it raises is noted."""
        self._sinks.append(sink)

    def take(self, site: Site, delivery: Delivery, arrays: Sequence[np.ndarray]) -> None:
        """Receives one delivery.

        Raises:
            TapStopped: the condition to stop on holds.
            KeyboardInterrupt: Ctrl-C came while the program ran.
        """
        begun = time.perf_counter()
        try:
            self._look_for_interrupt()
            with self._lock:
                arrival, track = self._record(site, delivery, arrays, begun)
            if arrival is not None:
                self._pass_on(arrival)
                self._stop_if_asked(arrival, track)
        except KeyboardInterrupt:
            self.interrupted = True
            raise
        finally:
            track = self._tracks.get(site)
            if track is not None:
                track.host_s += time.perf_counter() - begun

    def series(self) -> tuple[Series, ...]:
        """One for each name, in the order in which they first came."""
        with self._lock:
            tracks = [track for track in self._tracks.values() if track is not None]
            kept: dict[Name, list[tuple[Arrival, int]]] = {name: [] for name in self._counters}
            cost = {name: [0, 0.0] for name in self._counters}
            for track in tracks:
                for arrival in track.keeper.events():
                    for index, name in enumerate(arrival.names):
                        if arrival.steps[index] >= 0:
                            kept[name].append((arrival, index))
                for name in track.names:
                    cost[name][0] += track.bytes // len(track.names)
                    cost[name][1] += track.host_s / len(track.names)
            return tuple(
                Series(name, kept[name], counter.count, (int(cost[name][0]), cost[name][1]))
                for name, counter in self._counters.items()
                if counter.count
            )

    def _record(
        self, site: Site, delivery: Delivery, arrays: Sequence[np.ndarray], now: float
    ) -> tuple[Arrival | None, "_Track | None"]:
        track = self._tracks.get(site) or self._track(site, delivery.bytes)
        if track is None:
            return None, None
        track.bytes += delivery.bytes
        alerts: tuple[bool, ...] = ()
        if delivery.conditions:
            held, alerts = track.read_marks(delivery, arrays)
            if not any(held):  # the cheap test in the program was too anxious
                return None, None
            steps = tuple([next(each) if hit else -1 for each, hit in zip(track.counters, held, strict=True)])
        else:
            steps = tuple([next(each) for each in track.counters])
        if not (track.keeper.wants() or any(alerts)):
            track.keeper.skip()
            return None, track
        copies = tuple([np.array(array) for array in arrays])
        arrival = Arrival(next(self._numbers), now - self._began, track.names, steps, delivery, copies, alerts)
        track.keeper.add(arrival)
        self._save_memory(delivery.bytes)
        return arrival, track

    def _track(self, site: Site, size: int) -> "_Track | None":
        if site in self._tracks:
            return None
        about = site.about
        wanted = isinstance(about, About) and any(map(self._wants, about.names))
        track = self._tracks[site] = _Track(site, self._keep, size, self._counters) if wanted else None
        return track

    def _save_memory(self, size: int) -> None:
        """Thins out the largest tracks, looking only once an eighth of the budget has come in."""
        self._unchecked += size
        if self._unchecked < self._keep.bytes // 8:
            return
        self._unchecked = 0
        tracks = [track for track in self._tracks.values() if track is not None]
        while sum(track.kept_bytes for track in tracks) > self._keep.bytes:
            largest = max(tracks, key=lambda track: track.kept_bytes)
            if not largest.keeper.thin():
                return

    def _pass_on(self, arrival: Arrival) -> None:
        for sink in self._sinks:
            with self._limits.guard("a consumer of tapped values"):
                sink(arrival)

    def _stop_if_asked(self, arrival: Arrival, track: "_Track | None") -> None:
        if track is None or track.about.stop is None or not any(arrival.alerts):
            return
        marks = arrival.delivery.marks_of(arrival.arrays)[track.about.stop]
        for index in np.flatnonzero(marks):
            condition = track.site.marks[track.about.stop].text
            self.stopped = TapStopped(_message(arrival, int(index), condition))
            raise self.stopped

    def _look_for_interrupt(self) -> None:
        if self._interrupts.due() and self._interrupts.interrupted():
            raise KeyboardInterrupt


class _Counter:
    """Counts the events of a series; iterating it is one step."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def __next__(self) -> int:
        self.count += 1
        return self.count - 1


class _Track:
    """The deliveries of one site."""

    def __init__(self, site: Site, keep: Keep, size: int, counters: dict[Name, _Counter]) -> None:
        self.site = site
        self.about: About = site.about
        self.names = self.about.names
        self.counters = [counters.setdefault(name, _Counter()) for name in self.names]
        fits = max(1, keep.bytes // 8 // max(1, size))
        self.keeper: Keeper[Arrival] = Keeper(min(keep.first, fits), min(keep.last, fits), keep.spaced, keep.every)
        self.bytes = 0
        self.host_s = 0.0
        self._size = size

    @property
    def kept_bytes(self) -> int:
        return len(self.keeper) * self._size

    def read_marks(self, delivery: Delivery, arrays: Sequence[np.ndarray]) -> tuple[Sequence[bool], tuple[bool, ...]]:
        """For each value whether it was asked for, and whether it is worth an alert."""
        marks = delivery.marks_of(arrays)
        held = marks[-1] if delivery.gated else np.ones(len(self.names), bool)
        rows = [row for row in (self.about.alert, self.about.stop) if row is not None]
        alerts: list[bool] = list(np.any(marks[rows], axis=0)) if rows else []
        return held.tolist(), tuple(map(bool, alerts))


def _message(arrival: Arrival, index: int, condition: str) -> str:
    name, parcel = arrival.names[index], arrival.read()
    value = parcel.values[index]
    shown = _summary_text(value) if isinstance(value, Summary) else np.array2string(value, threshold=8, precision=6)
    where = f"line {name.span.line} of {name.function}()" if name.span else f"{name.function}()"
    loop = f", loop iteration {', '.join(map(str, parcel.loop))}" if parcel.loop else ""
    gradient = "gradient of " if name.gradient else ""
    return (
        f"stopped because {condition!r} holds for {gradient}{name.name} {name.aval} at {where}, "
        f"step {arrival.steps[index]}{loop}: {shown}"
    )


def _summary_text(summary: Summary) -> str:
    parts = [f"{key} {getattr(summary, key)}" for key in ("nan", "posinf", "neginf") if getattr(summary, key)]
    return f"{summary.count} elements from {summary.min} to {summary.max}" + "".join(f", {part}" for part in parts)
