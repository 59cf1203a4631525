"""How NaN and infinity went through a program: where they were made, out of what, and whether they came out."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmagic.core import jax_internals
from jaxmagic.core.nonfinite.arrays import Kind, is_inexact
from jaxmagic.core.nonfinite.regions import Region, Step, loop_numbers
from jaxmagic.core.nonfinite.replay import Notes

_ROW: dict[Kind, int] = {"nan": 0, "inf": 1}

Node = tuple[int, Any]
"""A variable in a region: the same jaxpr may stand in several."""


class _Edge(NamedTuple):
    source: Node
    target: Node
    step: Step | None
    """The equation between the two; None where they are two names of one value."""
    operand: int
    result: int


class Flow:
    """A program with what `Flags` noted of it."""

    def __init__(self, region: Region, notes: Notes) -> None:
        self.region = region
        self._notes = {key: {name: np.asarray(each) for name, each in note.items()} for key, note in notes.items()}
        self._forward: dict[Node, list[_Edge]] = defaultdict(list)
        self._backward: dict[Node, list[_Edge]] = defaultdict(list)
        for edge in _edges(region):
            self._forward[edge.source].append(edge)
            self._backward[edge.target].append(edge)

    def made(self, kind: Kind) -> list[Step]:
        """The steps that made one out of operands without, in the order in which they first did."""
        found = [step for step in self.region.all() if self._noted(step, "made")[_ROW[kind]]]
        return sorted(found, key=lambda step: self.time(step, kind))

    def at(self, step: Step, kind: Kind) -> tuple[int, ...]:
        """In which iteration of each loop around it a step first made one."""
        return tuple(int(each) for each in self._noted(step, "at")[_ROW[kind]])

    def outputs(self, step: Step, kind: Kind, *, forward: bool = False) -> list[int]:
        """Outputs of the program that what a step made has come to; `forward`: not by way of the backward pass."""
        return self._outputs([(id(step.region), out) for out in _variables(step.equation.outvars)], kind, forward)

    def absorbers(self, step: Step, kind: Kind) -> Iterator[Step]:
        """The equations that used what a step made and came to a number all the same."""
        start: list[tuple[Node, Kind]] = [((id(step.region), out), kind) for out in _variables(step.equation.outvars)]
        for node, held in self._reached(start, False):
            for edge in self._forward[node]:
                if edge.step is not None and is_inexact(edge.target[1].aval) and not any(self._across(edge, held)):
                    yield edge.step

    def inputs_to(self, inputs: Sequence[int], kind: Kind) -> list[int]:
        """Outputs that have come to hold one because these inputs did."""
        return self._outputs([(id(self.region), self.region.jaxpr.invars[index]) for index in inputs], kind, False)

    def _outputs(self, start: list[Node], kind: Kind, forward: bool) -> list[int]:
        seen = {node for node, _ in self._reached([(node, kind) for node in start], forward)}
        outs = enumerate(self.region.jaxpr.outvars)
        return [index for index, out in outs if _is_variable(out) and (id(self.region), out) in seen]

    def causes(self, step: Step) -> tuple[list[Step], list[int]]:
        """The steps that made the infinities that a step made a NaN of, and the inputs which brought them."""
        stack = [
            edge.source for out in _variables(step.equation.outvars) for edge in self._into((id(step.region), out))
        ]
        stack = [node for node in stack if self._holds(node, "inf")]
        seen, makers, given = set(stack), [], []
        while stack:
            node = stack.pop()
            if node[0] == id(self.region) and node[1] in self.region.jaxpr.invars:
                given.append(self.region.jaxpr.invars.index(node[1]))
            for edge in self._into(node):
                if edge.step is not None and self._noted(edge.step, "made")[1] and edge.step not in makers:
                    makers.append(edge.step)
                if edge.source not in seen and self._holds(edge.source, "inf"):
                    seen.add(edge.source)
                    stack.append(edge.source)
        return sorted(makers, key=lambda each: self.time(each, "inf")), given

    def users(self, step: Step) -> list[Step]:
        """The equations that take a step's results, wherever they go."""
        nodes = [(id(step.region), out) for out in _variables(step.equation.outvars)]
        found, seen = [], set(nodes)
        while nodes:
            for edge in self._forward[nodes.pop()]:
                if edge.step is not None:
                    found.append(edge.step)
                elif edge.target not in seen:
                    seen.add(edge.target)
                    nodes.append(edge.target)
        return found

    def _into(self, node: Node) -> list[_Edge]:
        return self._backward[node]

    def _reached(self, start: Sequence[tuple[Node, Kind]], forward: bool) -> set[tuple[Node, Kind]]:
        seen, stack = set(start), list(start)
        while stack:
            node, kind = stack.pop()
            for edge in self._forward[node]:
                if forward and edge.step is not None and is_transposed(edge.step):
                    continue
                for each in self._across(edge, kind):
                    if (edge.target, each) not in seen:
                        seen.add((edge.target, each))
                        stack.append((edge.target, each))
        return seen

    def _across(self, edge: _Edge, kind: Kind) -> Iterator[Kind]:
        """What a NaN or infinity in an edge's source may be in its target."""
        if edge.step is None:
            if self._holds(edge.target, kind):
                yield kind
            return
        held, made = self._noted(edge.step, "held")[:, edge.result], self._noted(edge.step, "made")
        if edge.step.name == "select_n":
            if edge.operand > 0 and self._noted(edge.step, "chosen")[_ROW[kind], edge.operand - 1]:
                yield kind
            return
        if held[_ROW[kind]]:
            yield kind
        if kind == "inf" and held[0] and made[0]:
            yield "nan"

    def _holds(self, node: Node, kind: Kind) -> bool:
        """Whether a variable ever was one; of the inputs of a region it is not known, and is taken for true."""
        known = self._held.get(node)
        return True if known is None else bool(known[_ROW[kind]])

    @property
    def _held(self) -> dict[Node, np.ndarray]:
        if not hasattr(self, "_held_by"):
            self._held_by = {
                (id(step.region), out): self._noted(step, "held")[:, index]
                for step in self.region.all()
                for index, out in enumerate(step.equation.outvars)
            }
        return self._held_by

    def _noted(self, step: Step, what: str) -> np.ndarray:
        return self._notes[step.number][what]

    def time(self, step: Step, kind: Kind) -> tuple[int, ...]:
        """Compares as the order of execution: position in its region, iteration, position in the body, …"""
        time: list[int] = []
        iterations = iter(self.at(step, kind))
        for each in step.path:
            time.append(each.position)
            if each.kind in ("scan", "while") and each is not step:
                count = next(iterations)
                time.append(-count if each.equation.params.get("reverse") else count)
        return tuple(time)


def is_transposed(step: Step) -> bool:
    """Whether an equation, or one around it, is of a backward pass."""
    return any("transpose(" in jax_internals.name_stack_of(each.equation) for each in step.path)


def _edges(region: Region) -> Iterator[_Edge]:
    for step in region.steps:
        equation = step.equation
        if step.kind == "leaf":
            for operand, source in enumerate(equation.invars):
                for result, target in enumerate(equation.outvars):
                    if _is_variable(source):
                        yield _Edge((id(region), source), (id(region), target), step, operand, result)
            continue
        for source, target in _names(step):
            if _is_variable(source[1]):
                yield _Edge(source, target, None, 0, 0)
        for inner in step.regions:
            yield from _edges(inner)


def _names(step: Step) -> Iterator[tuple[Node, Node]]:
    """Values that go in and out of an equation's regions."""
    outer, equation = id(step.region), step.equation
    ins, outs = list(equation.invars), list(equation.outvars)
    if step.kind == "while":
        yield from _names_of_while(step)
        return
    for region in step.regions:
        inner, jaxpr = id(region), region.jaxpr
        given = ins[1:] if step.kind == "cond" else ins
        for source, target in zip(given, jaxpr.invars, strict=True):
            yield (outer, source), (inner, target)
        for source, target in zip(jaxpr.outvars, outs, strict=True):
            yield (inner, source), (outer, target)
        if step.kind == "scan":
            constants, carried = loop_numbers(step)
            for source, target in zip(
                jaxpr.outvars[:carried], jaxpr.invars[constants : constants + carried], strict=True
            ):
                yield (inner, source), (inner, target)


def _names_of_while(step: Step) -> Iterator[tuple[Node, Node]]:
    condition, body = step.regions
    outer, equation = id(step.region), step.equation
    asked, given = equation.params["cond_nconsts"], equation.params["body_nconsts"]
    ask, fixed, initial = (
        equation.invars[:asked],
        equation.invars[asked : asked + given],
        equation.invars[asked + given :],
    )
    carried = [*zip(initial, body.jaxpr.invars[given:], strict=True)]
    for source, target in [*zip(fixed, body.jaxpr.invars, strict=False), *carried]:
        yield (outer, source), (id(body), target)
    for source, target in zip([*ask, *initial], condition.jaxpr.invars, strict=True):
        yield (outer, source), (id(condition), target)
    for source, back, out in zip(body.jaxpr.outvars, body.jaxpr.invars[given:], equation.outvars, strict=True):
        yield (id(body), source), (id(body), back)
        yield (id(body), source), (outer, out)
    for source, target in zip(initial, equation.outvars, strict=True):
        yield (outer, source), (outer, target)


def _is_variable(atom: Any) -> bool:
    return not isinstance(atom, jax_internals.Literal)


def _variables(atoms: Sequence[Any]) -> list[Any]:
    return [atom for atom in atoms if _is_variable(atom)]
