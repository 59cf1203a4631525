"""The line of a cell magic, and the call that stands in its place while the cell runs."""

import ast
import linecache
import re
from collections.abc import Container

_CALL = re.compile(r"(?:^|; )__import__\('jaxmagic\.hooks'\)\.hooks\.begin\((.+)\)\n", re.MULTILINE)
_OF_IPYTHON = re.compile(
    r"^(?P<before>\s*(?:[^'\"#\n]*= )?)get_ipython\(\)\."
    r"(?P<method>run_line_magic|system|getoutput)\((?P<arguments>'.*'|\".*\")\)(?P<after>;?\s*)$",
    re.MULTILINE,
)
"""A statement that IPython made of a line magic, of `!command` or of `name?`."""

_COMMENT = "#: "
"""Before the magic's line where only Python may stand; other than what an editor writes to comment a line out."""


def call_for(magic: str, line: str) -> str:
    """The call in the place of a magic's line, as one line of Python."""
    options = line.strip().removeprefix(f"%%{magic}").strip()
    return f"__import__('jaxmagic.hooks').hooks.begin({magic!r}, {options!r})\n"


def as_typed(text: str) -> str:
    """The text of a cell as the user wrote it, from the text that IPython compiled: our line, and other magics."""
    return _OF_IPYTHON.sub(_special, _with_line(text, "").removeprefix(_COMMENT))


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


def _special(statement: re.Match[str]) -> str:
    try:
        first, *rest = ast.literal_eval(f"({statement['arguments']},)")
    except (SyntaxError, ValueError):
        return statement[0]
    if statement["method"] != "run_line_magic":
        line = f"!{first}"
    elif first in _HELP:
        line = f"{rest[0]}{_HELP[first]}"
    else:
        line = f"%{first} {rest[0]}".rstrip()
    return f"{statement['before']}{line}{statement['after']}"


_HELP = {"pinfo": "?", "pinfo2": "??"}
"""Magics that a question mark after a name stands for."""


def handed_on(cell: str, ours: Container[str]) -> str:
    """What another cell magic, `%%time` for one, runs of a cell: all of it but that magic's own line."""
    lines = cell.splitlines(keepends=True)
    for number, text in enumerate(lines):
        if text.startswith("%%") and text.split(maxsplit=1)[0].removeprefix("%%") not in ours:
            return "".join(lines[:number] + lines[number + 1 :])
    return cell
