"""The events of one name: as arrays for Python, and as the record that is shown and saved."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmagic.core.taps.delivery import Delivery, Parcel, Part
from jaxmagic.core.taps.masks import running
from jaxmagic.core.taps.summaries import combine, summarize
from jaxmagic.records import Aval, Span, Summary, TapEvent, TapSeries


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


class Arrival(NamedTuple):
    """One delivery as it was kept: raw, read when somebody looks."""

    names: tuple[Name, ...]
    number: int
    time: float
    """Seconds on the clock of `time.perf_counter`."""
    steps: tuple[int, ...]
    """For each name which event of its series this is; -1 where the gate did not hold for it."""
    delivery: Delivery
    arrays: tuple[np.ndarray, ...]
    alerts: tuple[bool, ...] = ()

    def read(self) -> Parcel:
        return self.delivery.read(self.arrays)

    def event(self, index: int, *, began: float = 0.0, whole: bool = True) -> TapEvent:
        """The record of the value at `index` in a run that began at `began`; with the value itself if `whole`."""
        parcel, part = self.read(), self.delivery.parts[index]
        value = parcel.values[index]
        lanes = part.shape[: sum(part.lanes)]
        active = _active(parcel.active, self.delivery.active, part)
        return TapEvent(
            number=self.number,
            step=self.steps[index],
            loop=parcel.loop,
            lanes=lanes,
            device=parcel.device,
            time=self.time - began,
            summary=None if names_keys(self.names[index]) else _summary(value, active),
            value=plain(value) if whole and not isinstance(value, Summary) else None,
            active=active,
            alert=bool(self.alerts) and self.alerts[index],
        )


class Series:
    """All events of one name that were kept.

    Attributes:
        name: Name, function, span and aval of what was tapped.
        total: how many events came; `len(series)` of them were kept.
    """

    def __init__(
        self, name: Name, arrivals: list[tuple[Arrival, int]], total: int, cost: tuple[int, float], began: float
    ) -> None:
        self.name = name
        self.total = total
        self._began = began
        self._arrivals = sorted(arrivals, key=lambda kept: kept[0].number)
        self._bytes, self._host_s = cost

    def __len__(self) -> int:
        return len(self._arrivals)

    def __repr__(self) -> str:
        return f"<{self.name.function}.{self.name.name}: {self.total} events, {len(self)} kept>"

    @property
    def steps(self) -> np.ndarray:
        """`int[n]`: which event of the series each kept one is, from 0."""
        return np.array([arrival.steps[index] for arrival, index in self._arrivals], int)

    @property
    def loops(self) -> list[tuple[int, ...]]:
        """For each kept event the iteration of each loop around it, outermost first."""
        return [arrival.read().loop for arrival, _ in self._arrivals]

    @property
    def values(self) -> Any:
        """The kept values: `[n, *lanes, *shape]`, or a list of arrays where their shapes differ.

        Raises:
            ValueError: they were reduced on the device; `summaries` has what came ashore.
        """
        values = [arrival.read().values[index] for arrival, index in self._arrivals]
        arrays = [value for value in values if not isinstance(value, Summary)]
        if len(arrays) < len(values):
            raise ValueError(f"{self.name.name} {self.name.aval} was reduced on the device; ask for values to keep it")
        return np.stack(arrays) if len({array.shape for array in arrays}) == 1 else arrays

    @property
    def summaries(self) -> list[Summary | None]:
        """Statistics of each kept event; None for what has no numbers in it."""
        return [arrival.event(index, whole=False).summary for arrival, index in self._arrivals]

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

        events = [arrival.event(index, began=self._began) for arrival, index in self._arrivals]
        rows = [{"step": e.step, "loop": e.loop, "time": e.time, "device": e.device, **_columns(e)} for e in events]
        return pd.DataFrame(rows)

    def record(self, elements: int) -> TapSeries:
        """The record of this series, with the values of as many evenly spaced events as hold `elements` numbers."""
        size = max(1, max((_size(arrival, index) for arrival, index in self._arrivals), default=1))
        stride = max(1, -(-len(self) * size // max(1, elements)))
        events = [
            arrival.event(index, began=self._began, whole=size <= elements and position % stride == 0)
            for position, (arrival, index) in enumerate(self._arrivals)
        ]
        ways = dict.fromkeys(arrival.delivery.way for arrival, _ in self._arrivals)
        return TapSeries(
            name=self.name.name,
            function=self.name.function,
            span=self.name.span,
            aval=self.name.aval,
            gradient=self.name.gradient,
            events=tuple(events),
            total=self.total,
            dropped=self.total - len(events),
            transport="; ".join(ways),
            bytes=self._bytes,
            host_s=self._host_s,
        )


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
    return value if np.isfinite(value) else str(value)


def _active(masks: Sequence[np.ndarray], axes: Sequence[tuple[bool, ...]], part: Part) -> tuple[bool, ...]:
    """Where all of the masks hold, over all lanes of a value; empty where they hold everywhere."""
    lanes = part.shape[: sum(part.lanes)]
    if not masks or not lanes:
        return ()
    # The counters of lanes that end apart have all of the vmapped axes, and come after the masks.
    everywhere = [(True,) * len(part.lanes)] * (len(masks) - len(axes))
    known = [(mask, has) for mask, has in zip(masks, [*axes, *everywhere], strict=True) if mask.ndim == sum(has)]
    if not known:
        return ()
    active = np.broadcast_to(running(part.lanes, *zip(*known, strict=True)), lanes)
    return () if active.all() else tuple(bool(lane) for lane in active.reshape(-1))


def _summary(value: Any, active: tuple[bool, ...]) -> Summary | None:
    """Of the lanes that are running: what the others hold is not used."""
    if isinstance(value, Summary):
        return value
    return summarize(value.reshape(len(active), -1)[np.array(active)] if active else value)


def _size(arrival: Arrival, index: int) -> int:
    part = arrival.delivery.parts[index]
    return 0 if part.reduced else int(np.prod(part.shape))


def _columns(event: TapEvent) -> dict[str, Any]:
    if isinstance(event.value, int | float | bool | str):
        return {"value": float(event.value)}
    statistics = event.summary
    return {k: getattr(statistics, k) for k in ("min", "max", "mean", "std", "nan")} if statistics else {}
