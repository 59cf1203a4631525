"""Where functions are defined and where user code stands, as spans."""

import re
from types import CodeType, FrameType

from jaxmagic.core.ownership import IsUser
from jaxmagic.core.syntax import definition_span
from jaxmagic.records import Span

_DESCRIBED = re.compile(r"(?P<name>.*) at (?P<file>.*):(?P<line>\d+)$")


def definition(code: CodeType, owner: str) -> Span:
    """Where a function is defined. A library's source isn't parsed for it: its first line will do."""
    if owner == "user":
        return definition_span(code)
    return Span(code.co_filename, code.co_firstlineno, 0, code.co_firstlineno, 0)


def described(text: str) -> tuple[str, Span | None]:
    """Name and place in JAX's `step at /home/me/train.py:12`."""
    found = _DESCRIBED.match(text)
    if found is None:
        return text, None
    line = int(found["line"])
    return found["name"], Span(found["file"], line, 0, line, 0)


def user_frame(frame: FrameType | None, is_user: IsUser) -> FrameType | None:
    """The innermost frame of the user's, from `frame` outwards."""
    while frame is not None and not is_user(frame.f_code.co_filename):
        frame = frame.f_back
    return frame
