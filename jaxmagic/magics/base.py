"""What every magic that gives a report has: its flags, its line form, its cell form.

Loading the extension imports this and the flags only; what records and shows is imported when a magic first runs.
"""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics
from IPython.core.magic_arguments import argument, parse_argstring

from jaxmagic.magics.settings import JaxMagic
from jaxmagic.magics.statement import piece_of_statement, typed

if TYPE_CHECKING:
    from jaxmagic.magics.cell import CellRun

_COMMON = (
    argument("--module", action="append", default=[], metavar="NAME", help="an installed package to treat as yours"),
    argument("--backend", metavar="DEVICE", help="cpu, gpu or tpu, with an index if you like: cpu:1"),
    argument("-o", dest="output", metavar="NAME", help="put the Report into this variable"),
    argument("-q", dest="quiet", action="store_true", help="show nothing"),
    argument("--to", metavar="FILE", help="append the Report to this file, as one line of JSON"),
)
_STATEMENT = argument("statement", nargs=argparse.REMAINDER, help="line form only: what to run")


def report_flags(magic: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a magic the flags that all of them have, after its own."""
    for flag in reversed(_COMMON):
        magic = flag(magic)
    return magic


def common_flags(magic: Callable[..., Any]) -> Callable[..., Any]:
    """The same, and a statement at the end of the line."""
    return report_flags(_STATEMENT(magic))


class ReportMagics(Magics):
    """One magic in its two forms; a subclass has the magic itself and says what its flags mean."""

    name: ClassVar[str]

    def __init__(self, shell: InteractiveShell, settings: JaxMagic) -> None:
        super().__init__(shell)
        self.ipython = shell
        self.settings = settings

    def run_for(self, title: str, flags: argparse.Namespace) -> "CellRun":
        """What lasts from the first line of the cell to its end.

        Raises:
            UsageError: The flags contradict each other.
        """
        raise NotImplementedError

    def unloaded(self) -> None:
        """Takes back whatever lasts longer than a cell."""

    def begin(self, line: str) -> "CellRun":
        """Starts a cell's recording; called from the cell's first line, four frames up.

        Raises:
            UsageError: A flag is unknown or its value can't be had; the cell does not run.
        """
        flags = self.flags(line)
        if flags.statement:
            raise UsageError(f"%%{self.name} takes no {flags.statement!r}; `%%{self.name}?` lists its flags.")
        run = self.run_for(f"%%{self.name} {line}".strip(), flags)
        run.start(sys._getframe(4))
        return run

    def run_either(self, line: str, cell: str | None) -> Any:
        """The magic as IPython calls it: with a cell where another magic or `run_cell_magic` handed it one."""
        if cell is not None:
            self.ipython.run_cell(f"%%{self.name} {line}\n{cell}")
            return None
        flags = self.flags(line)
        if not flags.statement:
            raise UsageError(
                f"%{self.name} needs a statement: `%{self.name} f(x)`; for a whole cell, use %%{self.name}."
            )
        run = self.run_for(f"%{self.name} {line}", flags)
        run.start(None)
        try:
            value = piece_of_statement(self.ipython, flags.statement).run(self.ipython.user_ns)
        except BaseException as error:
            run.finish(error)
            raise
        run.finish(None, value)
        return value

    def flags(self, line: str) -> argparse.Namespace:
        """The flags of a line, with the statement at its end as it was typed."""
        try:
            flags = self.parsed(line)
        except ValueError as error:  # a quote that is not closed
            raise UsageError(f"%%{self.name}: {error}, in {line!r}.") from None
        flags.quiet = flags.quiet or self.settings.quiet
        flags.output, flags.to, flags.backend = map(bare, (flags.output, flags.to, flags.backend))
        if flags.output and not flags.output.isidentifier():
            raise UsageError(f"-o takes the name of a variable, got {flags.output!r}.")
        return flags

    def parsed(self, line: str) -> argparse.Namespace:
        flags = parse_argstring(getattr(self, self.name), line)
        flags.statement = typed(line, flags.statement) if flags.statement else ""
        return flags


def bare(text: str | None) -> str | None:
    """Without the quotes that kept a flag's value with spaces together."""
    if text and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text
