"""What jaxmagic installs in an IPython shell, and its removal: an input transformer and two events."""

import linecache
import sys
from collections.abc import Callable
from typing import Any, Protocol

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import leading_indent
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

from jaxmagic.magics.line import call_for, handed_on, hide_call
from jaxmagic.magics.versions import identities_of

CELL_MAGICS = ("jaxtrace", "jaxnojit", "jaxtap")

_RUN_THEIR_CELL = ("time", "timeit", "capture", "prun")
"""Cell magics that run the rest of the cell as IPython would; to others it may be text for a file or another shell."""


class CellRun(Protocol):
    """Something that lasts from the first line of a cell to its end."""

    def next_statement(self) -> None: ...

    def finish(self, error: BaseException | None, value: Any = None) -> None: ...


class Hooks:
    """Runs a cell as IPython would, with something around it.

    The magic's line is replaced by a one-line call, so that line numbers, top-level await, `Out`, tracebacks and
    every other magic stay what they are in a cell without us.
    """

    def __init__(self, shell: InteractiveShell, begin: Callable[[str, str], CellRun]) -> None:
        self.shell = shell
        self._begin = begin
        self._cells: list[ExecutionInfo] = []
        self._run: CellRun | None = None
        self._owner: ExecutionInfo | None = None
        self._take_off: Callable[[], None] = lambda: None

    def install(self) -> None:
        self.shell.input_transformers_cleanup.append(self.replace_magic_line)
        self.shell.events.register("pre_run_cell", self._cell_begins)
        self.shell.events.register("post_run_cell", self._cell_ends)

    def remove(self) -> None:
        self._finish(None)
        self.shell.input_transformers_cleanup.remove(self.replace_magic_line)
        self.shell.events.unregister("pre_run_cell", self._cell_begins)
        self.shell.events.unregister("post_run_cell", self._cell_ends)

    def begin(self, magic: str, line: str) -> None:
        """Called by the first line of a magic cell."""
        __tracebackhide__ = True
        if self._run is not None:  # `%%timeit` outside: its later rounds join the first
            return
        self._owner = self._cells[-1] if self._cells else None
        self._run = self._begin(magic, line)
        self._tell_statements(self._run)

    def _tell_statements(self, run: CellRun) -> None:
        """Tells of each statement of the cell before it runs: IPython compiles and runs them one by one."""
        inner, theirs = self.shell.run_code, vars(self.shell).get("run_code")

        def run_code(*args: Any, **kwargs: Any) -> Any:
            run.next_statement()
            return inner(*args, **kwargs)

        def take_off() -> None:
            if vars(self.shell).get("run_code") is run_code:
                del self.shell.run_code
                if theirs is not None:  # another tool's, which had put it there before us
                    self.shell.run_code = theirs

        self.shell.run_code, self._take_off = run_code, take_off

    def know(self, file: str) -> None:
        """Makes the text known of what `%%time` compiled, which no source cache has."""
        cell = self._cells[-1].raw_cell if self._cells else None
        if cell and file.startswith("<") and not linecache.getlines(file):
            from jaxmagic.core.source.texts import remember

            remember(file, handed_on(cell, CELL_MAGICS))

    def replace_magic_line(self, lines: list[str]) -> list[str]:
        """`%%jaxtrace …` becomes a call on the same line; any other cell is returned as it is."""
        magic = _magic_of(lines)
        if magic is None:
            return lines
        call = call_for(magic, lines[0])
        lines = [lines[0], *leading_indent(lines[1:])]
        for number, text in enumerate(lines[1:], 1):
            stripped = text.strip()
            if _magic_of([text]) is not None:
                call = _refusal(magic, stripped)
                return [call, "\n", *lines[2:]] if number == 1 else [call, *lines[1:number], "\n", *lines[number + 1 :]]
            if stripped.startswith("%%"):
                return _with_another(call, lines, number)
            if stripped.startswith("from __future__"):  # must stay the first statement
                joined = f"{text.rstrip()}; {call}"
                return ["\n", *lines[1:number], joined, *lines[number + 1 :]]
            if stripped and not stripped.startswith("#"):
                break
        return [call, *lines[1:]]

    def _cell_begins(self, info: ExecutionInfo) -> None:
        if self._run is not None and not self._cells:  # left over from a cell whose end never came
            self._finish(None)
        self._cells.append(info)

    def _cell_ends(self, result: ExecutionResult) -> None:
        identity = getattr(result.info, "cell_id", None)
        if identity is not None and result.execution_count is not None:
            identities_of(self.shell)[result.execution_count] = identity
        if result.info not in self._cells:
            return
        del self._cells[self._cells.index(result.info) :]
        if self._run is not None and self._owner not in self._cells:
            self._finish(result.error_before_exec or result.error_in_exec, result.result)

    def _finish(self, error: BaseException | None, value: Any = None) -> None:
        run, self._run, self._owner = self._run, None, None
        if run is not None:
            self._take_off()
            run.finish(error, value)


_hooks: dict[int, Hooks] = {}


def begin(magic: str, line: str) -> None:
    """The call that stands in a cell in the place of its magic line."""
    __tracebackhide__ = True
    from IPython.core.getipython import get_ipython

    hooks = _hooks.get(id(get_ipython()))
    if hooks is None:
        raise UsageError("jaxmagic is not loaded in this shell; run `%load_ext jaxmagic` first.")
    file = sys._getframe(1).f_code.co_filename
    hide_call(file)
    hooks.know(file)
    hooks.begin(magic, line)


def load(shell: InteractiveShell) -> None:
    from jaxmagic.core import host_callback
    from jaxmagic.magics import JaxMagic, all_magics

    unload(shell)
    settings = JaxMagic(parent=shell)
    configurables: list[Any] = shell.configurables
    configurables.append(settings)
    magics = {each.name: each for each in all_magics(shell, settings)}
    for each in magics.values():
        shell.register_magics(each)
    hooks = Hooks(shell, lambda magic, line: magics[magic].begin(line))
    hooks.install()
    _hooks[id(shell)] = hooks
    host_callback.install()


def unload(shell: InteractiveShell) -> None:
    from jaxmagic.core import host_callback
    from jaxmagic.magics import JaxMagic, ReportMagics

    hooks = _hooks.pop(id(shell), None)
    if hooks is None:
        return
    hooks.remove()
    if not _hooks:
        host_callback.remove()
    for kind in shell.magics_manager.magics.values():
        for name in CELL_MAGICS:
            kind.pop(name, None)
    for one in shell.configurables:
        if isinstance(one, ReportMagics):
            one.unloaded()
            shell.magics_manager.registry.pop(type(one).__name__, None)
    ours = (JaxMagic, ReportMagics)
    shell.configurables[:] = [one for one in shell.configurables if not isinstance(one, ours)]


def _magic_of(lines: list[str]) -> str | None:
    """The name of our cell magic on the first line; None for other cells and for `%%jaxtrace?`."""
    first = lines[0].split(maxsplit=1)[0] if lines and lines[0].strip() else ""
    name = first.removeprefix("%%")
    return name if first.startswith("%%") and name in CELL_MAGICS else None


def _with_another(call: str, lines: list[str], number: int) -> list[str]:
    """A cell whose line `number` is the line of somebody else's cell magic."""
    name, _, options = lines[number].strip().removeprefix("%%").partition(" ")
    if name in _RUN_THEIR_CELL:  # it goes first, and runs our call as its own first line
        return [lines[number], call, *lines[1:number], *lines[number + 1 :]]
    body = "".join(lines[number + 1 :])
    return [call, *lines[1:number], f"get_ipython().run_cell_magic({name!r}, {options.strip()!r}, {body!r})\n"]


def _refusal(magic: str, other: str) -> str:
    text = f"%%{magic} and {other.split()[0]} can't share a cell; keep one of the two lines."
    return f"raise __import__('IPython.core.error').core.error.UsageError({text!r})\n"
