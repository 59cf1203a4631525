"""News of tapped values while the cell runs: a few times a second, a bounded amount, the newest first to be kept."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from jaxmagic.core.limits import Limits
from jaxmagic.core.taps.series import Arrival, Name
from jaxmagic.records import Live, Source, TapEvent, TapSeries

PAUSE = 0.1
"""Seconds between two messages."""

MOST_WAITING = 2_000
"""Deliveries held between two messages; older ones are dropped and counted."""

MOST_EVENTS = 300
"""Events of one series in a message, evenly spaced if there were more."""

MOST_ELEMENTS = 4_096
"""Of the newest value of each series, which is sent whole up to this size."""

MOST_SERIES = 200

SOURCES_AGAIN = 2.0
"""Seconds after which texts are sent once more, to a panel that was not there when they first were."""


class Tapped(Protocol):
    """Where the values come from."""

    def on_event(self, sink: Callable[[Arrival], None]) -> None: ...
    def flush(self) -> None: ...
    def sources_of(self, files: Iterable[str]) -> tuple[Source, ...]: ...


class LiveFeed:
    """Tells what came, from a thread of its own, between `start` and `stop`."""

    def __init__(self, source: Tapped, tell: Callable[[Live], None], limits: Limits) -> None:
        self._source = source
        self._files: set[str] = set()
        self._sources_sent = 0.0
        self._tell = tell
        self._limits = limits
        self._waiting: deque[Arrival] = deque(maxlen=MOST_WAITING)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jaxmagic live", daemon=True)
        self._began = 0.0

    def start(self) -> None:
        self._began = time.perf_counter()
        self._source.on_event(self._waiting.append)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; the final report is what is shown after it."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(PAUSE):
            with self._limits.guard("values while the cell runs"):
                self._source.flush()
                news = self._news()
                if news:
                    self._tell(Live(news, time.perf_counter() - self._began, self._new_sources(news)))

    def _news(self) -> tuple[TapSeries, ...]:
        arrived = [self._waiting.popleft() for _ in range(len(self._waiting))]
        by_name: dict[Name, list[tuple[Arrival, int]]] = {}
        for arrival in arrived:
            for index, name in enumerate(arrival.names):
                if arrival.steps[index] >= 0:
                    by_name.setdefault(name, []).append((arrival, index))
        return tuple(self._series(name, found) for name, found in list(by_name.items())[:MOST_SERIES])

    def _new_sources(self, news: tuple[TapSeries, ...]) -> tuple[Source, ...]:
        now = time.perf_counter()
        if now - self._sources_sent > SOURCES_AGAIN:
            self._sources_sent = now
            self._files.clear()
        files = {series.span.file for series in news if series.span is not None} - self._files
        self._files |= files
        return self._source.sources_of(files)

    def _series(self, name: Name, found: list[tuple[Arrival, int]]) -> TapSeries:
        stride = -(-len(found) // MOST_EVENTS)
        kept = found[len(found) - 1 :: -stride][::-1]
        events = [self._event(arrival, index, newest=arrival is kept[-1][0]) for arrival, index in kept]
        total = found[-1][0].steps[found[-1][1]] + 1
        return TapSeries(
            name=name.name,
            function=name.function,
            span=name.span,
            aval=name.aval,
            gradient=name.gradient,
            events=tuple(events),
            total=total,
            transport=found[-1][0].delivery.way,
            bytes=total * found[-1][0].delivery.bytes,
        )

    def _event(self, arrival: Arrival, index: int, *, newest: bool) -> TapEvent:
        part = arrival.delivery.parts[index]
        size = 1
        for length in part.shape:
            size *= length
        return arrival.event(index, began=self._began, whole=size == 1 or (newest and size <= MOST_ELEMENTS))
