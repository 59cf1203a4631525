"""Record → one mimebundle: text, static HTML, the saved payload, and the live panel where a kernel has one."""

import sys
from contextlib import suppress
from typing import Any

import msgspec
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import DisplayHandle, display

from jaxmagic import html, text
from jaxmagic.fit import payload
from jaxmagic.records import Live, Report

REPORT_MIME = "application/vnd.jaxmagic.report+json"
VIEW_MIME = "application/vnd.jupyter.widget-view+json"


class Display:
    """One output of a cell: shown when the cell begins, brought up to date, final when it ends."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._in_kernel = hasattr(shell, "kernel")
        self._panel: Any = None
        self._handle: DisplayHandle | None = None

    def running(self, report: Report) -> None:
        """Shows the panel, where there is a front end to show it; a terminal stays quiet until the end."""
        if not self._in_kernel:
            return
        from jaxmagic import widget

        bundle: dict[str, Any] = {"text/plain": f"{report.title}: running"}
        if widget.is_built():
            self._panel = widget.Panel(payload=msgspec.to_builtins(payload(report)))
            bundle[VIEW_MIME] = self._view()
        self._handle = display(bundle, raw=True, display_id=True)

    def update(self, report: Report) -> None:
        if self._panel is not None:
            self._panel.payload = msgspec.to_builtins(payload(report))

    def live(self, news: Live) -> None:
        """Hands the panel what came since the last message; called from other threads too."""
        if self._panel is not None:
            self._panel.send({"kind": "live", "live": msgspec.to_builtins(news)})

    def final(self, report: Report) -> None:
        """Replaces what was shown by the finished report, in every form that can be made of it."""
        if not self._in_kernel:
            print(_plain(report, color=sys.stdout.isatty()))
            return
        bundle: dict[str, Any] = {"text/plain": _plain(report)}
        with suppress(Exception):  # the other forms stand in for one that fails
            bundle["text/html"] = html.render(report)
        with suppress(Exception):
            bundle[REPORT_MIME] = msgspec.to_builtins(payload(report))
            if self._panel is not None:
                self._panel.payload = bundle[REPORT_MIME]
                bundle[VIEW_MIME] = self._view()
        if self._handle is None:
            display(bundle, raw=True)
        else:
            self._handle.update(bundle, raw=True)

    def _view(self) -> dict[str, Any]:
        return {"version_major": 2, "version_minor": 0, "model_id": self._panel.model_id}


def _plain(report: Report, *, color: bool = False) -> str:
    """The text view; one line that says what failed where it can't be made."""
    try:
        return text.render(report, color=color)
    except Exception as error:  # noqa: BLE001 - the cell is done, a view of it must not fail it
        return f"{report!r}\nThe text view failed ({type(error).__name__}: {error}); `-o NAME` has the report."
