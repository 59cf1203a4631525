"""Tracing a function once more only to look at it: nothing of it stays, and what JAX has cached is left alone."""

import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice, zip_longest
from typing import Any, NamedTuple

import numpy as np

from jaxmagic.core.capture.constants import is_key, overwritten, rewritten, same_array, user_of
from jaxmagic.core.capture.ownership import IsUser
from jaxmagic.core.jax_internals import Literal
from jaxmagic.core.programs.parameters import inner_jaxprs, opened
from jaxmagic.core.programs.stacks import Stacks
from jaxmagic.records import Span

_MOST_DRIFTS = 20


_looking = threading.local()


def looker() -> object | None:
    """On whose behalf this thread is looking now; None while the user's own calls trace."""
    return getattr(_looking, "who", None)


@contextmanager
def unseen(who: object) -> Iterator[None]:
    """Nothing that this thread prints is shown, and Python's and NumPy's random states are put back."""
    before, python, numpy = looker(), random.getstate(), np.random.get_state()
    _looking.who = who
    try:
        with _stdout.muted():
            yield
    finally:
        _looking.who = before
        random.setstate(python)
        np.random.set_state(numpy)


class _Stdout:
    """Stands in for `sys.stdout` while some thread looks: drops what that thread writes, passes on the rest."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._muted: list[int] = []
        self._shown: Any = None

    @contextmanager
    def muted(self) -> Iterator[None]:
        with self._lock:
            if not self._muted:
                self._shown, sys.stdout = sys.stdout, self
            self._muted.append(threading.get_ident())
        try:
            yield
        finally:
            with self._lock:
                self._muted.remove(threading.get_ident())
                if not self._muted and sys.stdout is self:
                    sys.stdout = self._shown

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() in self._muted else self._shown.write(text)

    def flush(self) -> None:
        if threading.get_ident() not in self._muted:
            self._shown.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shown, name)


_stdout = _Stdout()


class Drift(NamedTuple):
    """One thing that is otherwise when the function is traced now."""

    what: str
    """`constant`, `literal`, `parameter`, `operation`, `aval` or `structure`."""
    before: str
    after: str
    span: Span | None = None
    """Of the operation in the cached program."""
    around: tuple[Span, ...] = ()
    """The user's lines that led to the operation, in the cached program and in the new one, innermost first."""


def drifts(cached: Any, now: Any, is_user: IsUser, roots: tuple = ()) -> tuple[Drift, ...]:
    """What differs between the cached jaxpr of a function and the one its code gives now, at most 20 things.

    Args:
        cached: The program.
        now: What a second look gave.
        is_user: Whose file it is.
        roots: The function and its static arguments, to find the arrays that it reads.
    """
    comparison = _Comparison(Stacks(is_user), roots)
    waiting = [(cached, now)]
    while waiting and len(comparison.found) < _MOST_DRIFTS:
        old, new = waiting.pop(0)
        if old is not new:
            comparison.constants(old, new)
            waiting += comparison.equations(opened(old), opened(new))
    return tuple(comparison.found[:_MOST_DRIFTS])


def drifts_since(cached: Any, lowered: Any, is_user: IsUser) -> tuple[Drift, ...]:
    """What was written to NumPy arrays since a program was made that shares their memory: no trace shows that."""
    comparison = _Comparison(Stacks(is_user), ())
    for place, before, now in islice(overwritten(cached, lowered), _MOST_DRIFTS):
        comparison.constant(place, before, now, cached, None)
    return tuple(comparison.found)


class _Comparison:
    def __init__(self, stacks: Stacks, roots: tuple) -> None:
        self.found: list[Drift] = []
        self._stacks = stacks
        self._roots = roots

    def constants(self, old: Any, new: Any) -> None:
        pairs = list(zip(getattr(old, "consts", ()), getattr(new, "consts", ()), strict=False))
        live = rewritten([before if before is after else None for before, after in pairs], self._roots)
        for place, (before, after) in enumerate(pairs):
            if place in live or not same_array(before, after):
                self.constant(place, before, live.get(place, after), old, new)

    def constant(self, place: int, before: Any, now: Any, old: Any, new: Any) -> None:
        used = [user_of(opened(each), place) if each is not None else None for each in (old, new)]
        self._add("constant", _text(before), _text(now), used[0], used[1])

    def equations(self, old: Any, new: Any) -> list[tuple[Any, Any]]:
        """Compares two bodies equation by equation; returns the pairs of regions inside."""
        inner = []
        differs = len(old.eqns) != len(new.eqns)
        pairs: Iterator[Any] = zip_longest(old.eqns, new.eqns)
        for before, after in pairs:
            other = _operation(before) != _operation(after)
            if differs and (other or _avals(before) != _avals(after)):
                counts = [f"{len(each.eqns)} operation{'s' * (len(each.eqns) != 1)}" for each in (old, new)]
                self._add("structure", counts[0], counts[1], before, after)
                return []
            if other:
                self._add("operation", before.primitive.name, after.primitive.name, before, after)
                return inner
            if not differs:  # else they may only have moved
                self._atoms(before, after)
                self._parameters(before, after)
            regions = [each.jaxpr for each in inner_jaxprs("", before.params)]
            if regions:
                inner += zip(regions, [each.jaxpr for each in inner_jaxprs("", after.params)], strict=False)
        return inner

    def _atoms(self, before: Any, after: Any) -> None:
        for old, new in zip(before.invars, after.invars, strict=False):
            if isinstance(old, Literal) and isinstance(new, Literal) and not same_array(old.val, new.val):
                self._add("literal", _text(old.val), _text(new.val), before, after)
        for old, new in zip(_avals(before), _avals(after), strict=False):
            if old != new:
                self._add("aval", old, new, before, after)

    def _parameters(self, before: Any, after: Any) -> None:
        """Numbers that an operation has without being an operand: the 2 of `x ** 2`, an axis, a number of passes."""
        for name, old in before.params.items():
            new = after.params.get(name, old)
            if type(old) in (int, float, bool) and type(new) is type(old) and old != new and old == old:
                self._add("parameter", str(old), str(new), before, after)

    def _add(self, what: str, old: str, new: str, before: Any, after: Any) -> None:
        """`before` and `after` are the equations, or None."""
        around = [self._frames(each) for each in (before, after) if each is not None]
        span = around[0][0] if before is not None and around[0] else None
        self.found.append(Drift(what, old, new, span, tuple(dict.fromkeys(chain.from_iterable(around)))))

    def _frames(self, equation: Any) -> list[Span]:
        index, spans = self._stacks.index(equation.source_info.traceback, -1), []
        while index >= 0:
            frame = self._stacks.table.frames()[index]
            spans.append(frame.span)
            index = frame.parent
        return spans


def _operation(equation: Any) -> str:
    return equation.primitive.name if equation is not None else ""


def _avals(equation: Any) -> list[str]:
    return [str(each.aval) for each in equation.outvars]


def _text(value: Any) -> str:
    if np.size(value) > 8 or is_key(value):
        return f"an array of shape {np.shape(value)}"
    array = np.asarray(value)
    return np.array2string(array, separator=", ", precision=6) if array.ndim else str(array[()])
