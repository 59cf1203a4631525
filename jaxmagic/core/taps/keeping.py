"""Which of many events to keep: the first, the last, and evenly spaced ones between, in bounded memory."""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Generic, TypeVar

Event = TypeVar("Event")


class Keeper(Generic[Event]):
    """Takes events in batches, without knowing how many will come.

    Args:
        first: how many of the first to keep.
        last: how many of the last to keep.
        spaced: how many evenly spaced ones to keep, at most; between a half and all of these are there in the end.
        every: look at every n-th event only.
    """

    def __init__(self, first: int = 64, last: int = 64, spaced: int = 4096, every: int = 1) -> None:
        self.total = 0
        self._every = every
        self._first = first
        self._spaced = spaced
        self._stride = every
        self._early: list[tuple[int, Event]] = []
        self._regular: list[tuple[int, Event]] = []
        self._late: deque[tuple[int, Event]] = deque(maxlen=last)

    def __len__(self) -> int:
        return len(self._early) + len(self._regular) + len(self._late)

    def extend(self, events: Sequence[Event]) -> None:
        begin, self.total = self.total, self.total + len(events)
        looked_at = self._from(begin, events, self._every)
        if len(self._early) < self._first:
            room = self._first - len(self._early)
            self._early += looked_at[:room]
            looked_at = looked_at[room:]
        self._late.extend(looked_at[-(self._late.maxlen or 0) :] if self._late.maxlen else ())
        if self._spaced and looked_at:
            begin = looked_at[0][0]
            self._regular += self._from(begin, events[begin - self.total :], self._stride)
            while len(self._regular) > self._spaced:
                self.thin()

    def thin(self) -> bool:
        """Keeps every other one of the evenly spaced events; returns whether there were any."""
        before = len(self._regular)
        self._stride *= 2
        self._regular = [(index, event) for index, event in self._regular if index % self._stride == 0]
        return before > 0

    def events(self) -> list[Event]:
        """What was kept, in the order in which it came."""
        return [event for _, event in sorted({**dict(self._early), **dict(self._regular), **dict(self._late)}.items())]

    @staticmethod
    def _from(begin: int, events: Sequence[Event], stride: int) -> list[tuple[int, Event]]:
        """The events whose number is a multiple of `stride`, with their numbers; the first has number `begin`."""
        offset = -begin % stride
        numbers = range(begin + offset, begin + len(events), stride)
        return list(zip(numbers, islice(events, offset, None, stride), strict=True))
