"""Receives what taps send, on whatever thread: counts it, keeps some of it, passes it on, stops the program."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count

import numpy as np

from jaxmagic.core.limits import Limits
from jaxmagic.core.taps.delivery import Delivery, Site, TapStopped
from jaxmagic.core.taps.interrupts import Interrupts
from jaxmagic.core.taps.series import Arrival, Name, Series
from jaxmagic.core.taps.tracks import About, Keep, Source, Track, series_of
from jaxmagic.records import Frame, Summary

_PAUSE = 0.02
"""Seconds that events may wait in the inbox, and between two looks for an interrupt."""

_MOST_WAITING = 256
"""Events of one site, or fewer where they are large."""

_MOST_WAITING_BYTES = 2**20

_runs: list["Intake"] = []


def receive(site: Site, delivery: Delivery, arrays: Sequence[np.ndarray]) -> None:
    """Hands a delivery to the run that is current, which need not be the one whose tap it was; else drops it."""
    if _runs:
        _runs[-1].take(site, delivery, arrays)


class Intake:
    """Everything that came ashore in one run."""

    def __init__(self, keep: Keep, wants: Callable[[Name], bool], limits: Limits) -> None:
        self.stopped: TapStopped | None = None
        self.interrupted = False
        self.held = 0
        """Deliveries of which the gate held, so far."""
        self._keep = keep
        self._wants = wants
        self._limits = limits
        self._lock = threading.Lock()
        self._tracks: dict[Site, Track | None] = {}
        self._counters: dict[Name, count] = {}
        self._numbers = count()
        self._host_s = 0.0
        self.began = 0.0
        self._next = 0.0
        self._sinks: list[Callable[[Arrival], None]] = []
        self._interrupts = Interrupts()

    def start(self) -> None:
        """Makes this the current run."""
        self.began = time.perf_counter()
        self._interrupts.start()
        _runs.append(self)

    def stop(self) -> None:
        """Takes in what still waits; later deliveries go to whoever is current then."""
        if self in _runs:
            _runs.remove(self)
            self._interrupts.stop()
            with suppress(TapStopped):
                self.flush()

    def on_event(self, sink: Callable[[Arrival], None]) -> None:
        """Has every arrival handed to `sink`, on the thread where it came; whatever it raises is noted."""
        self._sinks.append(sink)

    def take(self, site: Site, delivery: Delivery, arrays: Sequence[np.ndarray]) -> None:
        """Receives one delivery.

        The program waits meanwhile, so most of the work is left for later and done for many at once, which is twice
        as fast as one by one between two pieces of compiled code.

        Raises:
            TapStopped: the condition to stop on holds.
            KeyboardInterrupt: Ctrl-C came while the program ran.
        """
        now = time.perf_counter()
        if delivery.gated and delivery.marks_of(arrays)[-1].any():
            self.held += 1
        track = self._tracks.get(site) or self._track(site)
        if track is None:
            return
        waiting = track.wait(now, delivery, arrays, self._numbers)
        if now > self._next or delivery.conditions or waiting * delivery.bytes > _MOST_WAITING_BYTES:
            self._attend(now)
        elif waiting > _MOST_WAITING:
            self.flush()
        self._host_s += time.perf_counter() - now

    def flush(self) -> None:
        """Sorts in what waits, and passes it on. Live views call it, lest the last events of a burst be late."""
        with self._lock:
            arrived = [(track, track.sort_in()) for track in self._all()]
            if sum(track.kept_bytes for track in self._all()) > self._keep.bytes:
                self._save_memory()
        wanted = [
            (track, raw) for track, events in arrived if self._sinks or track.about.stop is not None for raw in events
        ]
        for track, raw in sorted(wanted, key=lambda each: each[1][0]):
            self._pass_on(track.arrival(raw), track)

    def series(self, others: Sequence[Source] = ()) -> tuple[Series, ...]:
        """One for each name, in the order in which they first came; with the events of `others`."""
        with suppress(TapStopped):
            self.flush()
        with self._lock:
            tracks = self._all()
            each_s = self._host_s / max(1, sum(track.total for track in tracks))
            names = dict.fromkeys([*self._counters, *(name for source in others for name in source.names)])
            found = (series_of(name, [*tracks, *others], each_s, self.began) for name in names)
            return tuple(series for series in found if series.total)

    def _attend(self, now: float) -> None:
        if now > self._next:
            self._next = now + _PAUSE
            if self._interrupts.interrupted():
                self.interrupted = True
                raise KeyboardInterrupt
        try:
            self.flush()
        except KeyboardInterrupt:
            self.interrupted = True
            raise

    def _all(self) -> list[Track]:
        return [track for track in list(self._tracks.values()) if track is not None]

    def _track(self, site: Site) -> Track | None:
        """Made at the first delivery of a site that sends what this run asked for."""
        with self._lock:
            if site not in self._tracks:
                about = site.about
                wanted = isinstance(about, About) and any(map(self._wants, about.names))
                self._tracks[site] = Track(site, self._keep, self._counters) if wanted else None
            return self._tracks[site]

    def _save_memory(self) -> None:
        """Thins out the largest tracks until the budget is kept."""
        while sum(track.kept_bytes for track in self._all()) > self._keep.bytes:
            if not max(self._all(), key=lambda track: track.kept_bytes).thin():
                return

    def _pass_on(self, arrival: Arrival, track: Track) -> None:
        for sink in self._sinks:
            with self._limits.guard("a consumer of tapped values"):
                sink(arrival)
        if track.about.stop is not None and any(arrival.alerts) and self.stopped is None:
            marks = arrival.delivery.marks_of(arrival.arrays)[track.about.stop]
            for index in np.flatnonzero(marks):
                condition = track.site.marks[track.about.stop].text
                self.stopped = _stopped(arrival, int(index), condition)
                raise self.stopped


def _stopped(arrival: Arrival, index: int, condition: str) -> TapStopped:
    name = arrival.names[index]
    place = Frame(name.span, name.function) if name.span else None
    return TapStopped(_message(arrival, index, condition), place)


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
