"""Which of many events to keep: the first, the last, and evenly spaced ones between, in bounded memory."""

from collections import deque
from typing import Generic, TypeVar

Event = TypeVar("Event")


class Keeper(Generic[Event]):
    """Takes events one by one without knowing how many will come.

    Args:
        first: how many of the first to keep.
        last: how many of the last to keep.
        spaced: how many evenly spaced ones to keep, at most; between a half and all of these are there in the end.
        every: look at every n-th event only.
    """

    def __init__(self, first: int = 64, last: int = 64, spaced: int = 4096, every: int = 1) -> None:
        self.total = 0
        self._first, self._spaced, self._stride = first, spaced, every
        self._every = every
        self._early: list[Event] = []
        self._regular: list[tuple[int, Event]] = []
        self._late: deque[Event] = deque(maxlen=last)

    def __len__(self) -> int:
        return len(self._early) + len(self._regular) + len(self._late)

    def wants(self) -> bool:
        """Whether the next event would be kept at all, if only for a while."""
        return self.total % self._every == 0

    def skip(self) -> None:
        """Counts an event that `wants` refused."""
        self.total += 1

    def add(self, event: Event) -> None:
        index = self.total
        self.total += 1
        if index < self._first * self._every:
            self._early.append(event)
        elif self._spaced and index % self._stride == 0:
            self._regular.append((index, event))
            if len(self._regular) > self._spaced:
                self.thin()
        else:
            self._late.append(event)

    def thin(self) -> bool:
        """Keeps every other one of the evenly spaced events; returns whether there were any."""
        before = len(self._regular)
        self._stride *= 2
        self._regular = [(index, event) for index, event in self._regular if index % self._stride == 0]
        return before > 0

    def events(self) -> list[Event]:
        """What was kept; in no particular order."""
        return [*self._early, *(event for _, event in self._regular), *self._late]
