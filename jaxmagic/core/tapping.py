"""What `%%jaxtap` records: named values out of running programs, and what they cost."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType

import msgspec

from jaxmagic.core import rules
from jaxmagic.core.cells import Cells
from jaxmagic.core.lines.aliases import Aliases
from jaxmagic.core.lines.record import LineRecord
from jaxmagic.core.nonfinite.origins import Causes
from jaxmagic.core.session import Session
from jaxmagic.core.source.living import before
from jaxmagic.core.sources import sources
from jaxmagic.core.taps.batches import Batch
from jaxmagic.core.taps.delivery import TapStopped
from jaxmagic.core.taps.series import Series
from jaxmagic.core.taps.taps import TapOptions, Taps
from jaxmagic.records import Report, Seconds, Source

SAVED_ELEMENTS = 20_000
"""Numbers of each series that go into the report as values; the summaries of the other events are there."""


_NOT_LOOKED_FOR = "retraces, large constants, stale values: not looked for in programs with taps; `%%jaxtrace` does"
"""Of `rules.OF_PROGRAMS`, in a line that fits a terminal."""


class Tapped(Mapping[str, Series]):
    """The series of a recording by name: `loss`, or `f.loss` where several functions have one.

    Example:
        >>> t["loss"].values
        array([0.9, 0.7, 0.6], dtype=float32)
    """

    def __init__(self, series: Sequence[Series], report: Report) -> None:
        self.report = report
        self._series = {_key(one, series): one for one in series}
        self._all = tuple(series)

    def __getitem__(self, name: str) -> Series:
        if name in self._series:
            return self._series[name]
        found = [key for key, one in self._series.items() if name in (one.name.name, f"grad {one.name.name}")]
        if found:
            raise KeyError(f"{name!r} was tapped in several functions: {', '.join(map(repr, found))}")
        raise KeyError(f"nothing named {name!r} was tapped; there is {', '.join(map(repr, self._series)) or 'nothing'}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._series)

    def __len__(self) -> int:
        return len(self._series)

    def __repr__(self) -> str:
        lines = [f"{key}: {one.total:,} events, {len(one):,} kept" for key, one in self._series.items()]
        return "\n".join(lines) or "nothing was tapped"


def _key(series: Series, others: Sequence[Series]) -> str:
    """The shortest name that no other series has."""
    name = ("grad " if series.name.gradient else "") + series.name.name
    same = [one for one in others if (one.name.name, one.name.gradient) == (series.name.name, series.name.gradient)]
    if len(same) == 1:
        return name
    qualified = f"{series.name.function}.{name}"
    if len({one.name.function for one in same}) == len(same) or series.name.span is None:
        return qualified
    place = f"{qualified}@{series.name.span.line}"
    twins = [one for one in same if one.name.span == series.name.span]
    return place if len(twins) == 1 else f"{place} {series.name.aval}"


class Tapping(Session):
    """A cell under `%%jaxtap`."""

    mode = "jaxtap"
    interrupts = (KeyboardInterrupt, TapStopped)

    def __init__(
        self,
        names: Sequence[str],
        options: TapOptions,
        *,
        title: str = "jaxmagic.tap()",
        modules: tuple[str, ...] = (),
        backend: str | None = None,
        cells: Cells | None = None,
    ) -> None:
        super().__init__(title, modules, backend, cells)
        self._asked = options.asked
        self._lines, self._aliases = LineRecord(self.policy, self.limits), Aliases()
        beside = {"shapes beside lines": self._lines, "memory shared with NumPy": self._aliases}
        self._taps = Taps(names, options, self.policy, self.limits, beside)
        self.tapped: Tapped | None = None
        """After `report`: the series for Python."""

    def begin(self, frame: FrameType | None) -> None:
        self.add("tapped values", lambda: self._taps.start(frame), self._taps.stop)

    def on_events(self, sink: Callable[[Batch], None]) -> None:
        """Has `sink` told of what comes, as `Taps.on_events`."""
        self._taps.on_events(sink)

    def flush(self) -> None:
        self._taps.flush()

    def sources_of(self, files: Iterable[str]) -> tuple[Source, ...]:
        return tuple(sources(files, self.cells))

    def report(self) -> Report:
        began = time.perf_counter()
        series = self.tried("tapped values", self._taps.series, ())
        records = self.tried("tapped values", lambda: tuple(one.record(SAVED_ELEMENTS) for one in series), ())
        remarks = self.tried("remarks on what was asked for", self._taps.findings, ())
        report = self.ended(self._lines, taps=records)
        causes = self.tried("where NaN came from", self._taps.causes, Causes())
        found = self.tried("findings", lambda: rules.observe(self._observed(report, causes)), ())
        report = self.with_sources(msgspec.structs.replace(report, findings=self.wanted((*remarks, *found))))
        self.error = None
        seconds = Seconds(self.total_s, tool=time.perf_counter() - began)
        report = msgspec.structs.replace(report, seconds=seconds, limits=self.limits.lines())
        self.tapped = Tapped(series, report)
        return report

    def _observed(self, report: Report, causes: Causes) -> rules.Observed:
        """What rules can say of a run whose programs were not looked at, as they hold taps."""
        calls, modules = self.tried("calls of functions", self._lines.calls, ()), self._lines.modules()
        if any(word.startswith("jit ") for call in calls for word in call.transforms):
            self.limits.add(_NOT_LOOKED_FOR)
        return rules.Observed(
            limits=self.limits,
            calls=calls,
            hints=self.tried("shapes beside lines", self._lines.hints, ()),
            files=tuple(dict.fromkeys([*(call.span.file for call in calls), *modules])),
            modules=modules,
            earlier=before(self.cells, self.policy, modules),
            aliases=self._aliases.found(),
            namespace=self.cells.namespace,
            printed=report.printed,
            results=report.results,
            taps=report.taps,
            host_calls=tuple(self.host_calls),
            failure=report.failure,
            causes=causes,
            asked=self._asked,
        )
