"""Rewrites a jaxpr so that values known further out reach the taps inside of it and are sent along."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax.sharding import PartitionSpec

from jaxmagic.core import jax_internals
from jaxmagic.core.programs.parameters import CALLS, opened
from jaxmagic.core.taps.delivery import Kind
from jaxmagic.core.taps.transport import tap_p


class Extra(NamedTuple):
    """A variable of the jaxpr at hand that its taps are to send."""

    variable: Any
    kind: Kind


def has_tap(jaxpr: Any) -> bool:
    return any(e.primitive is tap_p or any(map(has_tap, inner_jaxprs(e))) for e in opened(jaxpr).eqns)


def pass_down(closed: Any, extras: Sequence[Extra], *, counting: bool) -> Any:
    """The jaxpr with further inputs at its end, one for each of `extras`, that go to every tap inside.

    Args:
        closed: A jaxpr, with its constants or without.
        extras: What an equation that calls it will give; of the type of the caller's variables.
        counting: Whether loops add their counters.
    """
    inside = [Extra(jax_internals.new_variable(extra.variable.aval), extra.kind) for extra in extras]
    jaxpr = opened(closed)
    equations = [each for equation in jaxpr.eqns for each in _equation(equation, inside, counting)]
    return closed_like(closed, jaxpr.replace(invars=[*jaxpr.invars, *variables(inside)], eqns=equations))


def without_taps(closed: Any) -> Any:
    """The program as it would be untapped, for where there can be no callbacks."""
    jaxpr = opened(closed)
    equations = [_without_taps(equation) for equation in jaxpr.eqns if equation.primitive is not tap_p]
    effects = set().union(*(equation.effects for equation in equations))
    return closed_like(closed, jaxpr.replace(eqns=equations, effects=effects))


def _without_taps(equation: Any) -> Any:
    if not any(map(has_tap, inner_jaxprs(equation))):
        return equation
    parameters = {key: _mapped(value) for key, value in equation.params.items()}
    inner = inner_jaxprs(equation.replace(params=parameters))
    # Of the effects the equation keeps those that some program inside still has.
    effects = equation.effects & set().union(*(opened(jaxpr).effects for jaxpr in inner))
    return equation.replace(params=parameters, effects=effects)


def _mapped(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(map(_mapped, value)) if any(hasattr(each, "eqns") for each in value) else value
    return without_taps(value) if hasattr(value, "eqns") else value


def inner_jaxprs(equation: Any) -> list[Any]:
    """The jaxprs in an equation's parameters."""
    found = []
    for value in equation.params.values():
        found += [x for x in (value if isinstance(value, tuple | list) else (value,)) if hasattr(x, "eqns")]
    return found


def closed_like(closed: Any, jaxpr: Any) -> Any:
    """`jaxpr` with the constants of `closed`, if it has its constants with it."""
    return closed.replace(jaxpr=jaxpr) if hasattr(closed, "jaxpr") and closed.jaxpr is not closed else jaxpr


def variables(extras: Sequence[Extra]) -> list[Any]:
    return [extra.variable for extra in extras]


def _equation(equation: Any, extras: list[Extra], counting: bool) -> list[Any]:
    if equation.primitive is tap_p:
        return [_tap(equation, extras)]
    if not any(map(has_tap, inner_jaxprs(equation))):
        return [equation]
    name = equation.primitive.name
    rule = RULES.get(name) or (_call if name in CALLS and len(inner_jaxprs(equation)) == 1 else None)
    return rule(equation, extras, counting) if rule else [equation]


def _tap(equation: Any, extras: list[Extra]) -> Any:
    levels = len(equation.params["lanes"][0])
    # A mask over some of several vmapped axes does not say over which: it is left out.
    fitting = [e for e in extras if e.kind != "active" or len(e.variable.aval.shape) in (0, levels)]
    lanes = tuple((bool(e.variable.aval.shape) and e.kind == "active",) * levels for e in fitting)
    parameters = {
        **equation.params,
        "kinds": equation.params["kinds"] + tuple(extra.kind for extra in fitting),
        "lanes": equation.params["lanes"] + lanes,
    }
    return equation.replace(invars=[*equation.invars, *variables(fitting)], params=parameters)


def _called(equation: Any, extras: list[Extra], counting: bool) -> Any:
    (key, inner), *_ = [(k, v) for k, v in equation.params.items() if hasattr(v, "eqns")]
    parameters = {**equation.params, key: pass_down(inner, extras, counting=counting)}
    return equation.replace(invars=[*equation.invars, *variables(extras)], params=parameters)


def _call(equation: Any, extras: list[Extra], counting: bool) -> list[Any]:
    return [_called(equation, extras, counting)]


def _jit(equation: Any, extras: list[Extra], counting: bool) -> list[Any]:
    called = _called(equation, extras, counting)
    added = len(extras)
    parameters = {
        **called.params,
        "in_shardings": (*equation.params["in_shardings"], *(jax_internals.unspecified_sharding(),) * added),
        "in_layouts": (*equation.params["in_layouts"], *(None,) * added),
        "donated_invars": (*equation.params["donated_invars"], *(False,) * added),
    }
    return [called.replace(params=parameters)]


def _shard_map(equation: Any, extras: list[Extra], counting: bool) -> list[Any]:
    called = _called(equation, extras, counting)
    specs = (*equation.params["in_specs"], *(PartitionSpec(),) * len(extras))
    return [called.replace(params={**called.params, "in_specs": specs})]


def _branches(equation: Any, extras: list[Extra], counting: bool) -> list[Any]:
    branches = tuple(pass_down(branch, extras, counting=counting) for branch in equation.params["branches"])
    parameters = {**equation.params, "branches": branches}
    return [equation.replace(invars=[*equation.invars, *variables(extras)], params=parameters)]


def split(items: Sequence[Any], first: int, second: int) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    return items[:first], items[first : first + second], items[first + second :]


Rule = Callable[[Any, list[Extra], bool], list[Any]]
"""Called with an equation that has a tap somewhere inside, the extras, and whether loops count; its replacement."""

RULES: dict[str, Rule] = {"jit": _jit, "pjit": _jit, "shard_map": _shard_map, "cond": _branches}
"""By the name of the primitive; the loops are added by `loops`."""
