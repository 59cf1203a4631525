"""How much of a large report is shown. What is left out is said where it is missing."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

from jaxmagic.outline.form import Line, Word, line
from jaxmagic.outline.units import counted

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Caps:
    """The most of each to show."""

    source_lines: int = 400
    pieces: int = 16
    """Arrays and variants named at the end of one source line."""
    leaves: int = 5
    """Arrays of one pytree named there."""
    findings: int = 50
    functions: int = 100
    traces: int = 30
    arguments: int = 60
    equations: int = 1000
    """Of one program."""
    listing: int = 20_000
    """Characters of one StableHLO or HLO text."""
    printed: int = 40
    names: int = 200
    """Of two runs compared."""
    series: int = 60
    limits: int = 60

    def divided(self, by: int) -> "Caps":
        return Caps(**{field.name: max(3, getattr(self, field.name) // by) for field in fields(self)})


TEXT = Caps(
    source_lines=200,
    pieces=12,
    leaves=4,
    findings=20,
    functions=40,
    traces=8,
    printed=8,
    names=40,
    series=30,
    limits=20,
)


def first(things: Sequence[Thing], most: int, name: str, names: str = "") -> tuple[Sequence[Thing], tuple[Line, ...]]:
    """The first things, and a line that says how many more there are."""
    rest = len(things) - most
    if rest <= 0:
        return things, ()
    more = counted(rest, f"more {name}", f"more {names or name + 's'}")
    return things[:most], (line(Word(f"… and {more}", "dim")),)
