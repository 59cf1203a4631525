"""One run of `%%jaxtap`: its panel is told what comes while it runs."""

import argparse
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from jaxmagic.core.live import LiveFeed
from jaxmagic.core.tapping import Tapping
from jaxmagic.magics.cell import CellRun
from jaxmagic.records import Report


class TapRun(CellRun):
    """A tapped cell, whose panel is told what comes while it runs."""

    def __init__(self, shell: InteractiveShell, flags: argparse.Namespace, session: Tapping) -> None:
        super().__init__(shell, flags, session)
        self._tapping = session
        self._feed = LiveFeed(session, self.display.live, session.limits) if self.display else None

    def start(self, frame: Any) -> None:
        super().start(frame)
        if self._feed is not None:
            self._feed.start()

    def finish(self, error: BaseException | None, value: Any = None) -> None:
        if self._feed is not None:
            self._feed.stop()
        super().finish(error, value)

    def output(self, report: Report) -> Any:
        """The series, with `.report` beside them."""
        return self._tapping.tapped
