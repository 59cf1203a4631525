"""Evaluates a program once more and looks at each equation: no code of the user's runs, only what JAX made of it."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer

from jaxmagic.core import jax_internals
from jaxmagic.core.nonfinite.arrays import Kind, kinds_of
from jaxmagic.core.nonfinite.hosts import HOST, Answers, Replay
from jaxmagic.core.nonfinite.regions import SAME, NotRepeatable, Region, Step, loop_numbers

jax_internals.exclude_from_tracebacks(__file__)

Notes = dict[int, Any]
"""What was noted of each step, by its number: pytrees of arrays."""


class Probe(Protocol):
    """Looks at every equation of a program that is evaluated."""

    def look(self, step: Step, ins: Sequence[Array], outs: Sequence[Array]) -> Any:
        """What to note of a step; traced. None for nothing."""
        ...

    def blank(self, step: Step, avals: tuple[Sequence[Any], Sequence[Any]]) -> Any:
        """The same for a step that has not run."""
        ...

    def later(self, step: Step, loop: int, count: Array, old: Any, new: Any) -> Any:
        """What to keep of two notes, `new` from iteration `count` of the loop at this depth."""
        ...


def evaluate(
    region: Region, arguments: Sequence[Any], probe: Probe, answers: Answers | None = None
) -> tuple[list[Any], Notes]:
    """Outputs of the program, and what `probe` noted.

    Args:
        region: The whole of it.
        arguments: Its inputs.
        probe: What to look for.
        answers: What the host returned to it when it ran.

    Raises:
        NotRepeatable: the host was asked something else than it was then.

    One operation after the other, which compiles each kind once; only the bodies of loops are compiled whole. To
    compile all of it with its flags takes ten times as long as the program itself did.
    """
    replay = Replay(answers)
    outs, notes = jax.block_until_ready(_Evaluation(probe, replay).region(region, list(arguments)))
    if replay.missed:
        raise NotRepeatable("it calls the host, which was asked something else when all was evaluated once more")
    return outs, notes


class _Evaluation:
    def __init__(self, probe: Probe, replay: Replay) -> None:
        self._probe = probe
        self._replay = replay

    def region(self, region: Region, arguments: Sequence[Any]) -> tuple[list[Any], Notes]:
        values: dict[Any, Any] = dict(zip(region.jaxpr.constvars, region.constants, strict=True))
        values.update(zip(region.jaxpr.invars, arguments, strict=True))
        notes: Notes = {}
        for step in region.steps:
            ins = [_read(values, atom) for atom in step.equation.invars]
            outs, inside = self._step(step, ins)
            notes.update(inside)
            if (seen := self._probe.look(step, ins, outs)) is not None:
                notes[step.number] = seen
            values.update(zip(step.equation.outvars, outs, strict=True))
            for variable in region.last_used.get(step.number, ()):
                del values[variable]
        return [_read(values, atom) for atom in region.jaxpr.outvars], notes

    def _step(self, step: Step, ins: list[Any]) -> tuple[list[Any], Notes]:
        evaluators: dict[str, Callable[[Step, list[Any]], tuple[list[Any], Notes]]] = {
            "call": lambda step, ins: self.region(step.regions[0], ins),
            "scan": self._scan,
            "while": self._while,
            "cond": self._cond,
        }
        if step.kind in evaluators:
            return evaluators[step.kind](step, ins)
        if step.name in SAME:
            return ins, {}
        if step.name in HOST:
            return self._replay.outs(step.equation, ins, traced=step.depth > 0), {}
        return jax_internals.bind(step.equation, ins), {}

    def _cond(self, step: Step, ins: list[Any]) -> tuple[list[Any], Notes]:
        index, *operands = ins
        if not isinstance(index, Tracer):
            taken = min(max(int(index), 0), len(step.regions) - 1)
            outs, notes = self.region(step.regions[taken], operands)
            return outs, {key: note for branch in step.regions for key, note in self._blank(branch).items()} | notes
        blank = {key: note for branch in step.regions for key, note in self._blank(branch).items()}

        def taking(branch: Region) -> Callable[..., Any]:
            def take(operands: list[Any]) -> Any:
                outs, notes = self.region(branch, operands)
                return outs, blank | notes

            return take

        return lax.switch(index, [taking(branch) for branch in step.regions], operands)

    def _scan(self, step: Step, ins: list[Any]) -> tuple[list[Any], Notes]:
        constants, carried = loop_numbers(step)
        fixed, initial, sliced = ins[:constants], ins[constants : constants + carried], ins[constants + carried :]
        body, parameters = step.regions[0], step.equation.params

        def turn(state: Any, slices: Any) -> Any:
            carry, count, kept = state
            outs, notes = self.region(body, [*fixed, *carry, *slices])
            position = parameters["length"] - 1 - count if parameters["reverse"] else count
            return (outs[:carried], count + 1, self._later(body, step, position, kept, notes)), outs[carried:]

        state = (initial, jnp.int32(0), self._blank(body))
        (carry, _, kept), stacked = lax.scan(
            turn, state, sliced, length=parameters["length"], reverse=parameters["reverse"]
        )
        return [*carry, *stacked], kept

    def _while(self, step: Step, ins: list[Any]) -> tuple[list[Any], Notes]:
        condition, body = step.regions
        asked, given = step.equation.params["cond_nconsts"], step.equation.params["body_nconsts"]
        ask, fixed, initial = ins[:asked], ins[asked : asked + given], ins[asked + given :]

        def goes_on(state: Any) -> Any:
            return self.region(condition, [*ask, *state[0]])[0][0]

        def turn(state: Any) -> Any:
            carry, count, kept, kept_asking = state
            asking = self.region(condition, [*ask, *carry])[1]
            outs, notes = self.region(body, [*fixed, *carry])
            kept_asking = self._later(condition, step, count, kept_asking, asking)
            return outs, count + 1, self._later(body, step, count, kept, notes), kept_asking

        state = (initial, jnp.int32(0), self._blank(body), self._blank(condition))
        carry, _, kept, kept_asking = lax.while_loop(goes_on, turn, state)
        return carry, kept_asking | kept

    def _later(self, region: Region, loop: Step, count: Array, old: Notes, new: Notes) -> Notes:
        steps = {step.number: step for step in region.all()}
        return {key: self._probe.later(steps[key], loop.depth, count, old[key], new[key]) for key in old}

    def _blank(self, region: Region) -> Notes:
        notes = {}
        for step in region.all():
            ins = [atom.aval for atom in step.equation.invars]
            outs = [atom.aval for atom in step.equation.outvars]
            if (note := self._probe.blank(step, (ins, outs))) is not None:
                notes[step.number] = note
        return notes


def _read(values: dict[Any, Any], atom: Any) -> Any:
    return atom.val if isinstance(atom, jax_internals.Literal) else values[atom]


# --------------------------------------------------------------------------------------------- probes


class Flags:
    """Notes where a NaN or an infinity was made, the first time, and what of its results ever was one.

    Of each step: `made` (`bool[2]`: NaN, infinity, from operands that had none), `at` (`int32[2, loops]`: in which
    iteration of each loop), `held` (`bool[2, outputs]`), and of a select `chosen` (`bool[2, cases]`: of the chosen
    elements of each case, whether any was one).
    """

    def look(self, step: Step, ins: Sequence[Array], outs: Sequence[Array]) -> Any:
        held = _kinds(outs)
        made = held.any(axis=1) & (step.kind == "leaf")
        if isinstance(made, Tracer) or made.any():
            made = made & ~_kinds(ins).any(axis=1)
        notes = {"made": made, "at": np.zeros((2, step.depth), np.int32), "held": held}
        if step.name == "select_n" and len(ins) > 1:
            notes["chosen"] = _kinds([_chosen(ins[0], case, number) for number, case in enumerate(ins[1:])])
        return notes

    def blank(self, step: Step, avals: tuple[Sequence[Any], Sequence[Any]]) -> Any:
        ins, outs = avals
        none = jnp.zeros(2, bool)
        notes = {
            "made": none,
            "at": jnp.zeros((2, step.depth), jnp.int32),
            "held": jnp.zeros((2, len(outs)), bool),
        }
        return notes | ({"chosen": jnp.zeros((2, len(ins) - 1), bool)} if step.name == "select_n" else {})

    def later(self, step: Step, loop: int, count: Array, old: Any, new: Any) -> Any:
        first = new["made"] & ~old["made"]
        at = jnp.where(first[:, None], jnp.asarray(new["at"]).at[:, loop].set(count), old["at"])
        rest = {key: old[key] | new[key] for key in old if key != "at"}
        return rest | {"at": at}


class Operands:
    """Notes the operands and results of some steps, each in one iteration of the loops around it.

    Args:
        wanted: The iterations in which to look, by the step's number and then by what is looked for.
    """

    def __init__(self, wanted: dict[int, dict[Kind, tuple[int, ...]]]) -> None:
        self._wanted = wanted

    def look(self, step: Step, ins: Sequence[Array], outs: Sequence[Array]) -> Any:
        if step.number not in self._wanted:
            return None
        arrays = [jnp.asarray(each) for each in ins], [jnp.asarray(each) for each in outs]
        return dict.fromkeys(self._wanted[step.number], arrays)

    def blank(self, step: Step, avals: tuple[Sequence[Any], Sequence[Any]]) -> Any:
        if step.number not in self._wanted:
            return None
        arrays = tuple([jnp.zeros(aval.shape, aval.dtype) for aval in each] for each in avals)
        return dict.fromkeys(self._wanted[step.number], arrays)

    def later(self, step: Step, loop: int, count: Array, old: Any, new: Any) -> Any:
        def chosen(kind: Kind) -> Any:
            here = count == self._wanted[step.number][kind][loop]
            return jax.tree.map(lambda before, now: jnp.where(here, now, before), old[kind], new[kind])

        return {kind: chosen(kind) for kind in old}


def _chosen(which: Array, case: Array, number: int) -> Array:
    return jnp.where(which == (number if which.dtype != bool else bool(number)), case, jnp.zeros_like(case))


def _kinds(arrays: Sequence[Any]) -> Any:
    """`bool[2, n]`: whether each array has a NaN, and an infinity, in it; without JAX where they are there."""
    if not any(isinstance(each, Tracer) for each in arrays):
        there = [kinds_of(each) for each in arrays]
        return np.array([[kind in each for each in there] for kind in ("nan", "inf")], bool).reshape(2, len(there))
    return jnp.stack(
        [jnp.stack([_any(jnp.isnan, each) for each in arrays]), jnp.stack([_any(jnp.isinf, each) for each in arrays])]
    )


def _any(test: Callable[[Array], Array], array: Any) -> Array:
    array = array if hasattr(array, "dtype") else jnp.asarray(array)
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        return jnp.zeros((), bool)
    return jnp.any(test(array))
