"""Expressions of the source and the arrays they evaluated to, from a program's equations."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from jaxmagic.records import Equation, Expression, Frame, Region, Span, Variable


def expressions(root: Region, frames: Sequence[Frame]) -> tuple[Expression, ...]:
    """What each expression evaluated to, as far as equations say.

    Equations belong to the span of their frame and to those of the frames above. The last of a span is not always
    its result: under `grad`, what the backward pass will need of `softmax(x)` is computed after its result. So the
    result is taken from the last equation of a span that an equation outside of the span makes use of; failing
    that, from the first output of the region that comes from the span; failing that, from the last equation.
    The backward pass (name stacks with `transpose`) is left out, as giver and as user.

    Returns:
        One record per span, in order of the source. Under `vmap` avals have the batch axes.
    """
    uses = _Uses()
    uses.read(root, -1)
    best: dict[Span, _Use] = {}
    for use in uses.found:
        for index in _between(use.giver.equation.frame, use.taker, frames):
            span = frames[index].span
            best[span] = max(best.get(span, use), use, key=attrgetter("rank", "order"))
    found = (_expression(span, uses.results(use)) for span, use in best.items())
    return tuple(sorted(found, key=lambda each: (each.span.file, each.span.line, each.span.column)))


def _expression(span: Span, results: Sequence[Variable]) -> Expression:
    return Expression(span, tuple(each.aval for each in results), tuple(each.id for each in results))


class _Giver(NamedTuple):
    """An equation of the forward pass."""

    number: int
    equation: Equation
    differentiated: bool
    """Some of its outputs may be there for the backward pass alone."""


class _Use(NamedTuple):
    """A variable leaves all spans of its equation's frames that are not the taker's as well."""

    rank: int
    """2: an equation makes use of it, 1: a region gives it out, 0: nobody does."""
    order: int
    giver: _Giver
    taker: int
    """Frame of the taker."""
    variable: int


class _Uses:
    """Who makes use of whose results, in the forward pass."""

    def __init__(self) -> None:
        self._latest: dict[tuple[int, int, int], _Use] = {}
        """By rank and the frames of giver and taker: programs have many equations, but few lines."""
        self._givers: dict[int, _Giver] = {}
        self._used: set[int] = set()
        """Variables that equations outside of the span of their own make use of."""

    @property
    def found(self) -> Iterator[_Use]:
        return iter(self._latest.values())

    def results(self, use: _Use) -> Sequence[Variable]:
        """The giver's outputs; under `grad`, of those that somebody in the forward pass makes use of."""
        outs = use.giver.equation.outs
        if use.giver.differentiated and use.rank:
            outs = [out for out in outs if out.id == use.variable or out.id in self._used]
        return outs

    def read(self, region: Region, owner: int, differentiated: bool = False) -> None:
        for equation in region.equations:
            if "transpose" not in equation.name_stack:
                self._read_equation(equation, differentiated or "jvp" in equation.name_stack)
        for place, output in enumerate(region.outputs):
            self._take(output, owner, rank=1, order=-place)

    def _read_equation(self, equation: Equation, differentiated: bool) -> None:
        for inner in equation.regions:
            self.read(inner, equation.frame, differentiated)
        for atom in equation.ins:
            self._take(atom, equation.frame, rank=2)
        giver = _Giver(len(self._givers), equation, differentiated)
        for out in equation.outs:
            self._givers[out.id] = giver
        self._add(_Use(0, giver.number, giver, -1, -1))

    def _take(self, atom: int | str, taker: int, rank: int, order: int | None = None) -> None:
        if isinstance(atom, str):
            return
        giver = self._givers.get(atom)
        if giver is None or giver.equation.frame == taker:
            return
        if rank == 2:
            self._used.add(atom)
        self._add(_Use(rank, giver.number if order is None else order, giver, taker, atom))

    def _add(self, use: _Use) -> None:
        key = (use.rank, use.giver.equation.frame, use.taker)
        known = self._latest.get(key)
        if known is None or use.order > known.order:
            self._latest[key] = use


def _between(index: int, taker: int, frames: Sequence[Frame]) -> Iterator[int]:
    """A frame and those above it, up to the first that the taker has too."""
    shared = {-1}
    while taker not in shared:
        shared.add(taker)
        taker = frames[taker].parent
    while index not in shared:
        yield index
        index = frames[index].parent
