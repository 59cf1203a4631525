"""Jaxprs as `Program` records: a tree of regions, every equation with its parameters and its place in the source."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from jaxmagic.core.jax_internals import Literal, names_of, traced_function
from jaxmagic.core.lines.values import aval_from
from jaxmagic.core.programs.expressions import expressions
from jaxmagic.core.programs.parameters import Inner, inner_jaxprs, literal_text, opened, parameters_text
from jaxmagic.core.programs.stacks import Stacks
from jaxmagic.records import Aval, Equation, Program, Region, Variable

MOST_EQUATIONS = 250_000
"""Regions beyond are left closed: functions that call each other twice a level grow as 2 to the depth."""

DEEPEST = 60
"""Regions nested further are left closed, for the sake of readers that recurse."""


def program(
    jaxpr: Any, *, is_user: Callable[[str], bool], name: str = "", kind: str = "jit", most: int = MOST_EQUATIONS
) -> Program:
    """Turns a jaxpr into records; nothing of JAX is referred to afterwards.

    Args:
        jaxpr: A closed or open jaxpr.
        is_user: Whether a file name (`co_filename`) is the user's code; other frames are left out.
        name: Of the function; what JAX noted, if empty.
        kind: `Region.kind` of the root.
        most: Equations to convert; inner regions that would exceed it keep only their count, in `Region.hidden`.

    Returns:
        The program. Variables are numbered outer regions first. An equation's frame is the innermost user frame
        within its region, then come those of the equation that owns the region, and so on outwards: a jitted
        helper called twice appears under each of its callers, and what a library does is put down to the
        user's call of it. Name stacks are relative to the region, as JAX keeps them.
    """
    builder = _Builder(Stacks(is_user), most)
    root = builder.build(_Draft(kind, name, jaxpr))
    frames = builder.stacks.table.frames()
    return Program(root, frames, builder.equations, expressions(root, frames))


@dataclass
class _Draft:
    """A region on its way to become a record."""

    kind: str
    name: str
    jaxpr: Any
    frame: int = -1
    depth: int = 0
    inputs: tuple[Variable, ...] = ()
    constants: tuple[Variable, ...] = ()
    outputs: tuple[int | str, ...] = ()
    equations: list[tuple[Equation, list["_Draft"]]] = field(default_factory=list)
    """Equations without their regions, and those."""
    hidden: int = 0
    region: Region | None = None
    traced: tuple[str, int] | None = None
    """File and first line of the library's function that the region is the trace of."""


class _Builder:
    def __init__(self, stacks: Stacks, most: int) -> None:
        self.stacks = stacks
        self.equations = 0
        """In all regions met so far, closed ones included."""
        self._left = most
        self._counts = _Counts()
        self._next = 0
        self._avals: dict[int, tuple[Any, Aval]] = {}
        self._scopes: dict[int, tuple[Any, str]] = {}

    def build(self, root: _Draft) -> Region:
        # Regions wait in a list and are finished in reverse, inner ones first: no recursion, whatever the depth.
        drafts = [root]
        for draft in drafts:
            drafts.extend(self._read(draft))
        for draft in reversed(drafts):
            draft.region = _finished(draft)
        assert root.region is not None
        return root.region

    def _read(self, draft: _Draft) -> Iterator[_Draft]:
        """Fills a draft from its jaxpr; yields the drafts of the regions inside."""
        jaxpr = opened(draft.jaxpr)
        names = names_of(jaxpr)
        draft.name = draft.name or names.function
        draft.traced = self.stacks.of_library(traced_function(jaxpr)) if draft.depth else None
        ids: dict[Any, int] = {}
        draft.constants = tuple(self._variable(ids, var) for var in jaxpr.constvars)
        arguments = names.arguments or ("",) * len(jaxpr.invars)
        draft.inputs = tuple(self._variable(ids, *pair) for pair in zip(jaxpr.invars, arguments, strict=True))
        if self._left < len(jaxpr.eqns) or draft.depth > DEEPEST:
            draft.hidden = self._counts.total(jaxpr)
            self.equations += draft.hidden
            return
        self.equations += len(jaxpr.eqns)
        self._left -= len(jaxpr.eqns)
        results = dict(zip(map(id, jaxpr.outvars), names.results, strict=False))
        for equation in jaxpr.eqns:
            yield from self._read_equation(draft, equation, ids, results)
        draft.outputs = tuple(self._atom(ids, atom) for atom in jaxpr.outvars)

    def _read_equation(self, draft: _Draft, equation: Any, ids: dict, results: dict[int, str]) -> list[_Draft]:
        primitive, params, source = equation.primitive.name, equation.params, equation.source_info
        ins = tuple([self._atom(ids, atom) for atom in equation.invars])
        outs = tuple([self._variable(ids, var, results.get(id(var), "")) for var in equation.outvars])
        frame = self.stacks.index(source.traceback, draft.frame, draft.traced)
        inner = [self._draft(draft, found, params, frame) for found in inner_jaxprs(primitive, params)]
        scope = self._scope(source.name_stack)
        draft.equations.append((Equation(primitive, ins, outs, parameters_text(params), frame, scope), inner))
        return inner

    def _draft(self, parent: _Draft, inner: Inner, params: dict, frame: int) -> _Draft:
        name = params.get("name") if inner.kind == "jit" else ""
        return _Draft(inner.kind, name if isinstance(name, str) else "", inner.jaxpr, frame, parent.depth + 1)

    def _variable(self, ids: dict[Any, int], var: Any, name: str = "") -> Variable:
        number = ids[var] = self._next
        self._next += 1
        return Variable(number, self._aval(var.aval), name)

    def _atom(self, ids: dict[Any, int], atom: Any) -> int | str:
        return literal_text(atom.val, self._aval(atom.aval)) if isinstance(atom, Literal) else ids[atom]

    def _aval(self, aval: Any) -> Aval:
        # By identity, since hashing an aval costs more than converting a few twice; kept, so that no id is reused.
        known = self._avals.get(id(aval))
        if known is None:
            known = self._avals[id(aval)] = (aval, aval_from(aval))
        return known[1]

    def _scope(self, name_stack: Any) -> str:
        known = self._scopes.get(id(name_stack))
        if known is None:
            known = self._scopes[id(name_stack)] = (name_stack, str(name_stack))
        return known[1]


def _finished(draft: _Draft) -> Region:
    equations = tuple([_with_regions(equation, inner) if inner else equation for equation, inner in draft.equations])
    return Region(draft.kind, draft.name, draft.inputs, draft.constants, draft.outputs, equations, draft.hidden)


def _with_regions(equation: Equation, inner: list[_Draft]) -> Equation:
    regions = tuple(draft.region for draft in inner if draft.region is not None)
    return msgspec.structs.replace(equation, regions=regions)


class _Counts:
    """Equations of a jaxpr with all regions inside, each distinct jaxpr counted once."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def total(self, jaxpr: Any) -> int:
        waiting = [opened(jaxpr)]
        while waiting:
            top = waiting[-1]
            inner = [opened(found.jaxpr) for eqn in top.eqns for found in inner_jaxprs("", eqn.params)]
            unknown = [each for each in inner if id(each) not in self._known]
            waiting.extend(unknown)
            if not unknown:
                self._known[id(top)] = len(top.eqns) + sum(self._known[id(each)] for each in inner)
                waiting.pop()
        return self._known[id(opened(jaxpr))]
