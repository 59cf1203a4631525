"""What a shell knows of its cells and core does not: their numbers, and their text as it was typed."""

import linecache
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Cells:
    """A notebook as seen from core; the default is a script, which has none."""

    number: Callable[[str], int | None] = lambda file: None
    """The execution count of the cell that was compiled under a file name."""
    typed: Callable[[str], str] = lambda text: text
    """The text of a cell as typed, from the text that was compiled."""
    namespace: Mapping[str, Any] = field(default_factory=dict)
    """The user's variables."""

    def before(self, files: Collection[str]) -> tuple[str, ...]:
        """The files of cells that ran before these, in the order they last did."""
        numbered = {file: number for file in list(linecache.cache) if (number := self.number(file)) is not None}
        last = min((numbered[file] for file in files if file in numbered), default=None)
        wanted = [file for file in numbered if file not in files and (last is None or numbered[file] < last)]
        return tuple(sorted(wanted, key=lambda file: numbered[file]))
