"""The line of a cell magic, and the call that stands in its place while the cell runs."""

import ast
import linecache
import re
from collections.abc import Container

_CALL = re.compile(r"(?:^|; )__import__\('jaxmagic\.hooks'\)\.hooks\.begin\((.+)\)\n", re.MULTILINE)
_COMMENT = "#: "
"""Before the magic's line where only Python may stand; other than what an editor writes to comment a line out."""


def call_for(magic: str, line: str) -> str:
    """The call in the place of a magic's line, as one line of Python."""
    options = line.strip().removeprefix(f"%%{magic}").strip()
    return f"__import__('jaxmagic.hooks').hooks.begin({magic!r}, {options!r})\n"


def as_typed(text: str) -> str:
    """The text of a cell with its magic's line as the user wrote it, from the text that IPython compiled."""
    return _with_line(text, "").removeprefix(_COMMENT)


def hide_call(file: str) -> None:
    """Puts the magic's line, as a comment, where a traceback or debugger would show the call."""
    lines = linecache.getlines(file)
    lines[:] = _with_line("".join(lines), _COMMENT).splitlines(keepends=True)


def _with_line(text: str, before: str) -> str:
    found = _CALL.search(text)
    if found is None:
        return text
    magic, options = ast.literal_eval(f"({found[1]})")
    line = before + f"%%{magic} {options}".rstrip() + "\n"
    if not found[0].startswith("; "):
        return text.replace(found[0], line, 1)
    return line + text.replace(found[0], "\n", 1).removeprefix("\n")


def handed_on(cell: str, ours: Container[str]) -> str:
    """What another cell magic, `%%time` for one, runs of a cell: all of it but that magic's own line."""
    lines = cell.splitlines(keepends=True)
    for number, text in enumerate(lines):
        if text.startswith("%%") and text.split(maxsplit=1)[0].removeprefix("%%") not in ours:
            return "".join(lines[:number] + lines[number + 1 :])
    return cell
