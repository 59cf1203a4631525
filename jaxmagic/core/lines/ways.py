"""The ways in which one function was called, and what its lines stored in each: text and counts only."""

from types import CodeType
from typing import Literal

from jaxmagic.core.source import syntax
from jaxmagic.core.source.stores import Position, Store, interrupted, parameters, place_of, stores
from jaxmagic.records import Leaf, Span

Found = tuple[tuple[Leaf, ...], int]
"""The arrays in a value, and how many more it has."""

Role = Literal["argument", "assigned", "returned"]

MOST_WAYS = 64
"""Of one function. What comes after counts as the last of them."""

MOST_SHAPES = 32
"""Of one name at one place, in one way of calling."""


class Seen:
    """One variable with one set of arrays in it."""

    __slots__ = ("last", "times")

    def __init__(self) -> None:
        self.times = 0
        self.last = 0
        """When it was last seen, in the order of all sightings of the record."""


class Way:
    """One way of calling a function: with these arrays for arguments, under these transformations."""

    def __init__(self, number: int, function: "Function", arguments: tuple, transforms: tuple[str, ...]) -> None:
        self.number = number
        self.function = function
        self.transforms = transforms
        self.traced = bool(transforms) or any(leaf.kind == "traced" for _, (leaves, _) in arguments for leaf in leaves)
        self.times = 0
        self.seen: dict[tuple[Role, str, Position], dict[Found, Seen]] = {}

    def note(self, role: Role, name: str, position: Position, found: Found, now: int) -> bool | None:
        """Counts one sighting; whether it is new, None where there are too many already."""
        shapes = self.seen.setdefault((role, name, position), {})
        seen = shapes.get(found)
        if seen is None and len(shapes) >= MOST_SHAPES:
            return None
        new = seen is None
        if seen is None:
            seen = shapes[found] = Seen()
        seen.times += 1
        seen.last = now
        return new


class Function:
    """One code object of the user's."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.name: str = code.co_qualname
        self.is_module = code.co_name == "<module>"
        self.returns = not self.is_module and (code.co_name == "<lambda>" or not code.co_name.startswith("<"))
        """Whether what it returns is worth a hint: a comprehension's value is that of its line anyway."""
        self.parameters: tuple[str, ...] = parameters(code)
        self.stores: dict[int, tuple[Store, ...]] = stores(code)
        self.interrupted = interrupted(code)
        self.positions = tuple(code.co_positions())
        self.ways: dict[tuple, Way] = {}
        self.latest: dict[tuple[str, ...], Way] = {}
        """The last way under each stack of transformations."""

    def way(self, arguments: tuple, transforms: tuple[str, ...], number: int) -> Way:
        """The way with this signature; a new one with `number` where there is none yet and room for it."""
        key = arguments, transforms
        way = self.ways.get(key)
        if way is None and len(self.ways) < MOST_WAYS:
            way = self.ways[key] = Way(number, self, arguments, transforms)
        way = way or next(reversed(self.ways.values()))
        self.latest[transforms] = way
        return way

    def position(self, instruction: int) -> Position:
        """The place of an instruction (a byte offset); its line alone where the bytecode does not say more."""
        return place_of(self.positions[max(instruction, 0) // 2])


def span_of(code: CodeType, name: str, role: Role, position: Position) -> Span:
    """The parameter, the `return` statement, or the statement that stored a variable."""
    if role == "argument":
        return syntax.parameter_span(code, name)
    if role == "returned":
        return syntax.return_span(code, position)
    return syntax.statement_span(code.co_filename, position)
