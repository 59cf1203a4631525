"""`%jaxnojit --compare`: the cell with jit first, on copies; then without; then what the difference means."""

import argparse
from collections.abc import Callable
from typing import Any

import msgspec
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from jaxmagic.core.nojit.announcement import announcement
from jaxmagic.core.nojit.comparing import Comparing
from jaxmagic.core.nojit.numbers import Tolerance
from jaxmagic.core.recording import Options, Recording
from jaxmagic.magics.cell import cells_of
from jaxmagic.magics.statement import Piece, piece_of_cell, piece_of_statement
from jaxmagic.records import Report


class Comparison:
    """The runs of a cell beside the user's own.

    Args:
        shell: Whose namespace and output it is.
        flags: Of the magic.
        frame: The cell's own; None for a line magic.

    Raises:
        UsageError: The cell can't be run twice.
    """

    def __init__(self, shell: InteractiveShell, flags: argparse.Namespace, frame: Any) -> None:
        self._shell = shell
        self._quiet = flags.quiet
        self._piece: Piece = (
            piece_of_statement(shell, flags.statement) if frame is None else piece_of_cell(shell, frame)
        )
        tolerance = Tolerance(flags.rtol, flags.atol)
        self._comparing = Comparing(self._piece.tree, self._again, shell.user_ns, self._recorded, tolerance)

    def run_compiled(self) -> None:
        """Says what will happen, then runs the cell with jit."""
        if not self._quiet:
            print(announcement(self._piece.tree, self._comparing.uncopied))
        try:
            self._comparing.run_compiled()
        except KeyboardInterrupt:
            raise UsageError("interrupted in the run with jit; the run without it was not begun.") from None

    def added_to(self, report: Report, session: Recording, error: BaseException | None, value: Any) -> Report:
        """The report of the run without jit, with the comparison."""
        comparison = self._comparing.comparison(report, value, error, session.trail, session.limits)
        if report.failure is None and self._comparing.failure:
            findings = (*report.findings, *session.wanted(self._comparing.failure))
            report = session.with_sources(msgspec.structs.replace(report, findings=findings))
        return msgspec.structs.replace(report, comparison=comparison, limits=session.limits.lines())

    def _again(self) -> Any:
        with capture_output():
            return self._piece.run(self._shell.user_ns)

    def _recorded(self, run: Callable[[], Any]) -> tuple[Report, Any, BaseException | None]:
        recording = Recording(Options(title="with jit", retrace=False, hlo=False), cells_of(self._shell))
        value, error = None, None
        recording.start(None)
        try:
            value = run()
        except Exception as raised:  # noqa: BLE001 - what the user's code raises with jit is a result
            error = raised
        finally:
            recording.stop(error)
        return recording.report(), value, error
