"""MLIR locations, as JAX writes them, into a table of user frames."""

import re
from collections.abc import Callable
from typing import NamedTuple

from jaxmagic.core.programs.stacks import FrameTable
from jaxmagic.records import Span

STRING = r'"(?:[^"\\]|\\.)*"'

_FILE = re.compile(rf"({STRING}):(\d+):(\d+)(?: to (\d+)?:(\d+))?$")
_NAMED = re.compile(rf"({STRING})\((.*)\)$")
_CALL_SITE = re.compile(r"callsite\((.*) at (.*)\)$")
_FUSED = re.compile(r"fused(?:<.*?>)?\[(.*)\]$")
_ESCAPED = re.compile(r"\\([0-9A-Fa-f]{2}|.)")


class _Place(NamedTuple):
    span: Span
    function: str = ""


_Chain = tuple[_Place, ...]
"""Innermost first."""


class Locations:
    """The frames of locations of one module.

    Args:
        aliases: Text of `#loc12` by `loc12`.
        is_user: Whether a file name is the user's code; other frames are left out.
    """

    def __init__(self, aliases: dict[str, str], is_user: Callable[[str], bool]) -> None:
        self.table = FrameTable()
        self._aliases = aliases
        self._is_user = is_user
        self._chains: dict[str, tuple[_Chain, ...]] = {}

    def frames(self, location: str) -> tuple[int, ...]:
        """Innermost user frames of a location (the text between the parentheses), several where it is fused."""
        return self.table.distinct(map(self._index, self._read(location)))

    def _index(self, chain: _Chain) -> int:
        index, last = -1, None
        for place in reversed(chain):
            # JAX names the frame of a region's owner once more for each operation in it.
            if place != last and self._is_user(place.span.file):
                index = self.table.index(place.span, place.function, index)
            last = place
        return index

    def _read(self, location: str) -> tuple[_Chain, ...]:
        known = self._chains.get(location)
        if known is None:
            known = self._chains[location] = self._parsed(location)
        return known

    def _parsed(self, location: str) -> tuple[_Chain, ...]:
        if location.startswith("#"):
            return self._read(self._aliases.get(location[1:], "unknown"))
        if found := _FILE.match(location):
            return ((_Place(_span(*found.groups())),),)
        if found := _NAMED.match(location):
            return tuple(_named(chain, found[1]) for chain in self._read(found[2]))
        if found := _CALL_SITE.match(location):
            outer = self._read(found[2])
            return tuple(chain + (outer[0] if outer else ()) for chain in self._read(found[1]))
        if found := _FUSED.match(location):
            return tuple(chain for part in found[1].split(", ") for chain in self._read(part))
        return ()


def _named(chain: _Chain, name: str) -> _Chain:
    """The name next to a file is the function's; the names around it are those of JAX's operations."""
    if len(chain) == 1 and not chain[0].function:
        return (chain[0]._replace(function=_unquoted(name)),)
    return chain


def _span(file: str, line: str, column: str, end_line: str | None, end_column: str | None) -> Span:
    return Span(_unquoted(file), int(line), int(column), int(end_line or line), int(end_column or column))


def _unquoted(text: str) -> str:
    """The text inside the quotes; MLIR escapes bytes as two hexadecimal digits."""
    if "\\" not in text:
        return text[1:-1]
    data = _ESCAPED.sub(lambda found: _unescaped(found[1]), text[1:-1])
    return data.encode("latin-1", "replace").decode("utf-8", "replace")


def _unescaped(code: str) -> str:
    return chr(int(code, 16)) if len(code) == 2 else code
