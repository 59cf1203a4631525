"""The runs of one function's lines: which of them are worth showing."""

from collections import deque
from collections.abc import Iterable
from typing import Literal, NamedTuple

from jaxmagic.core.lines.ways import Role
from jaxmagic.core.nojit.arrays import Sighting
from jaxmagic.core.source.stores import Position

FIRST = LAST = 3
BRANCHES = 8
"""Runs shown because they took other lines than all before."""

Kept = Literal["first", "last", "branch"]


class Held(NamedTuple):
    """A variable after a line."""

    name: str
    position: Position
    role: Role
    arrays: tuple[Sighting, ...]


class Run:
    """One run: of a function from its call to its return, or of the lines in a loop, once."""

    __slots__ = ("held", "number", "turn", "way")

    def __init__(self, number: int) -> None:
        self.number = number
        self.turn = False
        """Whether it began by a loop's going round, so that its function's end is not its own."""
        self.held: dict[tuple[str, Position], Held] = {}
        self.way: list[int] = []
        """The lines that were told, in order."""


class Runs:
    """Keeps the first, the last, and those that took a way of their own."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[Run] = []
        self._last: deque[Run] = deque(maxlen=LAST)
        self._branches: list[Run] = []
        self._ways: set[tuple[int, ...]] = set()

    def begin(self) -> Run:
        self.count += 1
        return Run(self.count - 1)

    def turn(self, run: Run) -> Run:
        """Ends a run where its loop goes round, and begins the next."""
        self.end(run)
        following = self.begin()
        following.turn = True
        return following

    def end(self, run: Run) -> None:
        way = tuple(run.way)
        if len(self._first) < FIRST:
            self._first.append(run)
        elif way not in self._ways and len(self._branches) < BRANCHES:
            self._branches.append(run)
        else:
            self._last.append(run)
        self._ways.add(way)

    def kept(self) -> list[tuple[Kept, Run]]:
        """In the order they ran."""
        groups: tuple[tuple[Kept, Iterable[Run]], ...] = (
            ("first", self._first),
            ("branch", self._branches),
            ("last", self._last),
        )
        return sorted(((kept, run) for kept, runs in groups for run in runs), key=lambda each: each[1].number)
