"""Where functions are defined and where user code stands, as spans."""

import re
from types import CodeType, FrameType

from jaxmagic.core.ownership import IsUser
from jaxmagic.records import Span

_DESCRIBED = re.compile(r"(?P<name>.*) at (?P<file>.*):(?P<line>\d+)$")


def definition(code: CodeType) -> Span:
    """From the first line of a function, decorators included, to the last line of its body."""
    last = max((end for _, end, _, _ in code.co_positions() if end), default=code.co_firstlineno)
    return Span(code.co_filename, code.co_firstlineno, 0, max(last, code.co_firstlineno), 0)


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
