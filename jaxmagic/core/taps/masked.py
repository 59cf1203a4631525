"""Taps on what a `where` chooses from: a NaN without a name that is thrown away comes to no other tap."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jaxmagic.core import jax_internals
from jaxmagic.core.nonfinite.arrays import is_inexact
from jaxmagic.core.programs.parameters import CALLS, opened
from jaxmagic.core.taps.conditions import NAN
from jaxmagic.core.taps.delivery import Site
from jaxmagic.core.taps.descent import closed_like
from jaxmagic.core.taps.intake import receive_unkept
from jaxmagic.core.taps.sending import callback_effect
from jaxmagic.core.taps.transport import tap_p

_OF_NUMBERS = ("log", "log1p", "sqrt", "rsqrt", "div", "rem", "pow", "asin", "acos", "acosh", "atanh", "erf_inv")
_OF_MATRICES = ("cholesky", "triangular_solve", "custom_linear_solve", "eigh", "lu")
_UNDEFINED = frozenset((*_OF_NUMBERS, *_OF_MATRICES, "lgamma", "digamma"))
"""Primitives that are not defined for every number."""

_JAXPRS = {"while": "body_jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
_WHOLE = frozenset((*CALLS, "jit", "pjit", "scan", "shard_map", "while"))
_SITE = Site("what is chosen from", receive_unkept, reduce_above=0, gate=NAN)
_EFFECT = callback_effect(ordered=False)


def watch_choices(closed: Any, is_user: Callable[[str], bool]) -> Any:
    """The same program with taps that only count; the very same object where none is needed.

    One stands before each choice that the user wrote, on what may be NaN there and is no operand of another tap.
    """
    if closed not in _watched:
        # JAX finds a compiled program by its jaxpr, which must therefore be the same one each time.
        _watched[closed] = _Writer(is_user).program(closed, [False] * len(opened(closed).invars)).program
    watched = _watched[closed]
    return closed if watched is None else watched


_watched: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


class _Written(NamedTuple):
    """A program with taps."""

    program: Any
    """None where it needs none."""
    doubtful: list[bool]
    """Which of its results may be NaN, and are not watched."""


class _Writer:
    def __init__(self, is_user: Callable[[str], bool]) -> None:
        self._is_user = is_user

    def program(self, closed: Any, given: Sequence[bool]) -> _Written:
        """A jaxpr, with its constants or without; `given`: which of its inputs are doubtful."""
        jaxpr, equations = opened(closed), []
        named = {atom for each in jaxpr.eqns if each.primitive is tap_p for atom in _variables(each.invars)}
        doubtful = {atom for atom, doubt in zip(jaxpr.invars, given, strict=True) if doubt} - named
        for equation in jaxpr.eqns:
            chosen = [atom for atom in dict.fromkeys(_variables(equation.invars)) if atom in doubtful]
            if chosen and self._is_choice(equation):
                equations += [_tap(chosen, equation), equation]
                continue
            written, results = self._equation(equation, _flags(equation.invars, doubtful))
            equations.append(written)
            doubtful |= {atom for atom in results if is_inexact(atom.aval)} - named
        outs = _flags(jaxpr.outvars, doubtful)
        if equations == list(jaxpr.eqns):
            return _Written(None, outs)
        written = jaxpr.replace(eqns=equations, effects=jaxpr.effects | {_EFFECT})
        return _Written(closed_like(closed, written), outs)

    def _equation(self, equation: Any, given: list[bool]) -> tuple[Any, list[Any]]:
        """The equation with taps inside of it, and its doubtful results."""
        written = [(place, self.program(*inner)) for place, inner in _inside(equation, given)]
        if not written:
            return equation, equation.outvars if any(given) or _may_be_undefined(equation) else []
        flags = zip(equation.outvars, *(new.doubtful for _, new in written), strict=True)
        results = [atom for atom, *doubts in flags if any(doubts)]
        parameters = dict(equation.params)
        for (key, branch), new in written:
            if new.program is not None:
                parameters[key] = new.program if branch is None else _with(parameters[key], branch, new.program)
        if all(new.program is None for _, new in written):
            return equation, results
        return equation.replace(params=parameters, effects=equation.effects | {_EFFECT}), results

    def _is_choice(self, equation: Any) -> bool:
        """Whether it is the user who calls `where` there, not another function of JAX."""
        name, called = equation.params.get("name", equation.primitive.name), ""
        if name not in ("_where", "nan_to_num", "select_n"):
            return False
        traceback = jax_internals.traceback_of(equation)
        for code, _ in jax_internals.frames_within_trace(traceback) if traceback is not None else ():
            if self._is_user(code.co_filename):
                return name == "nan_to_num" or called in ("where", "select")
            called = code.co_name
        return False


def _inside(equation: Any, given: list[bool]) -> Iterator[tuple[tuple[str, int | None], tuple[Any, list[bool]]]]:
    """The jaxprs of an equation that run on its operands: by parameter and branch, each with its doubtful inputs."""
    name = equation.primitive.name
    if name == "cond":
        for number, branch in enumerate(equation.params["branches"]):
            yield ("branches", number), (branch, given[1:])
    if name not in _WHOLE:
        return
    key = _JAXPRS.get(name, "jaxpr")
    passed = given[equation.params["cond_nconsts"] :] if name == "while" else given
    inner = equation.params.get(key)
    if inner is not None and len(opened(inner).invars) == len(passed):
        yield (key, None), (inner, passed)


def _with(branches: tuple[Any, ...], number: int, new: Any) -> tuple[Any, ...]:
    return (*branches[:number], new, *branches[number + 1 :])


def _may_be_undefined(equation: Any) -> bool:
    """Whether it gives NaN for some numbers; dividing by a number that is written down does not."""
    divisor = equation.invars[-1] if equation.primitive.name in ("div", "rem") else None
    constant = isinstance(divisor, jax_internals.Literal) and bool(divisor.val)
    return equation.primitive.name in _UNDEFINED and not constant


def _flags(atoms: Sequence[Any], doubtful: set[Any]) -> list[bool]:
    return [not isinstance(atom, jax_internals.Literal) and atom in doubtful for atom in atoms]


def _variables(atoms: Sequence[Any]) -> list[Any]:
    return [atom for atom in atoms if not isinstance(atom, jax_internals.Literal)]


def _tap(values: list[Any], like: Any) -> Any:
    """A tap on these values, right before the equation `like`."""
    kinds, lanes = ("value",) * len(values), ((),) * len(values)
    parameters = {"site": _SITE, "lanes": lanes, "kinds": kinds, "ordered": False}
    return like.replace(primitive=tap_p, invars=values, outvars=[], params=parameters, effects={_EFFECT})
