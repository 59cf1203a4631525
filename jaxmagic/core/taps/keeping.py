"""Which of many events to keep: the first, the last, evenly spaced ones and remarkable ones, in bounded memory."""

from collections import deque
from typing import Any, Generic, Protocol, TypeVar

import numpy as np


class Indexed(Protocol):
    """A batch of events."""

    def __len__(self) -> int: ...
    def __getitem__(self, events: np.ndarray, /) -> Any:
        """A copy of the events at these indices, as such a batch again."""


Events = TypeVar("Events", bound=Indexed)


class Keeper(Generic[Events]):
    """Takes events in batches, without knowing how many will come.

    Args:
        first: how many of the first to keep.
        last: how many of the last to keep.
        spaced: how many evenly spaced ones to keep, at most; between a half and all of these are there in the end.
        every: look at every n-th event only.
        marked: how many to keep of the first that are marked, whichever they are.
    """

    def __init__(self, first: int = 64, last: int = 64, spaced: int = 4096, every: int = 1, marked: int = 64) -> None:
        self.total = 0
        self._every = every
        self._first = first
        self._last = last
        self._spaced = spaced
        self._stride = every
        self._most_marked = marked
        self._early: _Numbered[Events] = _Numbered()
        self._regular: _Numbered[Events] = _Numbered()
        self._late: _Numbered[Events] = _Numbered()
        self._marked: _Numbered[Events] = _Numbered()

    def __len__(self) -> int:
        return self._early.count + self._regular.count + self._late.count + self._marked.count

    def extend(self, events: Events, marked: np.ndarray | None = None) -> None:
        """Takes a batch; `marked` says of each of its events whether it must not be missed."""
        begin, self.total = self.total, self.total + len(events)
        looked_at = np.arange(begin + -begin % self._every, self.total, self._every)
        room = max(0, self._first - self._early.count)
        early, others = looked_at[:room], looked_at[room:]
        self._early.add(early, events, begin)
        if marked is not None:
            room = self._most_marked - self._marked.count
            self._marked.add(begin + np.flatnonzero(marked)[:room], events, begin)
        if self._last:
            self._late.add(others[-self._last :], events, begin)
            self._late.drop_first(self._late.count - self._last)
        if self._spaced:
            self._regular.add(others[others % self._stride == 0], events, begin)
            while self._regular.count > self._spaced:
                self.thin()

    def thin(self) -> bool:
        """Keeps every other one of the evenly spaced events; returns whether there were any."""
        before = self._regular.count
        self._stride *= 2
        self._regular.keep_multiples(self._stride)
        return before > 0

    def kept(self) -> list[Events]:
        """Each event that was kept, once. Those of one batch may lie between those of another."""
        seen: set[int] = set()
        found = []
        for each in (self._early, self._regular, self._late, self._marked):
            found += each.besides(seen)
            seen.update(each.numbers)
        return found


class _Numbered(Generic[Events]):
    """Parts of batches with the numbers of their events, counted from the first that came."""

    def __init__(self) -> None:
        self.count = 0
        self.parts: deque[tuple[np.ndarray, Events]] = deque()

    @property
    def numbers(self) -> list[int]:
        return [number for numbers, _ in self.parts for number in numbers.tolist()]

    def besides(self, seen: set[int]) -> list[Events]:
        """The events whose number was not seen."""
        new = [
            (np.array([number not in seen for number in numbers.tolist()]), events) for numbers, events in self.parts
        ]
        return [events[np.flatnonzero(those)] for those, events in new if those.any()]

    def add(self, numbers: np.ndarray, events: Events, begin: int) -> None:
        """Takes the events of these numbers from a batch that begins at `begin`."""
        if numbers.size:
            self.count += len(numbers)
            self.parts.append((numbers, events[numbers - begin]))

    def drop_first(self, surplus: int) -> None:
        while surplus > 0:
            numbers, events = self.parts.popleft()
            if len(numbers) > surplus:
                self.parts.appendleft((numbers[surplus:], events[np.arange(surplus, len(numbers))]))
            gone = min(surplus, len(numbers))
            self.count -= gone
            surplus -= gone

    def keep_multiples(self, stride: int) -> None:
        parts, self.parts, self.count = self.parts, deque(), 0
        for numbers, events in parts:
            at = np.flatnonzero(numbers % stride == 0)
            if at.size:
                self.parts.append((numbers[at], events[at]))
                self.count += len(at)
