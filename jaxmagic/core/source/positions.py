"""Where functions are defined and where user code stands, as spans."""

import ast
import re
from types import CodeType, FrameType

from jaxmagic.core.capture.ownership import IsUser
from jaxmagic.core.source.syntax import definition_span, span_of, tree
from jaxmagic.records import Span

_DESCRIBED = re.compile(r"(?P<name>.*) at (?P<file>.*):(?P<line>\d+)$")


def definition(code: CodeType, owner: str) -> Span:
    """Where a function is defined. A library's source isn't parsed for it: its first line will do."""
    if owner == "user":
        return definition_span(code)
    return Span(code.co_filename, code.co_firstlineno, 0, code.co_firstlineno, 0)


def described(text: str, is_user: IsUser) -> tuple[str, Span | None]:
    """Name and place in JAX's `step at /home/me/train.py:12`."""
    found = _DESCRIBED.match(text)
    if found is None:
        return text, None
    name, file, line = found["name"], found["file"], int(found["line"])
    known = _definition_at(name, file, line) if is_user(file) else None
    return name, known or Span(file, line, 0, line, 0)


def _definition_at(name: str, file: str, line: int) -> Span | None:
    """The function of a name that begins in a line, decorators included; the first, should there be several lambdas."""
    for node in ast.walk(tree(file) or ast.Module([], [])):
        if isinstance(node, ast.FunctionDef | ast.Lambda) and getattr(node, "name", "<lambda>") == name:
            decorators = [each.lineno for each in getattr(node, "decorator_list", ())]
            if min([node.lineno, *decorators]) == line:
                return span_of(file, node)
    return None


def user_frame(frame: FrameType | None, is_user: IsUser) -> FrameType | None:
    """The innermost frame of the user's, from `frame` outwards."""
    while frame is not None and not is_user(frame.f_code.co_filename):
        frame = frame.f_back
    return frame
