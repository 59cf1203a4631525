"""What host functions returned to a program, so that it can be evaluated once more without calling them again."""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmagic.core import jax_internals
from jaxmagic.core.aside import is_aside
from jaxmagic.core.limits import Limits
from jaxmagic.core.programs.parameters import is_jaxpr, opened

jax_internals.exclude_from_tracebacks(__file__)

HOST = ("pure_callback", "io_callback")
"""Primitives whose answers are kept."""

_MOST_CALLS = 10_000
_MOST_BYTES = 2**26
_ROUNDING = 1e-3
"""By how much, relatively, a host function may be given other numbers when all is evaluated once more."""


class Answer(NamedTuple):
    """One call of a host function."""

    callback: Any
    given: tuple[np.ndarray, ...]
    returned: tuple[np.ndarray, ...]


@dataclass(eq=False)
class Answers:
    """Those of one run of a program."""

    kept: list[Answer] = field(default_factory=list)
    complete: bool = True
    bytes: int = 0

    def add(self, answer: Answer) -> None:
        self.bytes += sum(array.nbytes for array in (*answer.given, *answer.returned))
        self.complete = self.complete and len(self.kept) < _MOST_CALLS and self.bytes <= _MOST_BYTES
        if self.complete:
            self.kept.append(answer)
        else:
            self.kept.clear()


class Hosts:
    """Listens to the host functions that programs call."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._listening: list[Answers] = []
        self._asking: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

    @contextmanager
    def listening(self, closed: Any) -> Iterator[Answers | None]:
        """What the host answers meanwhile; None of a program that asks nothing."""
        if closed not in self._asking:
            self._asking[closed] = _asks(closed)
        if not self._asking[closed]:
            yield None
            return
        answers = Answers()
        self._listening.append(answers)
        try:
            yield answers
        finally:
            self._listening.remove(answers)

    def call(self, inner: Any, callback: Any, *given: Any) -> Any:
        """Around JAX's call of a host function."""
        __tracebackhide__ = True
        returned = inner(callback, *given)
        if self._listening and not is_aside():
            with self._limits.guard("what a host function returned"):
                answer = Answer(callback, tuple(map(_copy, given)), tuple(map(_copy, returned)))
                for each in self._listening:
                    each.add(answer)
        return returned


def _copy(array: Any) -> np.ndarray:
    return np.array(array)


def _asks(closed: Any) -> bool:
    for equation in opened(closed).eqns:
        if equation.primitive.name in HOST:
            return True
        for value in equation.params.values():
            if any(is_jaxpr(each) and _asks(each) for each in (value if isinstance(value, tuple | list) else (value,))):
                return True
    return False


class Replay:
    """The answers once more, each for a call with the same arguments, in their order."""

    def __init__(self, answers: Answers | None) -> None:
        self._all = answers.kept if answers is not None else []
        self._left = list(self._all)
        self.missed = False
        """Something was asked that had not been asked before."""

    def outs(self, equation: Any, ins: Sequence[Any], *, traced: bool) -> list[Any]:
        results = tuple(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in equation.params["result_avals"])
        if not results:
            return []
        find = partial(self._find, equation, results)
        return list(jax.pure_callback(find, results, *ins)) if traced else list(map(jnp.asarray, find(*ins)))

    def _find(self, equation: Any, results: Sequence[Any], *given: Any) -> tuple[np.ndarray, ...]:
        arrays = tuple(map(np.asarray, given))
        repeatable = self._all if equation.primitive.name == "pure_callback" else []
        for among in (self._left, repeatable):
            for near in (False, True):
                place = next((at for at, one in enumerate(among) if _fits(one, equation, arrays, near=near)), None)
                if place is not None:
                    # By its place, for answers that hold arrays do not compare.
                    found = self._left.pop(place) if among is self._left else among[place]
                    return tuple(
                        x.astype(r.dtype).reshape(r.shape) for x, r in zip(found.returned, results, strict=True)
                    )
        self.missed = True
        return tuple(np.zeros(each.shape, each.dtype) for each in results)


def _fits(answer: Answer, equation: Any, given: Sequence[np.ndarray], *, near: bool) -> bool:
    if answer.callback != equation.params["callback"] or len(answer.given) != len(given):
        return False
    return all(_is_same(before, now, near=near) for before, now in zip(answer.given, given, strict=True))


def _is_same(before: np.ndarray, now: np.ndarray, *, near: bool) -> bool:
    if before.shape != now.shape:
        return False
    if near and now.dtype.kind in "fc":
        return bool(np.allclose(now, before, rtol=_ROUNDING, atol=0.0, equal_nan=True))
    return before.tobytes() == now.tobytes()
