"""Receives what taps send, on whatever thread: counts it, keeps some of it, passes it on, stops the program."""

import threading
import time
from collections.abc import Callable, Sequence
from itertools import count

import numpy as np

from jaxmagic.core.limits import Limits
from jaxmagic.core.taps.batches import Batch, Name
from jaxmagic.core.taps.delivery import Delivery, Site, TapStopped
from jaxmagic.core.taps.interrupts import Interrupts
from jaxmagic.core.taps.series import Series
from jaxmagic.core.taps.summaries import Reduced
from jaxmagic.core.taps.tracks import About, Counters, Keep, Source, Track, Waiting, all_series
from jaxmagic.records import Frame, Summary

_PAUSE = 0.02
"""Seconds that events may wait in the inbox, and between two looks for an interrupt."""

_runs: list["Intake"] = []


def receive(site: Site, delivery: Delivery, arrays: Sequence[np.ndarray]) -> None:
    """Hands a delivery to the run that is current, which need not be the one whose tap it was; else drops it."""
    if _runs:
        _runs[-1].take(site, delivery, arrays)


def receive_unkept(site: Site, delivery: Delivery, arrays: Sequence[np.ndarray]) -> None:
    """Tells the current run that something came for which the gate held, and keeps nothing of it."""
    if _runs:
        _runs[-1].note(delivery, arrays)


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
        self._waiting: dict[tuple[Site, Delivery], list[Waiting]] = {}
        self._numbers = count()
        self._tracks: dict[Site, Track | None] = {}
        self._counters = Counters()
        self._host_s = 0.0
        self.began = 0.0
        self._next = 0.0
        self._sinks: list[Callable[[Batch], None]] = []
        self._interrupts = Interrupts()

    def start(self) -> None:
        """Makes this the current run."""
        self.began = time.perf_counter()
        self._interrupts.start()
        _runs.append(self)

    def is_current(self) -> bool:
        """Whether deliveries come here, not to a run that began later and has not ended."""
        return bool(_runs) and _runs[-1] is self

    def stop(self) -> None:
        """Takes in what still waits; later deliveries go to whoever is current then."""
        if self in _runs:
            _runs.remove(self)
            self._interrupts.stop()
            self.flush()

    def on_events(self, sink: Callable[[Batch], None]) -> None:
        """Has all that comes handed to `sink`, on the thread where it came; whatever it raises is noted."""
        self._sinks.append(sink)

    def take(self, site: Site, delivery: Delivery, arrays: Sequence[np.ndarray]) -> None:
        """Receives one delivery.

        The program waits meanwhile, so only the bytes are kept; all else is done later, for many at once.

        Raises:
            TapStopped: the condition to stop on holds.
            KeyboardInterrupt: Ctrl-C came while the program ran.
        """
        now = time.perf_counter()
        self.note(delivery, arrays)
        waiting = self._waiting.get((site, delivery)) or self._waiting.setdefault((site, delivery), [])
        waiting.append((next(self._numbers), now, tuple([array.tobytes() for array in arrays])))
        if now > self._next or len(waiting) >= delivery.most_waiting:
            self._attend(now)
        if delivery.conditions and self._must_stop(site, delivery, arrays):
            self.flush()
            if self.stopped is not None:
                raise self.stopped
        self._host_s += time.perf_counter() - now

    def note(self, delivery: Delivery, arrays: Sequence[np.ndarray]) -> None:
        if delivery.gated and delivery.marks_of(arrays)[-1].any():
            self.held += 1

    def flush(self) -> None:
        """Sorts in what waits, and passes it on. Live views call it, lest the last events of a burst be late."""
        with self._lock:
            batches = self._sort_in()
            if sum(track.kept_bytes for track in self._all()) > self._keep.bytes:
                self._save_memory()
        for batch in batches:
            for sink in self._sinks:
                with self._limits.guard("a consumer of tapped values"):
                    sink(batch)

    def series(self, others: Sequence[Source] = ()) -> tuple[Series, ...]:
        """One for each name, in the order in which they first came; with the events of `others`."""
        self.flush()
        with self._lock:
            tracks = self._all()
            each_s = self._host_s / max(1, sum(track.total for track in tracks))
            names = dict.fromkeys([*self._counters.names, *(name for source in others for name in source.names)])
            return all_series([*tracks, *others], names, each_s, self.began)

    def _attend(self, now: float) -> None:
        try:
            if now > self._next:
                self._next = now + _PAUSE
                if self._interrupts.interrupted():
                    raise KeyboardInterrupt
            self.flush()
        except KeyboardInterrupt:
            self.interrupted = True
            raise

    def _sort_in(self) -> list[Batch]:
        found = []
        for (site, delivery), waiting in list(self._waiting.items()):
            # Deliveries come meanwhile, on other threads: a list put in the place of this one would lose theirs.
            arrived = waiting[:]
            del waiting[: len(arrived)]
            track = self._track(site)
            if arrived and track is not None:
                found.append((track, track.batch(delivery, arrived)))
        self._counters.number([batch for _, batch in found])
        for track, batch in found:
            track.keep(batch)
            self._look_for_stop(track, batch)
        return [batch for _, batch in found]

    def _all(self) -> list[Track]:
        return [track for track in list(self._tracks.values()) if track is not None]

    def _track(self, site: Site) -> Track | None:
        """Made at the first delivery of a site that sends what this run asked for."""
        if site not in self._tracks:
            about = site.about
            wanted = isinstance(about, About) and any(map(self._wants, about.names))
            self._tracks[site] = Track(site, self._keep) if wanted else None
        return self._tracks[site]

    def _save_memory(self) -> None:
        """Thins out the largest tracks until the budget is kept."""
        while sum(track.kept_bytes for track in self._all()) > self._keep.bytes:
            if not max(self._all(), key=lambda track: track.kept_bytes).thin():
                return

    @staticmethod
    def _must_stop(site: Site, delivery: Delivery, arrays: Sequence[np.ndarray]) -> bool:
        stop = site.about.stop if isinstance(site.about, About) else None
        return stop is not None and bool(delivery.marks_of(arrays)[stop].any())

    def _look_for_stop(self, track: Track, batch: Batch) -> None:
        stop = track.about.stop
        if stop is None or self.stopped is not None or not batch.alerts.any():
            return
        for event, index in np.argwhere(batch.parcels.marks[:, stop])[:1].tolist():
            self.stopped = _stopped(batch, event, index, track.site.marks[stop].text)


def _stopped(batch: Batch, event: int, index: int, condition: str) -> TapStopped:
    name = batch.names[index]
    place = Frame(name.span, name.function) if name.span else None
    return TapStopped(_message(batch, event, index, condition), place)


def _message(batch: Batch, event: int, index: int, condition: str) -> str:
    name, parcels = batch.names[index], batch.parcels
    value = parcels.values[index]
    shown = (
        _summary_text(value.summaries()[event])
        if isinstance(value, Reduced)
        else np.array2string(value[event], threshold=8, precision=6)
    )
    where = f"line {name.span.line} of {name.function}()" if name.span else f"{name.function}()"
    loop = ", ".join(map(str, parcels.loops[event]))
    gradient = "gradient of " if name.gradient else ""
    return (
        f"stopped because {condition!r} holds for {gradient}{name.name} {name.aval} at {where}, "
        f"step {batch.steps[event, index]}{loop and f', loop iteration {loop}'}: {shown}"
    )


def _summary_text(summary: Summary) -> str:
    parts = [f"{key} {getattr(summary, key)}" for key in ("nan", "posinf", "neginf") if getattr(summary, key)]
    return f"{summary.count} elements from {summary.min} to {summary.max}" + "".join(f", {part}" for part in parts)
