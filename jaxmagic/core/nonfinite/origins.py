"""The causes of NaN and infinity, as plain data: each program that gave one is evaluated once more and looked into."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from jaxmagic.core import jax_internals
from jaxmagic.core.limits import Limits
from jaxmagic.core.nonfinite.arrays import Kind, is_inexact
from jaxmagic.core.nonfinite.flow import Flow, is_transposed
from jaxmagic.core.nonfinite.regions import NotRepeatable, Step, regions_of
from jaxmagic.core.nonfinite.replay import Flags, Operands, evaluate
from jaxmagic.core.nonfinite.watch import Ahead, Output, Suspect, Watch
from jaxmagic.core.programs.parameters import is_jaxpr, opened
from jaxmagic.core.programs.stacks import Stacks
from jaxmagic.records import Aval, Frame, Span

MOST_MADE = 24
"""Equations of one program that are looked at closely."""

_MOST_ROWS = 500
"""Of a matrix whose eigenvalues are computed."""

_KINDS: tuple[Kind, ...] = ("inf", "nan")
"""Infinities first: what made one may be the cause of a NaN."""


@dataclass(frozen=True)
class Value:
    """What an operand was, where its equation first gave a NaN or an infinity."""

    aval: Aval
    there: complex | float | None = None
    """The element that the first bad element of the result was made of; None where many went into it."""
    least: float | None = None
    greatest: float | None = None
    """Of the finite elements."""
    nan: int = 0
    inf: int = 0
    zero: int = 0


@dataclass(frozen=True)
class Making:
    """One equation that gave a NaN or an infinity out of operands without."""

    kind: Kind
    primitive: str
    frames: tuple[Frame, ...]
    """User frames, innermost first; at least one where any is known."""
    stack: str
    """Transformations and scopes it was under: `vmap(transpose(jvp()))`."""
    operands: tuple[Value, ...]
    bad: int
    """Elements of the result that are NaN, or infinite."""
    total: int
    element: tuple[int, ...]
    """Index of the first of them, lanes left out."""
    lanes: tuple[tuple[int, ...], ...]
    """Which lanes of the vmaps around have one, the first few; empty without vmap or where it can't be told."""
    lane_sizes: tuple[int, ...]
    loops: tuple[int, ...]
    """Iteration of each loop around it, outermost first."""
    loop_spans: tuple[Span | None, ...]
    program: str
    """Of the compiled function; empty outside of jit."""
    call: int
    """Which run of that program in this cell, from 1."""
    turns: tuple[str, ...]
    """Variables of the Python loops around it: `epoch = 3`, outermost first."""
    dtype: str
    only_derivative: bool
    """Nothing but the backward pass uses it."""
    order: tuple[int, ...]
    eigenvalues: tuple[float, float] | None = None
    """The least and the greatest, of a small matrix that was to be positive definite."""

    @property
    def span(self) -> Span | None:
        return _innermost(self.frames)

    @property
    def transposed(self) -> bool:
        return "transpose(" in self.stack

    @property
    def differentiated(self) -> bool:
        return "jvp(" in self.stack


def unknown_making(kind: Kind, primitive: str, frame: Frame) -> Making:
    """Of an equation of which only the place is known, in a backward pass."""
    return Making(
        kind=kind,
        primitive=primitive,
        frames=(frame,),
        stack="transpose(jvp())",
        operands=(),
        bad=0,
        total=0,
        element=(),
        lanes=(),
        lane_sizes=(),
        loops=(),
        loop_spans=(),
        program="",
        call=1,
        turns=(),
        dtype="float32",
        only_derivative=True,
        order=(),
    )


@dataclass(eq=False)
class Origin:
    """One cause: the first equation, those that turned its infinities into NaN, and where it ended."""

    first: Making
    then: list[Making] = field(default_factory=list)
    reaches: bool = False
    """A result of the cell holds what came of it."""
    in_value: bool = False
    """Not only a gradient."""
    used: bool = False
    """If it reaches no result: something that used it came to a number all the same, as a `where` does."""
    times: int = 1
    """How often the program gave one."""
    sure: bool = True

    @property
    def makings(self) -> list[Making]:
        return [self.first, *self.then]

    @property
    def nan(self) -> Making | None:
        """Where it first was a NaN."""
        return next((each for each in self.makings if each.kind == "nan"), None)


@dataclass(frozen=True)
class Given:
    """A NaN or infinity that came in with an argument and reached a result."""

    kinds: frozenset[Kind]
    frames: tuple[Frame, ...]
    program: str
    position: int
    argument: str
    """Its name in the compiled function; empty where that is not known."""
    value: Value
    element: tuple[int, ...]


@dataclass(frozen=True)
class Untraced:
    """A program that gave one, and could not be looked into."""

    kinds: frozenset[Kind]
    frames: tuple[Frame, ...]
    program: str
    call: int
    why: str


@dataclass(frozen=True)
class Causes:
    """Everything that a watch came to."""

    origins: tuple[Origin, ...] = ()
    given: tuple[Given, ...] = ()
    untraced: tuple[Untraced, ...] = ()


def causes_of(watch: Watch, is_user: Callable[[str], bool], limits: Limits) -> Causes:
    """Looks into every suspect of a watch. The arrays that it kept are let go."""
    inquiry = _Inquiry(watch, is_user, limits)
    for suspect in watch.suspects:
        with limits.guard(f"where NaN came from in {suspect.name}"):
            inquiry.look(suspect)
    for ahead in watch.ahead[:1]:
        inquiry.note_ahead(ahead)
    watch.suspects.clear()
    watch.ahead.clear()
    return Causes(tuple(inquiry.grouped()), tuple(inquiry.given), tuple(inquiry.untraced))


@dataclass(eq=False)
class _Made:
    """A step that made one, within the whole run."""

    making: Making
    outputs: frozenset[Output]
    forward: frozenset[Output]
    """Those that it reaches without the backward pass."""
    absorbed: bool
    causes: list["_Made"]
    stopped: bool
    times: int


class _Inquiry:
    def __init__(self, watch: Watch, is_user: Callable[[str], bool], limits: Limits) -> None:
        self._watch = watch
        self._is_user = is_user
        self._limits = limits
        self._made: list[_Made] = []
        self._makers: dict[Output, list[_Made]] = {}
        """What an output of an earlier program holds infinities of."""
        self.given: list[Given] = []
        self.untraced: list[Untraced] = []

    def look(self, suspect: Suspect) -> None:
        stacks = Stacks(self._is_user)
        outer = stacks.index(suspect.place.traceback, -1)
        try:
            if suspect.arguments is None:
                raise NotRepeatable("what it was given is gone, or too large to keep")
            flow = self._flow(suspect)
        except NotRepeatable as reason:
            frames = _frames(stacks, outer)
            self.untraced.append(Untraced(suspect.made, frames, suspect.name, suspect.call, str(reason)))
            return
        closer = _Closer(suspect, flow, stacks, outer)
        before = len(self._made)
        chosen: list[tuple[Step, Kind]] = [(step, kind) for kind in _KINDS for step in flow.made(kind)[:MOST_MADE]]
        makings = closer.makings(chosen)
        by_step: dict[Step, _Made] = {}
        for (step, kind), making in zip(chosen, makings, strict=True):
            self._made.append(self._place(closer, step, kind, making, by_step))
            if kind == "inf":
                by_step[step] = self._made[-1]
        self._given(suspect, flow, stacks, outer)
        if len(self._made) == before and suspect.made and not self.given:
            why = "evaluated once more, it gave none: rounding differs between the two ways of computing it"
            self.untraced.append(Untraced(suspect.made, _frames(stacks, outer), suspect.name, suspect.call, why))

    def note_ahead(self, ahead: Ahead) -> None:
        stacks = Stacks(self._is_user)
        frames = _frames(stacks, stacks.index(ahead.traceback, -1))
        why = "it was compiled ahead of time, and its equations are not kept; call the jitted function itself"
        self.untraced.append(Untraced(ahead.made, frames, "", 1, why))

    def _flow(self, suspect: Suspect) -> Flow:
        answers = suspect.answers
        region = regions_of(suspect.jaxpr, answered=answers is not None and answers.complete)
        return Flow(region, evaluate(region, suspect.arguments or (), Flags(), answers)[1])

    def _place(self, closer: "_Closer", step: Step, kind: Kind, making: Making, by_step: dict[Step, _Made]) -> _Made:
        suspect, flow = closer.suspect, closer.flow
        outputs = frozenset((suspect.number, index) for index in flow.outputs(step, kind))
        forward = frozenset((suspect.number, index) for index in flow.outputs(step, kind, forward=True))
        causes: list[_Made] = []
        if kind == "nan":
            makers, inputs = flow.causes(step)
            causes = [by_step[maker] for maker in makers if maker in by_step]
            sources = [way[:2] for index in inputs for way in suspect.came.get(index, ())]
            causes += [made for source in sources for made in self._makers.get(source, ())]
        absorbed = closer.is_absorbed(step, kind, making)
        made = _Made(making, outputs, forward, absorbed, causes, suspect.stopped, suspect.times)
        if kind == "inf":
            for output in outputs:
                self._makers.setdefault(output, []).append(made)
        return made

    def _given(self, suspect: Suspect, flow: Flow, stacks: Stacks, outer: int) -> None:
        """Arguments that held one from the start."""
        names = jax_internals.names_of(flow.region.jaxpr).arguments
        for index, kinds in suspect.given.items():
            if suspect.came.get(index) or "nan" not in kinds or suspect.arguments is None:
                continue
            reached = flow.inputs_to([index], "nan")
            if self._watch.reaches([(suspect.number, out) for out in reached], "nan"):
                array = np.asarray(suspect.arguments[index])
                element = tuple(int(each[0]) for each in np.nonzero(np.isnan(array))) if array.ndim else ()
                name = names[index] if index < len(names) else ""
                self.given.append(
                    Given(kinds, _frames(stacks, outer), suspect.name, index, name, _value(array, None), element)
                )

    # -------------------------------------------------------------------------------------------- groups

    def grouped(self) -> list[Origin]:
        """One origin for each cause: what made a NaN together with what made the infinities in it, by source."""
        groups: list[list[_Made]] = []
        for made in self._made:
            related = [made, *made.causes]
            spans = [each.making.span for each in related if each.making.span is not None]
            joined = [group for group in groups if any(each in related or each.making.span in spans for each in group)]
            merged = list(dict.fromkeys([*(each for group in joined for each in group), *related]))
            groups = [group for group in groups if group not in joined] + [merged]
        return sorted(map(self._origin, groups), key=lambda origin: origin.first.order)

    def _origin(self, group: list[_Made]) -> Origin:
        ordered = sorted(group, key=lambda made: made.making.order)
        ends = [made for made in ordered if made.making.kind == "nan"] or ordered
        # An infinity of the same expression that no NaN was made of only stands beside it.
        causal = {id(each) for made in ends for each in (made, *made.causes)}
        first = next(made for made in ordered if id(made) in causal)
        return Origin(
            first=first.making,
            then=[made.making for made in ordered if made is not first and id(made) in causal],
            reaches=any(made.stopped or self._watch.reaches(made.outputs, made.making.kind) for made in ends),
            in_value=any(self._in_value(made) for made in ends),
            used=any(made.absorbed or made.outputs for made in ends),
            times=max(made.times for made in group),
        )

    def _in_value(self, made: _Made) -> bool:
        if made.making.transposed:
            return False
        return made.stopped or self._watch.reaches(made.forward, made.making.kind, forward=True)


class _Closer:
    """Looks closely at some steps of a suspect."""

    def __init__(self, suspect: Suspect, flow: Flow, stacks: Stacks, outer: int) -> None:
        self.suspect = suspect
        self.flow = flow
        self._stacks = stacks
        self._outer = outer
        self._lanes = suspect.place.lanes or _lanes_of_taps(flow.region.jaxpr)

    def makings(self, chosen: Sequence[tuple[Step, Kind]]) -> list[Making]:
        wanted: dict[int, dict[Kind, tuple[int, ...]]] = {}
        for step, kind in chosen:
            wanted.setdefault(step.number, {})[kind] = self.flow.at(step, kind)
        if not wanted:
            return []
        noted = evaluate(self.flow.region, self.suspect.arguments or (), Operands(wanted), self.suspect.answers)[1]
        values = jax.tree.map(np.asarray, noted)
        return [self._making(step, kind, *values[step.number][kind]) for step, kind in chosen]

    def _making(self, step: Step, kind: Kind, ins: list[Any], outs: list[Any]) -> Making:
        test = np.isnan if kind == "nan" else np.isinf
        out = next(each for each in outs if is_inexact(each) and (test(each).any() or each is outs[-1]))
        bad = np.argwhere(test(out))
        first = tuple(int(each) for each in bad[0]) if len(bad) else (0,) * out.ndim
        axes = _lane_axes(out.shape, self._lanes)
        lanes = list(dict.fromkeys(tuple(int(row[axis]) for axis in axes) for row in bad[:10_000])) if axes else []
        stack = "/".join(filter(None, [self.suspect.place.stack, *map(_stack, step.path)]))
        region = self.flow.region
        return Making(
            kind=kind,
            primitive=step.name,
            frames=self._frames(step),
            stack=stack,
            operands=tuple(_value(each, _within(each.shape, first, out.shape)) for each in ins),
            bad=len(bad),
            total=int(out.size),
            element=tuple(each for axis, each in enumerate(first) if axis not in axes),
            lanes=tuple(lanes[:4]),
            lane_sizes=tuple(self._lanes) if axes else (),
            loops=self.flow.at(step, kind),
            loop_spans=tuple(self._span(each) for each in step.path[:-1] if each.kind in ("scan", "while")),
            program=self.suspect.name if len(list(region.all())) > 1 else "",
            call=self.suspect.call,
            turns=self.suspect.place.turns,
            dtype=str(out.dtype),
            only_derivative=self._only_derivative(step),
            order=(self.suspect.number, *self.flow.time(step, kind)),
            eigenvalues=_eigenvalues(ins[0], out) if step.name == "cholesky" else None,
        )

    def is_absorbed(self, step: Step, kind: Kind, making: Making) -> bool:
        """Whether something threw away what a step made; a function of JAX that does so inside of itself is right."""
        return any(_innermost(self._frames(each)) != making.span for each in self.flow.absorbers(step, kind))

    def _only_derivative(self, step: Step) -> bool:
        users = self.flow.users(step)
        return bool(users) and all(map(is_transposed, users))

    def _frames(self, step: Step) -> tuple[Frame, ...]:
        index = self._outer
        for each in step.path:
            traced = jax_internals.traced_function(each.region.jaxpr)
            index = self._stacks.index(jax_internals.traceback_of(each.equation), index, traced)
        return _frames(self._stacks, index)

    def _span(self, step: Step) -> Span | None:
        return _innermost(self._frames(step))


def _innermost(frames: Sequence[Frame]) -> Span | None:
    return frames[0].span if frames else None


def _frames(stacks: Stacks, index: int) -> tuple[Frame, ...]:
    """A frame of a table and its callers, innermost first."""
    table, found = stacks.table.frames(), []
    while index >= 0:
        found.append(table[index])
        index = table[index].parent
    return tuple(found)


def _stack(step: Step) -> str:
    return jax_internals.name_stack_of(step.equation)


def _lane_axes(shape: tuple[int, ...], sizes: Sequence[int]) -> tuple[int, ...]:
    """The axes of an array that are lanes; none where its shape leaves a doubt."""
    axes = []
    for size in sizes:
        fitting = [axis for axis, each in enumerate(shape) if each == size and axis not in axes]
        if len(fitting) != 1:
            return ()
        axes.append(fitting[0])
    return tuple(axes)


def _eigenvalues(matrices: Any, factors: Any) -> tuple[float, float] | None:
    """Of the first matrix that has no factor; None where that would take long."""
    size = matrices.shape[-1]
    if size > _MOST_ROWS:
        return None
    first = np.isnan(factors.reshape(-1, size * size)).any(axis=1).argmax()
    matrix = matrices.reshape(-1, size, size)[first].astype(np.float64)
    if not np.isfinite(matrix).all():
        return None
    values = np.linalg.eigvalsh(matrix)
    return float(values[0]), float(values[-1])


def _within(shape: tuple[int, ...], element: tuple[int, ...], whole: tuple[int, ...]) -> tuple[int, ...] | None:
    """The index into an operand of this shape that an element of the result was made of; None for other shapes."""
    if len(shape) != len(whole) or any(size not in (1, full) for size, full in zip(shape, whole, strict=True)):
        return None
    return tuple(index if size == full else 0 for index, size, full in zip(element, shape, whole, strict=True))


def _lanes_of_taps(jaxpr: Any) -> tuple[int, ...]:
    """Sizes of the vmapped axes, outermost first, as the taps in a program have them in front."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "jaxmagic_tap":
            for atom, lanes in zip(equation.invars, equation.params["lanes"], strict=False):
                if lanes and all(lanes):
                    return tuple(atom.aval.shape[: len(lanes)])
        for inner in equation.params.values():
            if is_jaxpr(inner) and (found := _lanes_of_taps(opened(inner))):
                return found
    return ()


def _value(array: Any, element: tuple[int, ...] | None) -> Value:
    array = np.asarray(array)
    aval = Aval(array.shape, str(array.dtype))
    if array.dtype.kind not in "fciub" and not is_inexact(array):
        return Value(aval)
    there = array[element].item() if element is not None else array.item() if array.size == 1 else None
    if array.dtype.kind == "c" or not array.size:
        return Value(aval, there)
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    ends = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    return Value(
        aval,
        there if not isinstance(there, bool) else float(there),
        *ends,
        nan=int(np.isnan(wide).sum()),
        inf=int(np.isinf(wide).sum()),
        zero=int((wide == 0).sum()),
    )
