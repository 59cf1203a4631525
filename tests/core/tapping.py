"""Runs a function with taps on, for tests."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmagic.core.limits import Limits
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.taps.series import Series
from jaxmagic.core.taps.taps import TapOptions, Taps


class Event(NamedTuple):
    """One value that came ashore, in the words of a test."""

    name: str
    loop: tuple[int, ...]
    value: Any
    active: tuple[bool, ...] = ()


class Tapped(NamedTuple):
    """What a tapped call gave."""

    result: Any
    error: BaseException | None
    taps: Taps
    limits: tuple[str, ...]

    def series(self, name: str, *, gradient: bool = False) -> Series:
        found = [s for s in self.taps.series() if s.name.name == name and s.name.gradient == gradient]
        assert len(found) == 1, f"{name}: {self.taps.series()}"
        return found[0]

    def values(self, name: str) -> Any:
        return self.series(name).values

    @property
    def events(self) -> list[Event]:
        """All events in the order of arrival."""
        found = []
        for series in self.taps.series():
            for event in series.record(10**9).events:
                name = ("∇" if series.name.gradient else "") + series.name.name
                found.append((event.number, Event(name, event.loop, event.value, event.active)))
        return [event for _, event in sorted(found, key=lambda each: each[0])]


def tap(names: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Tapped:
    """Calls a function with taps on the names in `names`, and waits for all that it started."""
    limits = Limits()
    taps = Taps(names.split(), TapOptions(**options), Policy(), limits)
    outcome, error = None, None
    taps.start()
    try:
        outcome = jax.block_until_ready(function(*arguments))
    except BaseException as raised:  # noqa: BLE001 - the test looks at it
        error = raised
    finally:
        taps.stop()
    return Tapped(outcome, error, taps, limits.lines())


def same(left: Any, right: Any) -> bool:
    """Whether two pytrees of arrays are equal bit for bit."""
    leaves = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in leaves)
