"""One run of a magic: from the first line of its cell to the report in front of the user."""

import argparse
from pathlib import Path
from typing import Any

import msgspec
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from jaxmagic.core.cells import Cells
from jaxmagic.core.session import Session
from jaxmagic.magics.line import as_typed
from jaxmagic.magics.progress import ProgressBar
from jaxmagic.magics.versions import identities_of
from jaxmagic.records import Report
from jaxmagic.show import Display


class CellRun:
    """A recorded cell, or the statement of a line magic."""

    def __init__(
        self, shell: InteractiveShell, flags: argparse.Namespace, session: Session, progress: ProgressBar | None = None
    ) -> None:
        self.display = None if flags.quiet else Display(shell)
        self._shell = shell
        self._flags = flags
        self._session = session
        self._progress = progress

    def start(self, frame: Any) -> None:
        """Starts to record; `frame` is the cell's own, where it already runs.

        Raises:
            UsageError: The backend asked for is not there.
        """
        try:
            self._session.start(frame)
            self._show_running()
        except ValueError as error:
            raise UsageError(str(error)) from None
        except BaseException:  # an interrupt: nobody will call `finish`
            self._session.stop()
            raise

    def next_statement(self) -> None:
        """Another statement of the cell is about to run."""
        self._session.next_statement()

    def finish(self, error: BaseException | None, value: Any = None) -> None:
        """Ends the recording, shows the report, and hands it over as `-o` and `--to` asked.

        An interrupt now is meant for the report: the cell itself has ended.
        """
        try:
            self._session.stop(error, value)
            if self._progress is not None:
                self._progress.close()
            self._hand_over(error, value)
        except KeyboardInterrupt:
            if self.display is not None:
                self.display.final(self._session.remainder())

    def _show_running(self) -> None:
        if self.display is not None:
            with self._session.limits.guard("the panel while the cell runs"):
                self.display.running(self._session.running())

    def _hand_over(self, error: BaseException | None, value: Any) -> None:
        report = self.completed(self._session.report(), error, value)
        if self._flags.to:
            report = _append(report, Path(self._flags.to).expanduser())
        if self._flags.output:
            self._shell.push({self._flags.output: self.output(report)})
        if self.display is not None:
            self.display.final(report)

    def completed(self, report: Report, error: BaseException | None, value: Any) -> Report:
        """The report with what only the run of the whole cell can add."""
        return report

    def output(self, report: Report) -> Any:
        """What `-o NAME` puts into the variable."""
        return report


def cells_of(shell: InteractiveShell) -> Cells:
    numbers: dict[str, int] = getattr(shell.compile, "_filename_map", {})
    identities = identities_of(shell)
    return Cells(
        number=numbers.get,
        identity=lambda file: identities.get(numbers.get(file, -1)),
        typed=as_typed,
        namespace=shell.user_ns,
    )


def _append(report: Report, path: Path) -> Report:
    """Writes one line of JSON; a full disk or missing folder becomes a line in `limits`, never an error."""
    try:
        with path.open("ab") as file:
            file.write(msgspec.json.encode(report) + b"\n")
    except OSError as error:
        return msgspec.structs.replace(report, limits=(*report.limits, f"--to {path}: not written ({error})"))
    return report
