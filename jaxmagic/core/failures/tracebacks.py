"""Tracebacks as they were before JAX cut its own frames out, which it does outside of IPython."""

from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import Any

from jaxmagic.core.jax_internals import PIECES, exclude_from_tracebacks
from jaxmagic.core.wrapping import wrapped

exclude_from_tracebacks(__file__)

Entries = list[tuple[FrameType, int]]
"""Frames, outermost first, each with the instruction it stood at."""


class Tracebacks:
    """Remembers the last traceback that JAX shortened, from `start` until `forget`; what the user sees stays short."""

    def __init__(self) -> None:
        self._whole: TracebackType | None = None
        self._undo = ExitStack()

    def start(self) -> None:
        if PIECES["filter_traceback"].present:
            self._undo.enter_context(wrapped("filter_traceback", self._shorten))

    def stop(self) -> None:
        self._undo.close()

    def entries(self, error: BaseException) -> Entries:
        """The frames of an exception, with those that JAX cut out of its traceback."""
        shown, whole = walk(error.__traceback__), walk(self._whole)
        inside = {id(frame) for frame, _ in whole}
        if not shown or not (id(shown[-1][0]) in inside or _has_lost_all(error, shown, whole)):
            return shown  # another exception, or one that JAX has not shortened
        return [entry for entry in shown if id(entry[0]) not in inside] + whole

    def forget(self) -> None:
        """Lets the frames go, and what their variables hold."""
        self._whole = None

    def _shorten(self, inner: Any, traceback: TracebackType) -> Any:
        self._whole = traceback
        return inner(traceback)


def _has_lost_all(error: BaseException, shown: Entries, whole: Entries) -> bool:
    """Whether the last line shown is the user's call of JAX, none of whose frames were left."""
    notes = getattr(error, "__notes__", ())
    return bool(whole) and whole[0][0].f_back is shown[-1][0] and any("internal frames" in str(note) for note in notes)


def walk(traceback: TracebackType | None) -> Entries:
    found = []
    while traceback is not None:
        found.append((traceback.tb_frame, traceback.tb_lasti))
        traceback = traceback.tb_next
    return found
