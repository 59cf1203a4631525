"""A polite stop: when the time is up, the cell ends between two lines, with everything it has stored so far."""

import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from jaxmagic.core.limits import Deliberate
from jaxmagic.core.nojit.steps import Steps


class OverBudget(Deliberate):
    """The seconds of `--budget` are used up."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the stop was asked for, so no stack is needed to understand it."""
        return [f"{type(self).__name__}: {self}"]


def alarm(seconds: float, wake: Callable[[], None]) -> Callable[[], None]:
    """Calls `wake` when the time is up: in a loop without operations of JAX, lines have become silent by then.

    Returns:
        What takes the alarm back.
    """
    timer = threading.Timer(seconds + 0.01, wake)
    timer.daemon = True
    timer.start()
    return timer.cancel


class Budget:
    """Listens to lines, and raises at the end of the first one that comes too late."""

    def __init__(self, seconds: float | None, steps: Steps) -> None:
        self._seconds = seconds
        self._steps = steps
        self.stopped = ""
        """Where it ended, once it has."""

    @property
    def over(self) -> bool:
        return self._seconds is not None and self._steps.seconds > self._seconds

    def entered(self, frame: FrameType) -> bool:
        return False

    def stepped(self, frame: FrameType, line: int) -> bool:
        if self.over:
            loops = self._steps.running()
            inside = f", in {', in '.join(map(str, reversed(loops)))}" if loops else ""
            self.stopped = f"after line {line} of {frame.f_code.co_qualname}{inside}"
            raise OverBudget(
                f"stopped {self.stopped}: the budget of {self._seconds:g} s is used up. "
                "Variables hold what was computed so far; the report shows the values at the lines that ran."
            )
        return False

    def left(self, frame: FrameType, line: int, value: Any) -> bool:
        return False
