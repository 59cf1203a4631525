"""`%jaxnojit`: a statement, a cell, or all cells to come without jit."""

import argparse
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from jaxmagic.magics.base import ReportMagics, common_flags
from jaxmagic.magics.breakpoints import Breakpoints
from jaxmagic.magics.settings import JaxMagic

if TYPE_CHECKING:
    from jaxmagic.core.nojit.lasting import Lasting
    from jaxmagic.core.recording import Options
    from jaxmagic.magics.cell import CellRun


@magics_class
class NoJitMagics(ReportMagics):
    name = "jaxnojit"

    def __init__(self, shell: InteractiveShell, settings: JaxMagic) -> None:
        super().__init__(shell, settings)
        self._lasting: Lasting | None = None
        self._breakpoints = Breakpoints(shell)

    @magic_arguments()
    @argument("--only", action="append", default=[], metavar="F,G", help="these run in Python, all else stays compiled")
    @argument("--except", dest="excluded", action="append", default=[], metavar="F,G", help="these stay compiled")
    @argument("--compare", action="store_true", help="run with jit too, from equal inputs, and say what differs")
    @argument("--rtol", type=float, metavar="R", help="with --compare: differences that count as equal, to the largest")
    @argument("--atol", type=float, metavar="A", help="with --compare: differences that count as equal")
    @argument("--budget", type=float, metavar="SECONDS", help="stop between two lines when the time is up")
    @argument("--pdb", action="store_true", help="open the debugger where an error is raised")
    @common_flags
    @no_var_expand
    @line_cell_magic
    def jaxnojit(self, line: str, cell: str | None = None) -> Any:
        """Run without jit: real values at every line, `print`, `breakpoint()` and `%debug` as in plain Python.

        `%%jaxnojit` on top of a cell, `%jaxnojit STATEMENT`, or `%jaxnojit on`, `off` and `status` for later cells.
        """
        line = self._state_last(line) if cell is None else line
        if cell is None and (change := _STATES.get(self.flags(line).statement)):
            return change(self, line)
        return self.run_either(line, cell)

    def _state_last(self, line: str) -> str:
        """`on --only f` as `--only f on`: flags may stand on either side of the word."""
        statement = self.flags(line).statement
        word, _, flags = statement.partition(" ")
        if word not in _STATES or not flags.lstrip().startswith("--"):
            return line
        return f"{line.removesuffix(statement)}{flags} {word}"

    def options(self, title: str, flags: argparse.Namespace) -> "Options":
        from jaxmagic.core.nojit.scope import NoJitOptions
        from jaxmagic.core.recording import Options

        try:
            nojit = NoJitOptions(
                only=_names(flags.only),
                excluded=_names(flags.excluded),
                budget=flags.budget,
                compare=flags.compare,
                lasting=self._lasting is not None,
            )
        except ValueError as error:
            raise UsageError(f"%{self.name}: {error}.") from None
        return Options(
            title=title,
            modules=tuple(flags.module),
            hlo=False,
            backend=flags.backend or self.settings.backend or None,
            ignore=tuple(self.settings.ignore),
            nojit=nojit,
        )

    def run_for(self, title: str, flags: argparse.Namespace) -> "CellRun":
        from jaxmagic.core.recording import Recording
        from jaxmagic.magics.cell import cells_of
        from jaxmagic.magics.nojit_run import NoJitRun
        from jaxmagic.magics.progress import ProgressBar

        progress = ProgressBar(self.ipython)
        tell = None if flags.quiet else progress
        session = Recording(self.options(title, flags), cells_of(self.ipython), tell)
        return NoJitRun(self.ipython, flags, session, progress)

    def unloaded(self) -> None:
        if self._lasting is not None:
            self._on()

    # -------------------------------------------------------------------------------------- for later cells

    def switch_off(self, line: str) -> None:
        """`%jaxnojit on`: no jit from now on."""
        from jaxmagic.core.nojit.lasting import Lasting

        flags = self.flags(line)
        options = self.options(line, flags).nojit
        assert options is not None
        self._on()
        self._lasting = Lasting(options, self.ipython.user_ns)
        self._lasting.start()
        self._breakpoints.start()
        self.ipython.events.register("pre_run_cell", self._cell_begins)
        self.ipython.events.register("post_run_cell", self._cell_ended)
        self.status(line)

    def switch_on(self, line: str) -> None:
        """`%jaxnojit off`: jit as usual."""
        self._on()
        self.status(line)

    def status(self, line: str) -> None:
        if self._lasting is None:
            print("jit is on")
        else:
            print(f"jit is off {self._lasting.scope}, until `%jaxnojit off`")

    def _on(self) -> None:
        lasting, self._lasting = self._lasting, None
        if lasting is not None:
            lasting.stop()
            self._breakpoints.stop()
            self.ipython.events.unregister("pre_run_cell", self._cell_begins)
            self.ipython.events.unregister("post_run_cell", self._cell_ended)

    def _cell_begins(self, info: object) -> None:
        if self._lasting is not None:
            self._lasting.new_cell()

    def _cell_ended(self, result: object) -> None:
        """Says so below each cell that felt it, since a switch that one can't see is soon forgotten."""
        if self._lasting is None:
            return
        record = self._lasting.record()
        if record.functions:
            names = ", ".join(f"{each.name} ×{each.calls:,}" for each in record.functions[:5])
            print(f"jit is off {record.scope}: {names} ran in Python. `%jaxnojit off` turns it on.")


_STATES = {"on": NoJitMagics.switch_off, "off": NoJitMagics.switch_on, "status": NoJitMagics.status}


def _names(given: list[str]) -> tuple[str, ...]:
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())
