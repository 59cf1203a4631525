"""Tables of user frames, callers shared, and the way from JAX's tracebacks into them."""

from collections.abc import Callable, Iterable
from itertools import islice
from types import CodeType
from typing import Any

from jaxmagic.core.jax_internals import frames_within_trace, is_whole
from jaxmagic.records import Frame, Span


class FrameTable:
    """Frames, each kept once per caller; a frame is named by its index, and -1 is "no frame"."""

    def __init__(self) -> None:
        self._indices: dict[tuple[Span, str, int], int] = {}
        self._frames: list[Frame] = []

    def index(self, span: Span, function: str, parent: int) -> int:
        index = self._indices.setdefault((span, function, parent), len(self._frames))
        if index == len(self._frames):
            self._frames.append(Frame(span, function, parent))
        return index

    def frames(self) -> tuple[Frame, ...]:
        return tuple(self._frames)

    def frame(self, index: int) -> Frame:
        return self._frames[index]

    def distinct(self, indices: Iterable[int]) -> tuple[int, ...]:
        """The indices without "no frame", and of several ways to the same expression the first."""
        by_span: dict[Span, int] = {}
        for index in indices:
            if index >= 0:
                by_span.setdefault(self._frames[index].span, index)
        return tuple(by_span.values())


class Stacks:
    """Turns the tracebacks of equations into indices of one `FrameTable`.

    Args:
        is_user: Whether a file name is the user's code; only frames of such files are kept.
    """

    def __init__(self, is_user: Callable[[str], bool]) -> None:
        self.table = FrameTable()
        self._is_user = is_user
        self._files: dict[str, bool] = {}
        self._places: dict[tuple[int, int], tuple[Span, str]] = {}
        self._known: dict[tuple[Any, int, Any], int] = {}

    def index(self, traceback: Any, outer: int, traced: tuple[str, int] | None = None) -> int:
        """Index of the innermost user frame, `outer` being that of the equation whose region we are in.

        A library's own region has no user frame, so its equations are attributed to the outer equation.

        Args:
            traceback: Of the equation.
            outer: The index of the frame that the region is in.
            traced: File and first line of the function whose trace the region is, where that is known.
        """
        if traceback is None:
            return outer
        key = (traceback, outer, traced)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._add(traceback, outer, traced)
        return known

    def _add(self, traceback: Any, outer: int, traced: tuple[str, int] | None) -> int:
        index = outer
        within = frames_within_trace(traceback)
        if traced is not None:
            own = [at for at, (code, _) in enumerate(within) if (code.co_filename, code.co_firstlineno) == traced]
            if not own:
                return outer  # kept from another trace, as JAX does with derivatives of its own functions
            within = within[: own[-1] + 1]  # further out is whoever called it first
        frames = [each for each in reversed(within) if self._of_user(each[0].co_filename)]
        places = [self._place(code, offset) for code, offset in frames]
        if places and outer >= 0 and is_whole(within) and self._is_of_another_call(places, outer):
            return outer
        for span, function in places:
            index = self.table.index(span, function, index)
        return index

    def _is_of_another_call(self, places: list[tuple[Span, str]], outer: int) -> bool:
        """Whether frames, outermost first, are not those of the call that `outer` is, whose region they are found in.

        JAX keeps what it derives of its own functions, with the frames of who called first.
        """
        caller, (span, function) = self.table.frame(outer), places[-1]
        if (caller.span.file, caller.function) not in {(each.file, name) for each, name in places}:
            return True
        return (span.file, function) == (caller.span.file, caller.function) and span != caller.span

    def of_library(self, traced: tuple[str, int] | None) -> tuple[str, int] | None:
        """The same, of a function that isn't the user's."""
        return traced if traced is not None and not self._of_user(traced[0]) else None

    def _of_user(self, file: str) -> bool:
        answer = self._files.get(file)
        if answer is None:
            answer = self._files[file] = self._is_user(file)
        return answer

    def _place(self, code: CodeType, offset: int) -> tuple[Span, str]:
        # By identity: equal code objects of two cells differ in their file name only, which `==` ignores.
        key = (id(code), offset)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = (span_of(code, offset), code.co_qualname)
        return place


def span_of(code: CodeType, offset: int) -> Span:
    """The source text that the instruction at a byte offset of `code` was compiled from."""
    position = next(islice(code.co_positions(), offset // 2, None), (None, None, None, None))
    line, end_line, column, end_column = position
    line = line or code.co_firstlineno
    return Span(code.co_filename, line, column or 0, end_line or line, end_column or 0)
