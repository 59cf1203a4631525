"""What a terminal would show of a line that is written piece by piece."""

import re

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


def overwritten(text: str) -> str:
    r"""A line in which each carriage return begins anew at its start, over what was there; without colours.

    Example:
        >>> overwritten("10%\r100%\r ok")
        ' ok%'
    """
    shown = ""
    for part in _ESCAPE.sub("", text).split("\r"):
        shown = part + shown[len(part) :]
    return shown


def so_far(text: str) -> str:
    """The same for a line that goes on: a carriage return at its end is still to come into effect."""
    return overwritten(text) + "\r" * text.endswith("\r") if "\r" in text else text
