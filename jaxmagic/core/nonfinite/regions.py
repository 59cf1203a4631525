"""A program as numbered steps in nested regions: what is evaluated once more, and what its flags speak of."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from jaxmagic.core import jax_internals
from jaxmagic.core.nonfinite.hosts import HOST
from jaxmagic.core.programs.parameters import CALLS, is_jaxpr, opened

MOST_STEPS = 20_000

_CALLS = (*CALLS, "jit", "pjit", "custom_vjp_call_jaxpr", "custom_lin")
"""Primitives whose operands are those of the first jaxpr in their parameters."""

_SKIPPED = ("jaxmagic_tap", "debug_callback", "debug_print")
SAME = ("pvary", "pcast")
"""Change what a type says of the axes of a mesh, and no value."""

_NAMED = frozenset(("axes", "axis_name"))
"""Parameters in which an operation may name axes of a mesh; a reduction has numbers there."""

_HOST = (*HOST, "jaxmagic_exchange", "ffi_call", "python_callback")


class NotRepeatable(Exception):  # noqa: N818 - says why a program is not evaluated once more
    """The program is too long, or calls code of the user's on the host."""


@dataclass(eq=False)
class Step:
    """One equation."""

    equation: Any
    number: int
    kind: Literal["leaf", "call", "scan", "while", "cond"]
    region: "Region"
    position: int
    """In its region."""
    regions: list["Region"] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.equation.primitive.name

    @property
    def path(self) -> tuple["Step", ...]:
        """The steps around it and itself, outermost first."""
        above = self.region.step
        return (*(above.path if above is not None else ()), self)

    @property
    def depth(self) -> int:
        """How many loops are around it."""
        return sum(step.kind in ("scan", "while") for step in self.path[:-1])


@dataclass(eq=False)
class Region:
    """A jaxpr at one place of a program; the same jaxpr may stand in several."""

    jaxpr: Any
    constants: list[Any]
    step: Step | None
    """Whose region it is; None for the whole program."""
    steps: list[Step] = field(default_factory=list)

    @cached_property
    def last_used(self) -> dict[int, list[Any]]:
        """Variables that nothing needs after a step, by its number."""
        last: dict[Any, int] = {}
        for step in self.steps:
            for atom in (*step.equation.invars, *step.equation.outvars):
                if not isinstance(atom, jax_internals.Literal):
                    last[atom] = step.number
        for atom in self.jaxpr.outvars:
            if not isinstance(atom, jax_internals.Literal):
                last.pop(atom, None)
        found: dict[int, list[Any]] = {}
        for atom, number in last.items():
            found.setdefault(number, []).append(atom)
        return found

    def all(self) -> Iterator[Step]:
        """Its steps and those inside of them, in order."""
        for step in self.steps:
            yield step
            for region in step.regions:
                yield from region.all()


def regions_of(closed: Any, *, answered: bool = False) -> Region:
    """The whole of a program; `answered`: what the host returned to it is known.

    Raises:
        NotRepeatable: it can't be evaluated without running code of the user's, or is too long.
    """
    return _Reader(answered).region(closed, None)


class _Reader:
    def __init__(self, answered: bool) -> None:
        self._answered = answered
        self._count = 0

    def region(self, closed: Any, step: Step | None) -> Region:
        jaxpr = opened(closed)
        constants = list(getattr(closed, "consts", ())) if jaxpr.constvars else []
        region = Region(jaxpr, constants, step)
        for position, equation in enumerate(jaxpr.eqns):
            if equation.primitive.name not in _SKIPPED:
                region.steps.append(self._step(equation, region, position))
        return region

    def _step(self, equation: Any, region: Region, position: int) -> Step:
        self._count += 1
        name = equation.primitive.name
        if self._count > MOST_STEPS:
            raise NotRepeatable(f"it has more than {MOST_STEPS:,} equations")
        if (name in _HOST or "callback" in name) and not (self._answered and name in HOST):
            raise NotRepeatable(f"it calls the host ({name})")
        if any(jax_internals.is_reference(atom) for atom in (*equation.invars, *equation.outvars)):
            raise NotRepeatable("it works on references, which may have changed")
        step = Step(equation, self._count, "leaf", region, position)
        if name == "scan":
            step.kind, inner = "scan", [equation.params["jaxpr"]]
        elif name == "while":
            step.kind, inner = "while", [equation.params["cond_jaxpr"], equation.params["body_jaxpr"]]
        elif name == "cond":
            step.kind, inner = "cond", list(equation.params["branches"])
        else:
            whole = name in _CALLS or (name == "shard_map" and _is_on_one_device(equation))
            inner = [value for value in equation.params.values() if is_jaxpr(value)] if whole else []
            fits = len(inner) == 1 and len(opened(inner[0]).invars) == len(equation.invars)
            step.kind, inner = ("call", inner) if fits else ("leaf", [])
        step.regions = [self.region(closed, step) for closed in inner]
        return step


def _is_on_one_device(equation: Any) -> bool:
    """Whether the only shard of a `shard_map` is the whole array, and its body speaks to no other."""
    passed = (*_SKIPPED, *SAME)
    inside = [inner for inner in opened(equation.params["jaxpr"]).eqns if inner.primitive.name not in passed]
    return equation.params["mesh"].size == 1 and not any(_names_axes(inner) for inner in inside)


def _names_axes(equation: Any) -> bool:
    given = [equation.params[name] for name in _NAMED & equation.params.keys()]
    return any(isinstance(axis, str) for axes in given for axis in (axes if isinstance(axes, tuple) else (axes,)))


def loop_numbers(step: Step) -> tuple[int, int]:
    """Of a loop: how many operands are constants of the body, and how many are carried."""
    if step.kind == "scan":
        return jax_internals.scan_inputs(step.equation)
    constants = step.equation.params["cond_nconsts"] + step.equation.params["body_nconsts"]
    return constants, len(step.equation.invars) - constants
