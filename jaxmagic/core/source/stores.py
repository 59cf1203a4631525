"""Which names a line stores, from the bytecode: no source is needed, and nothing is guessed."""

import dis
from collections.abc import Iterable, Iterator
from itertools import groupby
from types import CodeType
from typing import NamedTuple

Position = tuple[int, int, int, int]
"""First line, first column, last line, last column, as in `Span`; columns are -1 where Python left them out."""

_LOADS = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF", "STORE_FAST_LOAD_FAST")
_STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")


class Store(NamedTuple):
    """A name, or an attribute of a name, that is given a value."""

    name: str
    """`x`, or `self.h`."""
    position: Position
    """Of the target in the source."""
    base: str = ""
    """`self` of `self.h`; empty for a plain name."""
    attribute: str = ""
    is_global: bool = False
    """Whether the name, or the base, is looked up in the module."""
    inside: Position | None = None
    """The comprehension within which alone the name has this value (Python 3.12 and later inline them)."""
    offset: int = 0
    """Of the instruction that stores it."""


def stores(code: CodeType) -> dict[int, tuple[Store, ...]]:
    """Everything that each line of a code object stores, in order."""
    found: dict[int, dict[str, Store]] = {}
    for store in _stores(list(dis.get_instructions(code))):
        found.setdefault(store.position[0], {})[store.name] = store
    return {line: tuple(named.values()) for line, named in found.items()}


def stored_names(code: CodeType) -> dict[int, tuple[str, ...]]:
    """The names that each line stores: `{3: ("x", "self.h")}`."""
    return {line: tuple(store.name for store in each) for line, each in stores(code).items()}


def interrupted(code: CodeType) -> dict[tuple[int, int], frozenset[str]]:
    """Names that a line has yet to store when it goes on with another, as a call does with its arguments' lines.

    Returns:
        By the line, and the offset of the instruction that is next.
    """
    of_line = stores(code)
    found: dict[tuple[int, int], frozenset[str]] = {}
    for start, end, line in _stretches(code):
        later = [store.name for store in of_line.get(line, ()) if not start <= store.offset < end]
        if later:
            found[line, end] = frozenset(later)
    return found


def is_read_on(code: CodeType, store: Store) -> bool:
    """Whether a line reads a name once more after it has stored it: `y = 2 * x; z = y + 1`."""
    if store.attribute:
        return False
    for instruction in dis.get_instructions(code):
        if instruction.offset < store.offset:
            continue
        position = _position(instruction)
        if position is not None and position[0] != store.position[0]:
            return False
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        if instruction.offset == store.offset:
            read = instruction.opname == "STORE_FAST_LOAD_FAST" and names[-1] == store.name
        else:
            read = instruction.opname.startswith("LOAD_") and store.name in names
        if read:
            return True
    return False


def _stretches(code: CodeType) -> Iterator[tuple[int, int, int]]:
    """First offset, end and number of each line, as often as the bytecode comes to it."""
    for line, pieces in groupby(code.co_lines(), key=lambda piece: piece[2]):
        offsets = [(start, end) for start, end, _ in pieces]
        if line is not None:
            yield offsets[0][0], offsets[-1][1], line


def parameters(code: CodeType) -> tuple[str, ...]:
    """Names of a function's parameters, `*args` and `**kwargs` included; the `.0` of a comprehension left out."""
    extra = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    count = code.co_argcount + code.co_kwonlyargcount + extra
    return tuple(name for name in code.co_varnames[:count] if not name.startswith("."))


def _stores(instructions: list[dis.Instruction]) -> Iterator[Store]:
    borrowed = _borrowed(instructions)
    before: dis.Instruction | None = None
    for instruction in instructions:
        position = _position(instruction)
        if position is not None and instruction.opname.startswith(_STORES):
            is_global = instruction.opname == "STORE_GLOBAL"
            for name in _stored(instruction):
                within = _around(borrowed.get(name, ()), position)
                if within != position:  # what puts the outer variable back has the place of the comprehension
                    yield Store(name, position, is_global=is_global, inside=within, offset=instruction.offset)
        elif position is not None and instruction.opname == "STORE_ATTR" and before is not None:
            base = _loaded(before)
            if base:
                is_global = before.opname == "LOAD_GLOBAL"
                name, attribute = f"{base}.{instruction.argval}", instruction.argval
                yield Store(name, position, base, attribute, is_global, offset=instruction.offset)
        before = instruction


def _borrowed(instructions: list[dis.Instruction]) -> dict[str, list[Position]]:
    """Comprehensions that run in the function's own frame, by the names that they set aside for their loop."""
    found: dict[str, list[Position]] = {}
    for instruction in instructions:
        position = _position(instruction)
        if instruction.opname == "LOAD_FAST_AND_CLEAR" and position is not None:
            found.setdefault(instruction.argval, []).append(position)
    return found


def _around(places: list[Position] | tuple, position: Position) -> Position | None:
    """The innermost of the places that holds `position`."""
    holding = [place for place in places if place[:2] <= position[:2] and position[2:] <= place[2:]]
    return max(holding, key=lambda place: place[:2], default=None)


def _stored(instruction: dis.Instruction) -> tuple[str, ...]:
    """Python 3.13 joins two instructions into one: the second may store too, or only load."""
    argument = instruction.argval
    if not isinstance(argument, tuple):
        return (argument,)
    return argument if instruction.opname == "STORE_FAST_STORE_FAST" else argument[:1]


def _loaded(instruction: dis.Instruction) -> str:
    """The variable on top of the stack after an instruction, empty if it is not simply one."""
    if not instruction.opname.startswith(_LOADS):
        return ""
    argument = instruction.argval
    return argument[-1] if isinstance(argument, tuple) else argument


def _position(instruction: dis.Instruction) -> Position | None:
    place = instruction.positions
    return place_of(place) if place is not None and place.lineno is not None else None


def place_of(place: Iterable[int | None]) -> Position:
    """A place in Python's own order (lines, then columns) in ours."""
    line, end_line, column, end_column = place
    if line is None or end_line is None or column is None or end_column is None:
        return line or 0, -1, line or 0, -1
    return line, column, end_line, end_column
