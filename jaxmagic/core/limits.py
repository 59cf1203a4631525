"""What was not observed, and why. Every hook of ours runs inside `Limits.guard`, so that it can fail alone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Deliberate(Exception):  # noqa: N818 - it ends the user's cell because the user asked for that
    """Raised by a hook of ours on purpose, and meant for the user: the one kind of error that `guard` lets pass."""


class Limits:
    """Collects one line per thing that was not observed; a repeated line is counted, not repeated."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, line: str) -> None:
        with self._lock:
            self._counts[line] = self._counts.get(line, 0) + 1

    @contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Swallows any `Exception` of our own code and notes `what` as not observed.

        Never put the user's code inside: its exceptions must pass.
        """
        try:
            yield
        except Deliberate:
            raise
        except Exception as error:  # noqa: BLE001 - a hook of ours must never end the user's cell
            self.add(f"{what}: not observed ({type(error).__name__}: {str(error)[:200]})")

    def lines(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(line if n == 1 else f"{line} (×{n})" for line, n in self._counts.items())
