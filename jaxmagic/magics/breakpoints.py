"""`breakpoint()` in a notebook without jit: IPython's debugger, below the cell."""

import sys
from typing import Any

from IPython.core.interactiveshell import InteractiveShell


class Breakpoints:
    """Makes `breakpoint()` stop between `start` and `stop`.

    A kernel that can be debugged from the front end (`debugpy` is installed) hands `breakpoint()` to that debugger,
    and does nothing at all while it is not attached, which is nearly always.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._in_kernel = hasattr(shell, "kernel")
        self._before: Any = None

    def start(self) -> None:
        if self._in_kernel and self._before is None and _does_nothing():
            self._before, sys.breakpointhook = sys.breakpointhook, _stop_here

    def stop(self) -> None:
        if self._before is not None and sys.breakpointhook is _stop_here:
            sys.breakpointhook = self._before
        self._before = None


def _does_nothing() -> bool:
    debugger: Any = sys.modules.get("debugpy")
    of_debugger = getattr(sys.breakpointhook, "__module__", "").startswith("debugpy")
    return debugger is not None and of_debugger and not debugger.is_client_connected()


def _stop_here(*_: Any, **__: Any) -> None:
    from IPython.core.debugger import set_trace

    set_trace(sys._getframe(1))
