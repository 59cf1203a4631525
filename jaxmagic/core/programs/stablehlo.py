"""Reads StableHLO text with locations: which operation stands on which line, in which function, at which location."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from jaxmagic.core.programs.locations import STRING, Locations
from jaxmagic.records import Instruction, Listing

_ALIAS = re.compile(r"#(loc\d*) = loc\((.*)\)$")
_PART = rf"(?:[^()\"]|{STRING})"
_LOCATION = re.compile(rf" loc\(((?:{_PART}|\((?:{_PART}|\({_PART}*\))*\))*)\)")
_OPERATION = re.compile(r"\s*(?:(%[\w#]+)[^=]* = )?\"?([a-z_]\w*\.[\w.]+|return|call)\"?(?![\w.])")
_FUNCTION = re.compile(r"\s*func\.func .*?@\"?([\w.$\-]+)")
_CALLEE = re.compile(r"(?:func\.)?call @\"?([\w.$\-]+)")


@dataclass
class _Operation:
    line: int
    indent: int
    name: str
    opcode: str
    function: str
    """The function it stands in."""
    callee: str
    location: str | None = None
    """None until it is met: that of an operation with regions follows the last brace."""


@dataclass
class _Module:
    """StableHLO text taken apart."""

    lines: list[str] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    operations: list[_Operation] = field(default_factory=list)


def read_stablehlo(text: str, is_user: Callable[[str], bool]) -> Listing:
    """See `listings.stablehlo_listing`."""
    module = _taken_apart(text)
    locations = Locations(module.aliases, is_user)
    calls = _Calls(module.operations, locations)
    instructions = tuple(
        Instruction(operation.line, operation.name, operation.opcode, calls.frames(operation))
        for operation in module.operations
        if operation.opcode != "func.func"
    )
    return Listing("stablehlo", "\n".join(module.lines) + "\n", instructions, locations.table.frames())


def _taken_apart(text: str) -> _Module:
    module = _Module()
    opened: list[_Operation] = []
    function = ""
    for line in text.splitlines():
        alias = _ALIAS.match(line)
        if alias:
            module.aliases[alias[1]] = alias[2]
            continue
        header = _FUNCTION.match(line)
        function = header[1] if header else function
        shown, location = _without_locations(line)
        module.lines.append(shown)
        operation = _operation(shown, len(module.lines), function)
        if operation:
            operation.location = location
            module.operations.append(operation)
            if location is None:
                opened.append(operation)
        elif location is not None:
            _close(opened, _indent(shown), location)
    return module


def _without_locations(line: str) -> tuple[str, str | None]:
    """The line as shown, and the location at its end, if there is one."""
    location = None
    for found in _LOCATION.finditer(line):
        location = found[1] if found.end() == len(line) else None
    return _LOCATION.sub("", line), location


def _operation(line: str, number: int, function: str) -> _Operation | None:
    found = _OPERATION.match(line)
    if found is None:
        return None
    callee = _CALLEE.search(line)
    return _Operation(number, _indent(line), found[1] or "", found[2], function, callee[1] if callee else "")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _close(opened: list[_Operation], indent: int, location: str) -> None:
    """Gives a location after a closing brace to the operation that began at the brace's indentation."""
    while opened and opened[-1].indent >= indent:
        operation = opened.pop()
        if operation.indent == indent:
            operation.location = location
            return


class _Calls:
    """Frames of operations; those of a function without user code of its own are those of the calls of it."""

    def __init__(self, operations: list[_Operation], locations: Locations) -> None:
        self._locations = locations
        self._callers: dict[str, list[_Operation]] = {}
        for operation in operations:
            if operation.callee:
                self._callers.setdefault(operation.callee, []).append(operation)

    def frames(self, operation: _Operation) -> tuple[int, ...]:
        found: list[int] = []
        waiting, met = [operation], set()
        while waiting:
            each = waiting.pop()
            callers = self._callers.get(each.function, [])
            own = self._own(each, callers)
            found.extend(own)
            if not own and each.function not in met:
                met.add(each.function)
                waiting.extend(reversed(callers))
        return self._locations.table.distinct(found)

    def _own(self, operation: _Operation, callers: list[_Operation]) -> list[int]:
        """Frames of an operation. JAX 0.8 puts the first call of a library's function among them: left out."""
        calls = {frame for caller in callers for frame in self._located(caller)}
        return [frame for frame in self._located(operation) if frame not in calls]

    def _located(self, operation: _Operation) -> tuple[int, ...]:
        return self._locations.frames(operation.location or "unknown")
