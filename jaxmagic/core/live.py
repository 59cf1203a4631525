"""News of tapped values while the cell runs: some times a second, a bounded amount, evenly spread over what came."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec
import numpy as np

from jaxmagic.core.limits import Limits
from jaxmagic.core.taps.batches import Batch, Name, merged
from jaxmagic.core.taps.keeping import Keeper
from jaxmagic.core.taps.series import Series
from jaxmagic.records import Live, Source, TapSeries

PAUSE = 0.05
"""Seconds between two messages."""

MOST_BYTES = 900_000
"""In a second, of messages as JSON: Jupyter's server drops what goes beyond a million. Larger ones come less often."""

MOST_EVENTS = 120
"""Events in a message, of all series together; evenly spaced if there were more."""

MOST_ALERTS = 10
"""Of one frame's values in a message, besides those events."""

MOST_ELEMENTS = 2_048
"""Of the newest values in a message, of all series together; a value is sent whole if it fits its share."""

MOST_SERIES = 200

SOURCES_AGAIN = 2.0
"""Seconds after which texts are sent once more, to a panel that was not there when they first were."""


class Tapped(Protocol):
    """Where the values come from."""

    def on_events(self, sink: Callable[[Batch], None]) -> None: ...
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
        self._lock = threading.Lock()
        self._waiting: dict[tuple[Name, ...], Keeper[Batch]] = {}
        self._share = MOST_EVENTS
        self._came = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jaxmagic live", daemon=True)
        self._began = 0.0

    def start(self) -> None:
        self._began = time.perf_counter()
        self._source.on_events(self._take)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; the final report is what is shown after it."""
        self._done.set()
        self._came.set()
        if self._thread.is_alive():
            self._thread.join()

    def _take(self, batch: Batch) -> None:
        with self._lock:
            if batch.names not in self._waiting:
                share = max(1, min(self._share, MOST_EVENTS // len(batch.names)))
                self._waiting[batch.names] = Keeper(first=0, last=1, spaced=share, marked=MOST_ALERTS)
            self._waiting[batch.names].extend(batch, batch.alerting)
        self._came.set()

    def _run(self) -> None:
        pause = PAUSE
        while not self._done.wait(pause):
            # What comes alone is told at once; and there may be what nobody has sorted in.
            self._came.wait(PAUSE)
            self._came.clear()
            with self._limits.guard("values while the cell runs"):
                pause = max(PAUSE, self._told() / MOST_BYTES)

    def _told(self) -> int:
        """Bytes of what was told."""
        self._source.flush()
        news = self._news()
        if not news:
            return 0
        live = Live(news, time.perf_counter() - self._began, self._new_sources(news))
        self._tell(live)
        return len(msgspec.json.encode(live))

    def _news(self) -> tuple[TapSeries, ...]:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        batches = [batch for keeper in waiting.values() for batch in merged(keeper.kept())]
        names = list(dict.fromkeys(name for batch in batches for name in batch.names))[:MOST_SERIES]
        self._share = max(1, MOST_EVENTS // max(1, len(names)))
        elements = MOST_ELEMENTS // max(1, len(names))
        found = [_series(name, [batch for batch in batches if name in batch.names], self._began) for name in names]
        return tuple(_record(series, elements) for series in found if len(series))

    def _new_sources(self, news: tuple[TapSeries, ...]) -> tuple[Source, ...]:
        now = time.perf_counter()
        if now - self._sources_sent > SOURCES_AGAIN:
            self._sources_sent = now
            self._files.clear()
        files = {series.span.file for series in news if series.span is not None} - self._files
        self._files |= files
        return self._source.sources_of(files)


def _series(name: Name, batches: list[Batch], began: float) -> Series:
    newest = max(batches, key=lambda batch: batch.numbers.max())
    total = max(int(batch.steps[:, column].max()) for batch in batches for column in batch.columns_of(name)) + 1
    return Series(name, batches, total, (total * newest.delivery.bytes // len(newest.names), 0.0), began)


def _record(series: Series, elements: int) -> TapSeries:
    """With the newest value if it is no larger than this, and with all if they are single numbers."""
    single, fits = series.size == 1, series.size <= elements
    record = series.recorded(lambda count: single | (fits & (np.arange(count) == count - 1)))
    return msgspec.structs.replace(record, dropped=0)
