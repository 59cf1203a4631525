"""The line of a cell magic, and the call that stands in its place while the cell runs."""

import ast
import re


def call_for(magic: str, line: str) -> str:
    """The call in the place of a magic's line, as one line of Python."""
    options = line.strip().removeprefix(f"%%{magic}").strip()
    return f"__import__('jaxmagic.hooks').hooks.begin({magic!r}, {options!r})\n"


_CALL = re.compile(r"__import__\('jaxmagic\.hooks'\)\.hooks\.begin\((.+)\)\n")


def as_typed(text: str) -> str:
    """The text of a cell with its magic's line as the user wrote it, from the text that IPython compiled."""

    def magic_line(call: re.Match[str]) -> str:
        magic, options = ast.literal_eval(f"({call[1]})")
        return f"%%{magic} {options}".rstrip() + "\n"

    return _CALL.sub(magic_line, text, count=1)
