"""Every array that the user's lines stored, in order; and where another run of the same code first had another one."""

import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxmagic.core.limits import Limits
from jaxmagic.core.lines.stored import stored_values
from jaxmagic.core.lines.ways import Function, span_of
from jaxmagic.core.nojit.arrays import sightings
from jaxmagic.core.nojit.numbers import ORDER, REASSOCIATED, Tolerance, distance
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.taps.series import Series
from jaxmagic.records import Span

MOST_BYTES = 64 * 2**20
MOST_ARRAYS = 4
"""Of one variable."""


class Event(NamedTuple):
    """One array after one line."""

    function: str
    name: str
    span: Span
    step: int
    """Which event of that name it is, from 0."""
    value: np.ndarray


class Trail:
    """Listens to the frames that run without jit, and keeps small arrays whole.

    Args:
        policy: Whose files.
        watches: Whether values are wanted now, in this thread.
        limits: Says where it ends before the cell does.
    """

    def __init__(self, policy: Policy, watches: Callable[[], bool], limits: Limits) -> None:
        self._policy = policy
        self._watches = watches
        self._limits = limits
        self._functions: dict[int, Function] = {}
        self._steps: dict[tuple[str, str, int], int] = {}
        self._bytes = 0
        self._lock = threading.Lock()
        self.events: list[Event] = []

    def entered(self, frame: FrameType) -> bool:
        return False

    def stepped(self, frame: FrameType, line: int) -> bool:
        if self._bytes < MOST_BYTES and self._watches():
            function = self._function(frame)
            for store, value in stored_values(function, frame, line):
                self._add(function, store.name, span_of(function.code, store.name, "assigned", store.position), value)
        return False

    def left(self, frame: FrameType, line: int, value: Any) -> bool:
        if self._bytes < MOST_BYTES and self._watches():
            function = self._function(frame)
            if function.returns:
                span = span_of(function.code, "return", "returned", function.position(frame.f_lasti))
                self._add(function, "return", span, value)
        return False

    def _add(self, function: Function, name: str, span: Span, value: Any) -> None:
        with self._lock:
            for seen in sightings(value, MOST_ARRAYS, self._policy.owns):
                if seen.value is None:
                    continue
                key = function.name, name + seen.path, span.line
                step = self._steps[key] = self._steps.get(key, -1) + 1
                self.events.append(Event(*key[:2], span, step, seen.value))
                self._bytes += seen.value.nbytes + 200
            if self._bytes >= MOST_BYTES:
                self._limits.add("where the runs part: looked for in the first 64 MB of values only")

    def _function(self, frame: FrameType) -> Function:
        code = frame.f_code
        function = self._functions.get(id(code))
        if function is None:
            function = self._functions[id(code)] = Function(code)
        return function


class Parting(NamedTuple):
    """The first value that two runs do not share."""

    event: Event
    verdict: str
    jit: np.ndarray
    loop: tuple[int, ...]
    """Iteration of each loop around it, outermost first."""
    gap: float = 0.0
    scale: float = 0.0
    """The largest finite element of all arrays up to here."""

    @property
    def is_noise(self) -> bool:
        """Whether the difference is no more than rounding of the numbers that the value was made from."""
        dtype = self.event.value.dtype
        if dtype.kind in "biu":
            return False
        return self.gap <= REASSOCIATED * float(jnp.finfo(dtype).eps) * self.scale


def first_parting(
    events: Iterable[Event], series: Iterable[Series], tolerance: Tolerance, at_least: str
) -> Parting | None:
    """Compares what ran without jit with what was tapped in a compiled run.

    Args:
        events: Of the run without jit, in order.
        series: Of the compiled run.
        tolerance: What counts as equal.
        at_least: How grave a difference is looked for.
    """
    tapped = {(one.name.function, one.name.name, one.name.span.line): one for one in series if one.name.span}
    values: dict[int, dict[int, tuple[Any, tuple[int, ...]]]] = {}
    scale = 0.0
    for event in events:
        scale = max(scale, _largest(event.value))
        one = tapped.get((event.function, event.name, event.span.line))
        if one is None:
            continue
        if id(one) not in values:
            values[id(one)] = _by_step(one)
        found = values[id(one)].get(event.step)
        if found is None or found[0].shape != event.value.shape:
            continue
        apart = distance(found[0], event.value, tolerance)
        if ORDER.index(apart.verdict) >= ORDER.index(at_least):
            return Parting(event, apart.verdict, *found, apart.max_abs or 0.0, scale)
    return None


def _largest(array: np.ndarray) -> float:
    if array.dtype.kind not in "fV" or not array.size:
        return 0.0
    numbers = np.abs(array.astype(np.float64))
    return float(numbers[np.isfinite(numbers)].max(initial=0.0))


def _by_step(series: Series) -> dict[int, tuple[Any, tuple[int, ...]]]:
    try:
        values = series.values
    except ValueError:  # reduced on the device
        return {}
    pairs = zip(series.steps, values, series.loops, strict=True)
    return {int(step): (np.asarray(value), loop) for step, value, loop in pairs}


def strange_before(events: Iterable[Event], parting: Parting | None) -> Event | None:
    """The first array with a NaN or an infinity in it, up to where the runs part."""
    for event in events:
        if event.value.dtype.kind in "fc" and not np.isfinite(event.value).all():
            return event
        if parting is not None and event is parting.event:
            return None
    return None
