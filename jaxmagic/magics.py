"""`%%jaxtrace`, line and cell: flags to options, options to a recording, its report to the user."""

import argparse
import ast
import sys
from pathlib import Path
from typing import Any

import msgspec
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.utils._process_common import arg_split
from traitlets import Bool, Int, Unicode

from jaxmagic.core.cells import Cells
from jaxmagic.core.recording import Options, Recording
from jaxmagic.records import Report
from jaxmagic.show import Display


class TraceRun:
    """A traced cell, from its first line to its end."""

    def __init__(self, shell: InteractiveShell, flags: argparse.Namespace, options: Options) -> None:
        self._shell = shell
        self._flags = flags
        self._recording = Recording(options, _cells(shell))
        self._display = None if flags.quiet else Display(shell)

    def start(self, frame: Any) -> None:
        """Starts to record; `frame` is the cell's own, where it already runs.

        Raises:
            UsageError: The backend asked for is not there.
        """
        try:
            self._recording.start(frame)
        except ValueError as error:
            raise UsageError(str(error)) from None
        if self._display is not None:
            with self._recording.limits.guard("the panel while the cell runs"):
                self._display.running(self._recording.running())

    def finish(self, error: BaseException | None, value: Any = None) -> None:
        """Ends the recording, shows the report, and hands it over as `-o` and `--to` asked."""
        self._recording.stop(error, value)
        report = self._recording.report()
        if self._flags.to:
            report = _append(report, Path(self._flags.to).expanduser())
        if self._flags.output:
            self._shell.push({self._flags.output: report})
        if self._display is not None:
            self._display.final(report)


@magics_class
class JaxMagic(Magics):
    """Defaults of the magics: `%config JaxMagic.hlo = False`."""

    backend = Unicode("", help="Device to run on: cpu, gpu, tpu, cpu:1. Empty: JAX's own choice.").tag(config=True)
    hlo = Bool(True, help="Keep StableHLO and optimized HLO.").tag(config=True)
    retrace = Bool(True, help="Look again at functions that were compiled before the cell ran.").tag(config=True)
    quiet = Bool(False, help="Show nothing; `-o NAME` still hands over the report.").tag(config=True)
    max_traces = Int(0, help="Stop when a function is traced more often in one cell; 0: never.").tag(config=True)

    @magic_arguments()
    @argument("--fn", action="append", default=[], metavar="NAME", help="only this function (repeatable)")
    @argument("--module", action="append", default=[], metavar="NAME", help="an installed package to treat as yours")
    @argument("--no-retrace", action="store_true", help="do not look again at functions compiled earlier")
    @argument("--max-traces", type=int, metavar="N", help="stop when a function is traced more often")
    @argument("--no-hlo", action="store_true", help="leave StableHLO and optimized HLO out")
    @argument("--backend", metavar="DEVICE", help="cpu, gpu or tpu, with an index if you like: cpu:1")
    @argument("-o", dest="output", metavar="NAME", help="put the Report into this variable")
    @argument("-q", dest="quiet", action="store_true", help="show nothing")
    @argument("--to", metavar="FILE", help="append the Report to this file, as one line of JSON")
    @argument("statement", nargs=argparse.REMAINDER, help="line form only: what to run")
    @no_var_expand
    @line_cell_magic
    def jaxtrace(self, line: str, cell: str | None = None) -> Any:
        """Shapes beside each line, every compiled function with its programs and cost, failures explained.

        `%%jaxtrace` on top of a cell, or `%jaxtrace STATEMENT`.
        """
        if cell is not None:
            self._shell.run_cell(f"%%jaxtrace {line}\n{cell}")
            return None
        flags = self._flags(line)
        if not flags.statement:
            raise UsageError("%jaxtrace needs a statement: `%jaxtrace f(x)`; to trace a whole cell, use %%jaxtrace.")
        run = TraceRun(self._shell, flags, self._options(f"%jaxtrace {line}", flags))
        run.start(None)
        try:
            value = _run_statement(self._shell, _statement(line, flags.statement))
        except BaseException as error:
            run.finish(error)
            raise
        run.finish(None, value)
        return value

    def begin(self, magic: str, line: str) -> TraceRun:
        """Starts a cell's recording; called from the cell's first line, two frames up.

        Raises:
            UsageError: A flag is unknown or its value can't be had; the cell does not run.
        """
        flags = self._flags(line)
        if flags.statement:
            raise UsageError(f"%%{magic} takes no {flags.statement[0]!r}; `%%{magic}?` lists its flags.")
        run = TraceRun(self._shell, flags, self._options(f"%%{magic} {line}".strip(), flags))
        run.start(sys._getframe(3))
        return run

    @property
    def _shell(self) -> InteractiveShell:
        assert isinstance(self.shell, InteractiveShell)
        return self.shell

    def _flags(self, line: str) -> argparse.Namespace:
        flags = parse_argstring(self.jaxtrace, line)
        flags.quiet = flags.quiet or self.quiet
        if flags.output and not flags.output.isidentifier():
            raise UsageError(f"-o takes the name of a variable, got {flags.output!r}.")
        return flags

    def _options(self, title: str, flags: argparse.Namespace) -> Options:
        return Options(
            title=title,
            functions=tuple(flags.fn),
            modules=tuple(flags.module),
            retrace=self.retrace and not flags.no_retrace,
            hlo=self.hlo and not flags.no_hlo,
            max_traces=flags.max_traces or self.max_traces or None,
            backend=flags.backend or self.backend or None,
        )


def _cells(shell: InteractiveShell) -> Cells:
    from jaxmagic.hooks import as_typed

    numbers: dict[str, int] = getattr(shell.compile, "_filename_map", {})
    return Cells(numbers.get, as_typed, shell.user_ns)


def _statement(line: str, words: list[str]) -> str:
    """The end of `line` that `words` were split from, with its spaces and quotes as typed."""
    starts = (at for at in range(len(line)) if line.startswith(words[0], at))
    return next(line[at:] for at in starts if arg_split(line[at:]) == words)


def _run_statement(shell: InteractiveShell, statement: str) -> Any:
    """Runs a statement in the user's namespace; the value, if it is an expression."""
    __tracebackhide__ = True
    text = shell.transform_cell(statement)
    file = shell.compile.cache(text, shell.execution_count, raw_code=statement)
    tree = shell.transform_ast(ast.parse(text, file))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, file, "exec"), shell.user_ns)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), file, "eval"), shell.user_ns)


def _append(report: Report, path: Path) -> Report:
    """Writes one line of JSON; a full disk or missing folder becomes a line in `limits`, never an error."""
    try:
        with path.open("ab") as file:
            file.write(msgspec.json.encode(report) + b"\n")
    except OSError as error:
        return msgspec.structs.replace(report, limits=(*report.limits, f"--to {path}: not written ({error})"))
    return report
