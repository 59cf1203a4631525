"""How far work without jit has come: a bar in a notebook, one line in a terminal; gone when the cell ends."""

import sys
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import DisplayHandle, display

from jaxmagic.core.nojit.steps import Progress
from jaxmagic.core.output.prints import beneath

_WIDTH = 79


class ProgressBar:
    """Called with each state of the work; nothing is shown before the first call."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._in_kernel = hasattr(shell, "kernel")
        self._handle: DisplayHandle | None = None
        self._shown = False

    def __call__(self, progress: Progress) -> None:
        self._shown = True
        if self._in_kernel:
            self._display({"text/plain": str(progress), "text/html": _html(progress)})
        else:
            _write(f"\r{_line(progress):<{_WIDTH}}")

    def close(self) -> None:
        if not self._shown:
            return
        if self._in_kernel:
            self._display({"text/plain": "", "text/html": ""})
        else:
            _write(f"\r{'':<{_WIDTH}}\r")

    def _display(self, bundle: dict[str, Any]) -> None:
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def _write(text: str) -> None:
    stream = beneath(sys.stderr)
    stream.write(text)
    stream.flush()


def _line(progress: Progress) -> str:
    share = progress.fraction
    text = f"{'' if share is None else f'{share:4.0%} '}{progress}"
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _html(progress: Progress) -> str:
    share = progress.fraction
    bar = "<progress></progress>" if share is None else f'<progress value="{share:.4f}"></progress>'
    return f'<div role="status">{bar} {progress}</div>'
