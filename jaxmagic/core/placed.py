"""Errors that are about a line of the user's, wherever they are raised."""

from jaxmagic.core.limits import Deliberate
from jaxmagic.core.source.spans import text_of
from jaxmagic.records import Frame


class Placed(Deliberate):
    """A stop or an error that concerns one line."""

    def __init__(self, message: str, place: Frame | None = None) -> None:
        super().__init__(message)
        self.place = place
        """The line, and the function that it is in."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the line itself; the stack at the moment is JAX's and ours."""
        lines = text_of(self.place.span).splitlines() if self.place else []
        return [f"{type(self).__name__}: {self}", *(f"    {line}" for line in lines[:10])]


class Theirs(Deliberate):
    """Carries an exception of a function of the user's through our hooks, up to who can raise that one."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error
