"""Watches every program that runs, compiled function or single operation, for the first NaN or infinity out of it."""

import sys
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmagic.core import jax_internals
from jaxmagic.core.aside import aside, is_aside
from jaxmagic.core.limits import Limits
from jaxmagic.core.nonfinite.arrays import SMALL, Kind, is_inexact, kinds_of, suspicious
from jaxmagic.core.nonfinite.hosts import Answers, Hosts
from jaxmagic.core.nonfinite.turns import turns
from jaxmagic.core.wrapping import wrapped

jax_internals.exclude_from_tracebacks(__file__)

MOST_SUSPECTS = 32
MOST_BYTES = 2**28
"""Of the inputs of one program that are kept to evaluate it once more."""

_MOST_PENDING = 4

Output = tuple[int, int]
"""Number of a suspect, and which of its outputs."""

Way = tuple[int, int, Kind, bool]
"""The same, what it held, and whether it went on through a backward pass that is not part of the suspect."""


@dataclass(eq=False)
class Suspect:
    """A program that gave a NaN or an infinity, or had one inside, with what it was given."""

    number: int
    name: str
    jaxpr: Any
    arguments: tuple[Any, ...] | None
    """None where they are gone, or too large to keep."""
    given: dict[int, frozenset[Kind]]
    """Arguments that held one."""
    came: dict[int, frozenset[Way]]
    """Which outputs of earlier suspects those arguments were made of."""
    place: "Place"
    call: int
    """Which run of this program it was, from 1."""
    stopped: bool = False
    """It did not come to its end."""
    made: frozenset[Kind] = frozenset()
    """In its outputs, and not in its arguments."""
    times: int = 1
    answers: Answers | None = None
    """What the host returned to it."""


class Place(NamedTuple):
    """Where in the user's code a program ran."""

    traceback: Any
    stack: str
    """Transformations without jit around it."""
    lanes: tuple[int, ...]
    """Sizes of the axes it was vmapped over without jit, outermost first."""
    turns: tuple[str, ...] = ()
    """Variables of the Python loops around it: `epoch = 3`, outermost first; not known of large programs, which are
    looked at later."""


class Ahead(NamedTuple):
    """A call of a program that was compiled ahead of time, which gave a NaN or an infinity."""

    traceback: Any
    made: frozenset[Kind]


@dataclass(eq=False)
class _Bad:
    """An array that is not finite."""

    array: weakref.ref
    kinds: frozenset[Kind]
    sources: frozenset[Way]
    used: bool = False


@dataclass(eq=False)
class _Run:
    """A program that ran and was not looked at yet."""

    params: dict[str, Any]
    arguments: tuple[Any, ...]
    outs: list[Any]
    place: Place
    call: int
    seen: bool
    """A tap inside of it came with a value that was asked for."""
    flag: Any = None
    answers: Answers | None = None


@dataclass
class Watch:
    """The hooks on JAX's dispatch, and what they found.

    JAX's fast path is off meanwhile, which makes an operation outside of jit some ten times dearer (0.1 to 0.3 ms).

    Args:
        arrivals: How many values taps have sent so far that were not finite.
        is_user: Whether a file name is the user's code.
        limits: Where to note what could not be observed.
    """

    arrivals: Callable[[], int]
    is_user: Callable[[str], bool]
    limits: Limits
    suspects: list[Suspect] = field(default_factory=list)
    ahead: list[Ahead] = field(default_factory=list)
    open: Counter[Way] = field(default_factory=Counter)
    """How many arrays that hold what came of an output went into nothing else."""

    def __post_init__(self) -> None:
        self._bad: dict[int, _Bad] = {}
        self._known: dict[tuple[Any, ...], Suspect] = {}
        self._calls: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._pending: deque[_Run] = deque()
        self._awaited: set[int] = set()
        self._hosts = Hosts(self.limits)
        self._lock = threading.RLock()
        self._undo = ExitStack()

    def start(self) -> None:
        hooks = {"call_impl": self._run, "fast_path": self._fast_path, "compiled_call": self._call_compiled}
        if "host_function" in jax_internals.PIECES:
            hooks["host_function"] = self._hosts.call
        for key, hook in hooks.items():
            self._undo.enter_context(wrapped(key, hook))
        jax_internals.forget_dispatch()

    def stop(self) -> None:
        with self.limits.guard("NaN in the last programs that ran"), aside():
            self._settle_pending()
        self._undo.close()
        jax_internals.forget_dispatch()
        self._bad.clear()

    # --------------------------------------------------------------------------------------------- hooks

    def _fast_path(self, inner: Any, *args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs) if is_aside() else None

    def _call_compiled(self, inner: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        answer = inner(*args, **kwargs)
        with self.limits.guard("a program compiled ahead of time"), aside(), self._lock:
            self._ran_ahead(jax.tree.leaves((args[1:], kwargs)), jax.tree.leaves(answer))
        return answer

    def _run(self, inner: Any, *args: Any, **params: Any) -> Any:
        __tracebackhide__ = True
        if is_aside():
            return inner(*args, **params)
        kept, before, call = args, self.arrivals(), 0
        with self.limits.guard("a program that runs"), aside():
            self._settle_ready()
            kept = _kept(args, params.get("donated_invars", ()))
            call = self._count(params["jaxpr"])
        answers = None
        try:
            with self._hosts.listening(params["jaxpr"]) as answers:
                answer = inner(*args, **params)
                _wait_for(answer[0] if answers is not None else ())
        except BaseException:
            with self.limits.guard("a program that did not end"), aside():
                if self.arrivals() > before:
                    self._stopped(params, kept, call, answers)
            raise
        with self.limits.guard("a program that ran"), aside(), self._lock:
            self._ran(params, kept, list(answer[0]), call, before, answers)
        return answer

    # --------------------------------------------------------------------------------------------- parts

    def _count(self, jaxpr: Any) -> int:
        self._calls[jaxpr] = self._calls.get(jaxpr, 0) + 1
        return self._calls[jaxpr]

    def _ran(
        self, params: dict[str, Any], args: tuple, outs: list[Any], call: int, before: int, answers: Answers | None
    ) -> None:
        inexact = [out for out in outs if is_inexact(out)]
        seen = self.arrivals() > before
        if not inexact and not seen:
            return
        if self._awaited and any(id(argument) in self._awaited for argument in args):
            self._settle_pending()
        run = _Run(params, args, outs, _here(), call, seen, answers=answers)
        if sum(out.size for out in inexact) > SMALL:
            run.flag = suspicious(inexact)
            self._pending.append(run)
            self._awaited.update(map(id, inexact))
            while len(self._pending) > _MOST_PENDING:
                self._settle_first()
        else:
            self._settle(run, [kinds_of(out) for out in outs])

    def _ran_ahead(self, arguments: list[Any], outs: list[Any]) -> None:
        """Of a program that was compiled ahead of time only what goes in and comes out is known."""
        self._settle_pending()
        given = [bad for each in arguments if (bad := self._known_bad(each)) is not None]
        held = [kinds_of(out) for out in outs]
        made = frozenset().union(*held) - frozenset().union(*map(kinds_of, arguments))
        own: set[Way] = set()
        if made:
            self.ahead.append(Ahead(_here().traceback, made))
            own = {(-len(self.ahead), 0, kind, False) for kind in made}
        inherited = {way for bad in given for way in bad.sources}
        for bad in given:
            self._used(bad)
        for out, kinds in zip(outs, held, strict=True):
            if kinds:
                self._note(out, kinds, frozenset(inherited | own))

    def _settle_pending(self) -> None:
        while self._pending:
            self._settle_first()

    def _settle_ready(self) -> None:
        """Those that are done, before the next program asks for memory which they hold."""
        with self._lock:
            while self._pending and self._pending[0].flag.is_ready():
                self._settle_first()

    def _settle_first(self) -> None:
        run = self._pending.popleft()
        held = bool(run.flag)
        if not self._pending:
            self._awaited.clear()
        self._settle(run, [kinds_of(out) if held else frozenset() for out in run.outs])

    def _settle(self, run: _Run, kinds: list[frozenset[Kind]]) -> None:
        """Looks at a program that has run: did it make what it gave, or had it been given it?"""
        given = {index: bad for index, each in enumerate(run.arguments) if (bad := self._known_bad(each)) is not None}
        held = frozenset().union(*kinds)
        if held or run.seen:
            self._judge(run, kinds, held, given)
        elif given:
            for bad in given.values():
                self._used(bad)

    def _judge(self, run: _Run, kinds: list[frozenset[Kind]], held: frozenset[Kind], given: dict[int, _Bad]) -> None:
        found = {index: bad.kinds for index, bad in given.items()}
        for index, argument in enumerate(run.arguments):
            if index not in found and (there := kinds_of(argument)):
                found[index] = there
        among = frozenset().union(*found.values())
        made = held - among
        unexplained = any(index not in given for index in found)
        suspect = None
        if made or unexplained or (run.seen and not held):
            came = {index: bad.sources for index, bad in given.items()}
            suspect = self._suspect(run, found, came, made, tuple(kinds))
        backward = "transpose(" in run.place.stack
        inherited = {(*way[:3], way[3] or backward) for bad in given.values() for way in bad.sources}
        for bad in given.values():
            self._used(bad)
        for index, there in enumerate(kinds):
            if there:
                own: set[Way] = {(suspect.number, index, kind, False) for kind in there} if suspect else set()
                # What became of a NaN is one as well: where there is only an infinity, the NaN was thrown away.
                passed = {way for way in inherited if "nan" in there or way[2] == "inf"}
                self._note(run.outs[index], there, frozenset(passed | own))

    def reaches(self, outputs: Iterable[Output], kind: Kind, *, forward: bool = False) -> bool:
        """Whether what came of a NaN or infinity in any of these outputs was left at the end.

        `forward`: not through a backward pass.
        """
        held: tuple[Kind, ...] = ("nan",) if kind == "nan" else ("nan", "inf")
        ways = product(held, (False,) if forward else (False, True))
        return any(self.open[n, out, *way] > 0 for (n, out), way in product(outputs, list(ways)))

    def _suspect(
        self,
        run: _Run,
        given: dict[int, frozenset[Kind]],
        came: dict[int, frozenset[Way]],
        made: frozenset[Kind],
        held: tuple[frozenset[Kind], ...] = (),
    ) -> Suspect | None:
        where = jax_internals.stack_of(run.place.traceback)
        key = (id(run.params["jaxpr"]), where, made, held)
        if key in self._known:
            self._known[key].times += 1
            return self._known[key]
        if len(self.suspects) >= MOST_SUSPECTS:
            self.limits.add(f"NaN and infinities: only the first {MOST_SUSPECTS} places were looked into")
            return None
        place = run.place
        with self.limits.guard("the Python loops around a NaN"):
            place = place if run.flag is not None else place._replace(turns=turns(sys._getframe(), self.is_user))
        suspect = Suspect(
            number=len(self.suspects),
            name=str(run.params.get("name", "")),
            jaxpr=run.params["jaxpr"],
            arguments=_copies(run.arguments),
            given=given,
            came=came,
            place=place,
            call=run.call,
            made=made,
            answers=run.answers,
        )
        self.suspects.append(suspect)
        self._known[key] = suspect
        return suspect

    def _stopped(self, params: dict[str, Any], args: tuple, call: int, answers: Answers | None) -> None:
        self._settle_pending()
        run = _Run(params, args, [], _here(), call, seen=True, answers=answers)
        given = {i: bad for i, each in enumerate(args) if (bad := self._known_bad(each)) is not None}
        found = {i: kinds for i, each in enumerate(args) if (kinds := kinds_of(each))}
        suspect = self._suspect(run, found, {i: bad.sources for i, bad in given.items()}, frozenset())
        if suspect is not None:
            suspect.stopped = True

    def _known_bad(self, argument: Any) -> _Bad | None:
        bad = self._bad.get(id(argument))
        return bad if bad is not None and bad.array() is argument else None

    def _note(self, array: Any, kinds: frozenset[Kind], sources: frozenset[Way]) -> None:
        self._bad[id(array)] = _Bad(weakref.ref(array), kinds, sources)
        self.open.update(sources)

    def _used(self, bad: _Bad) -> None:
        if not bad.used:
            bad.used = True
            self.open.subtract(bad.sources)


def _wait_for(outs: Iterable[Any]) -> None:
    """Until a program has asked the host all that it asks; what it fails of comes up where JAX says it."""
    with suppress(Exception):
        jax.block_until_ready(list(outs))


def _here() -> Place:
    stack = jax_internals.name_stack_here()
    lanes = jax_internals.sizes_of_vmaps(sys._getframe()) if "vmap" in stack else ()
    return Place(jax_internals.here(), stack, lanes)


def _kept(args: tuple, donated: Sequence[bool]) -> tuple:
    """The arguments as they can be looked at after the program has run: copies of those it will overwrite."""
    if not any(donated):
        return args
    size = sum(each.nbytes for each, gone in zip(args, donated, strict=False) if gone and hasattr(each, "nbytes"))
    if size > MOST_BYTES:
        return args
    return tuple(
        each.copy() if gone and isinstance(each, jax.Array) else each
        for each, gone in zip(args, (*donated, *(False,) * len(args)), strict=False)
    )


def _copies(args: tuple) -> tuple | None:
    """Copies to keep until the cell has ended; None where there is too much or some of it is gone."""
    arrays = [each for each in args if isinstance(each, jax.Array)]
    if any(each.is_deleted() for each in arrays) or sum(each.nbytes for each in arrays) > MOST_BYTES:
        return None
    return tuple(each.copy() if isinstance(each, jax.Array | np.ndarray) else each for each in args)
