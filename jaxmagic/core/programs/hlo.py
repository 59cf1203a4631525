"""Reads XLA's HLO text: its tables of frames, its computations, and the operations that were fused."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from jaxmagic.core.programs.stacks import FrameTable
from jaxmagic.records import Instruction, Listing, Span

_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_ROW = re.compile(r'(\d+) (?:"(.*)"|\{(.*)\})$')
_NUMBER = re.compile(r"(\w+)=(\d+)")
_STRING = r'"(?:[^"\\]|\\.)*"'
_METADATA = re.compile(rf",? ?metadata=\{{(?:[^\"{{}}]|{_STRING}|\{{[^{{}}]*\}})*\}}")
_STACK_FRAME = re.compile(r"stack_frame_id=(\d+)")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = .+? ([\w\-]+)\(")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.\-]+) .*\{$")
_CALLED = re.compile(r"(?:calls|to_apply)=%?([\w.\-]+)")
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
_NOT_OPERATIONS = {"parameter", "constant"}


@dataclass
class _Operation:
    line: int
    name: str
    opcode: str
    frame: int
    """Row of XLA's StackFrames, 0 for none."""
    called: str = ""
    """The computation that a fusion or call runs."""


@dataclass
class _Module:
    """HLO text taken apart."""

    lines: list[str] = field(default_factory=list)
    tables: dict[str, dict[int, str | dict[str, int]]] = field(default_factory=dict)
    computations: dict[str, list[_Operation]] = field(default_factory=dict)


def read_hlo(text: str, is_user: Callable[[str], bool]) -> Listing:
    """See `listings.hlo_listing`."""
    module = _taken_apart(text)
    frames = _Frames(module.tables, is_user)
    fused = _Fused(module.computations)
    instructions = [
        Instruction(
            operation.line,
            operation.name,
            operation.opcode,
            frames.indices(fused.stack_frames(operation)),
            fused.count(operation),
        )
        for operations in module.computations.values()
        for operation in operations
    ]
    text = "\n".join(module.lines).rstrip("\n") + "\n"
    return Listing("hlo", text, tuple(instructions), frames.table.frames())


def _taken_apart(text: str) -> _Module:
    module = _Module()
    table: dict[int, str | dict[str, int]] | None = None
    operations: list[_Operation] = []
    for line in text.splitlines():
        if line in _TABLES:
            table = module.tables.setdefault(line, {})
        elif table is not None:
            table = _read_row(table, line)
        elif line or (module.lines and module.lines[-1]):
            header = _COMPUTATION.match(line)
            if header:
                operations = module.computations.setdefault(header[1], [])
            module.lines.append(_METADATA.sub("", line))
            operation = _operation(line, len(module.lines))
            if operation:
                operations.append(operation)
    return module


def _read_row(table: dict, line: str) -> dict | None:
    """Adds a row to a table; None at the empty line that ends it."""
    row = _ROW.match(line)
    if row is None:
        return None
    number, name, fields = row.groups()
    numbers = {key: int(value) for key, value in _NUMBER.findall(fields or "")}
    table[int(number)] = numbers if name is None else _unescaped(name)
    return table


def _unescaped(text: str) -> str:
    """XLA writes quotes, backslashes and every byte beyond ASCII as C does."""
    if "\\" not in text:
        return text
    data = _ESCAPE.sub(lambda found: _ESCAPES.get(found[1]) or chr(int(found[1], 8)), text)
    return data.encode("latin-1", "replace").decode("utf-8", "replace")


def _operation(line: str, number: int) -> _Operation | None:
    found = _INSTRUCTION.match(line)
    if found is None:
        return None
    name, opcode = found.groups()
    frame = _STACK_FRAME.search(line)
    called = _CALLED.search(line) if opcode in ("fusion", "call") else None
    return _Operation(number, name, opcode, int(frame[1]) if frame else 0, called[1] if called else "")


class _Fused:
    """What runs inside of fusions and calls."""

    def __init__(self, computations: dict[str, list[_Operation]]) -> None:
        self._computations = computations

    def stack_frames(self, operation: _Operation) -> Iterable[int]:
        """Rows of StackFrames of an operation and of those inside, each once."""
        return dict.fromkeys(each.frame for each in self._all(operation) if each.frame)

    def count(self, operation: _Operation) -> int:
        if operation.opcode != "fusion":
            return 0
        return sum(each.opcode not in _NOT_OPERATIONS and not each.called for each in self._all(operation))

    def _all(self, operation: _Operation) -> Iterator[_Operation]:
        waiting = [operation]
        while waiting:
            each = waiting.pop()
            yield each
            waiting.extend(reversed(self._computations.get(each.called, ())))


class _Frames:
    """XLA's StackFrames, library frames left out, as indices of a `FrameTable`."""

    def __init__(self, tables: dict[str, dict], is_user: Callable[[str], bool]) -> None:
        self.table = FrameTable()
        self._files, self._functions, self._locations, self._frames = (tables.get(name, {}) for name in _TABLES)
        self._is_user = is_user
        self._known: dict[int, int] = {0: -1}

    def indices(self, rows: Iterable[int]) -> tuple[int, ...]:
        return self.table.distinct(map(self._index, rows))

    @cached_property
    def _offset(self) -> int:
        """XLA prints the parent's row plus one: the first row, which has no parent, names itself."""
        return 1 if self._frames.get(1, {}).get("parent_frame_id") == 1 else 0

    def _index(self, row: int) -> int:
        chain = []
        while row not in self._known and row in self._frames and row not in chain:
            chain.append(row)
            row = self._frames[row].get("parent_frame_id", 0) - self._offset
        index = self._known.get(row, -1)
        for each in reversed(chain):
            index = self._known[each] = self._add(each, index)
        return index

    def _add(self, row: int, parent: int) -> int:
        location = self._locations.get(self._frames[row].get("file_location_id"), {})
        file = self._files.get(location.get("file_name_id"), "")
        if not file or not self._is_user(file):
            return parent
        line, column = location.get("line", 1), location.get("column", 0)
        span = Span(file, line, column, location.get("end_line", line), location.get("end_column", column))
        return self.table.index(span, self._functions.get(location.get("function_name_id"), ""), parent)
