"""One run of `%jaxnojit`: a debugger where asked for, and the same cell with jit beside it."""

import argparse
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from jaxmagic.core.recording import Recording
from jaxmagic.magics.breakpoints import Breakpoints
from jaxmagic.magics.cell import CellRun
from jaxmagic.magics.comparison import Comparison
from jaxmagic.magics.progress import ProgressBar
from jaxmagic.records import Report


class NoJitRun(CellRun):
    """A cell without jit, in which IPython may open its debugger, or beside which it runs with jit."""

    def __init__(
        self, shell: InteractiveShell, flags: argparse.Namespace, session: Recording, progress: ProgressBar
    ) -> None:
        super().__init__(shell, flags, session, progress)
        self._recording = session
        self._comparison: Comparison | None = None
        self._debugs_before = shell.call_pdb
        self._breakpoints = Breakpoints(shell)

    def start(self, frame: Any) -> None:
        if self._flags.compare:
            self._comparison = Comparison(self._shell, self._flags, frame)
            self._comparison.run_compiled()
        super().start(frame)
        self._breakpoints.start()
        if self._flags.pdb:
            self._shell.call_pdb = True

    def finish(self, error: BaseException | None, value: Any = None) -> None:
        self._shell.call_pdb = self._debugs_before
        self._breakpoints.stop()
        super().finish(error, value)

    def completed(self, report: Report, error: BaseException | None, value: Any) -> Report:
        if self._comparison is None:
            return report
        return self._recording.tried("the comparison", lambda: self._added(report, error, value), report)

    def _added(self, report: Report, error: BaseException | None, value: Any) -> Report:
        assert self._comparison is not None
        return self._comparison.added_to(report, self._recording, error, value)
