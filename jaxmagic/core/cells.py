"""What a shell knows of its cells and core does not: their numbers, and their text as it was typed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Cells:
    """A notebook as seen from core; the default is a script, which has none."""

    number: Callable[[str], int | None] = lambda file: None
    """The execution count of the cell that was compiled under a file name."""
    identity: Callable[[str], str | None] = lambda file: None
    """Which cell it is a version of, where the front end says so."""
    typed: Callable[[str], str] = lambda text: text
    """The text of a cell as typed, from the text that was compiled."""
    namespace: Mapping[str, Any] = field(default_factory=dict)
    """The user's variables."""
