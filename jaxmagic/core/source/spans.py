"""Files, cells and expressions ↔ spans: the one door to `texts`, `syntax`, `stores` and `policy`."""

from itertools import islice
from types import FrameType

from jaxmagic.core.source.policy import Policy
from jaxmagic.core.source.stores import stored_names
from jaxmagic.core.source.syntax import function_at, node_at, statement_at, tree
from jaxmagic.core.source.texts import lines_of, remember, source_record, text_of
from jaxmagic.records import Span

__all__ = [
    "Policy",
    "function_at",
    "lines_of",
    "node_at",
    "position",
    "remember",
    "source_record",
    "statement_at",
    "stored_names",
    "text_of",
    "tree",
]


def position(frame: FrameType) -> Span:
    """What a frame is evaluating; the whole of its current line where the bytecode does not say."""
    code = frame.f_code
    found = next(islice(code.co_positions(), max(frame.f_lasti, 0) // 2, None), (None,) * 4)
    line, end_line, column, end_column = found
    if line is None or end_line is None or column is None or end_column is None:
        return Span(code.co_filename, frame.f_lineno, 0, frame.f_lineno, 0)
    return Span(code.co_filename, line, column, end_line, end_column)
