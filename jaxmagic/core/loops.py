"""Tells every tap in a program which iteration of which loops it is in, by threading counters through the jaxpr.

Done once, right before lowering and after all transformations, so that what is numbered are the loops that run:
the forward and the backward scan of a gradient alike. Nothing but the counters is added.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.core
import jax.extend.core
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from jaxmagic.core import jax_internals
from jaxmagic.core.transport import tap_p

_COUNTER = jax.core.ShapedArray((), np.dtype(np.int32))
_CALLS = (
    "closed_call",
    "core_call",
    "checkpoint",
    "remat",
    "remat2",
    "custom_jvp_call",
    "custom_vjp_call",
    "eval_jaxpr",
)
"""Primitives whose operands are those of the one jaxpr in their parameters."""


def number_loops(closed: Any) -> Any:
    """The same program with counters at its taps; the very same object where there is no tap in a loop.

    A counter is the position of the step's slice, as in `xs[i]`: a reversed scan counts down, so that a value and its
    gradient have the same address. While-loops count from 0; their condition is asked once more than the body runs.
    Loops inside primitives that are not known here count for themselves alone.
    """
    return _renumbered(closed, 0) if _has_tap_in_loop(closed, looping=False) else closed


def has_tap(jaxpr: Any) -> bool:
    return any(e.primitive is tap_p or any(map(has_tap, _inner(e))) for e in _open(jaxpr).eqns)


def _has_tap_in_loop(jaxpr: Any, *, looping: bool) -> bool:
    for equation in _open(jaxpr).eqns:
        if equation.primitive is tap_p and looping:
            return True
        inside = looping or equation.primitive.name in ("scan", "while")
        if any(_has_tap_in_loop(inner, looping=inside) for inner in _inner(equation)):
            return True
    return False


def _inner(equation: Any) -> list[Any]:
    """The jaxprs in an equation's parameters."""
    found = []
    for value in equation.params.values():
        found += [x for x in (value if isinstance(value, tuple | list) else (value,)) if hasattr(x, "eqns")]
    return found


def _open(jaxpr: Any) -> Any:
    return getattr(jaxpr, "jaxpr", jaxpr)


def _closed_like(closed: Any, jaxpr: Any) -> Any:
    """`jaxpr` with the constants of `closed`, if it has its constants with it."""
    return closed.replace(jaxpr=jaxpr) if hasattr(closed, "jaxpr") and closed.jaxpr is not closed else jaxpr


def _renumbered(closed: Any, depth: int) -> Any:
    """With `depth` counters as further inputs, at the end."""
    counters = [jax_internals.new_variable(_COUNTER) for _ in range(depth)]
    jaxpr = _open(closed)
    equations = [_equation(equation, counters) for equation in jaxpr.eqns]
    return _closed_like(closed, jaxpr.replace(invars=[*jaxpr.invars, *counters], eqns=equations))


def _equation(equation: Any, counters: list[Any]) -> Any:
    if equation.primitive is tap_p:
        return _tap(equation, counters)
    if not any(map(has_tap, _inner(equation))):
        return equation
    name = equation.primitive.name
    rule = _RULES.get(name) or (_call if name in _CALLS and len(_inner(equation)) == 1 else None)
    return rule(equation, counters) if rule else equation


def _tap(equation: Any, counters: list[Any]) -> Any:
    parameters = {
        **equation.params,
        "kinds": equation.params["kinds"] + ("loop",) * len(counters),
        "lanes": equation.params["lanes"] + ((),) * len(counters),
    }
    return equation.replace(invars=[*equation.invars, *counters], params=parameters)


def _call(equation: Any, counters: list[Any]) -> Any:
    (key, inner), *_ = [(k, v) for k, v in equation.params.items() if hasattr(v, "eqns")]
    parameters = {**equation.params, key: _renumbered(inner, len(counters))}
    return equation.replace(invars=[*equation.invars, *counters], params=parameters)


def _jit(equation: Any, counters: list[Any]) -> Any:
    called = _call(equation, counters)
    added = len(counters)
    parameters = {
        **called.params,
        "in_shardings": (*equation.params["in_shardings"], *(jax_internals.unspecified_sharding(),) * added),
        "in_layouts": (*equation.params["in_layouts"], *(None,) * added),
        "donated_invars": (*equation.params["donated_invars"], *(False,) * added),
    }
    return called.replace(params=parameters)


def _shard_map(equation: Any, counters: list[Any]) -> Any:
    called = _call(equation, counters)
    specs = (*equation.params["in_specs"], *(PartitionSpec(),) * len(counters))
    return called.replace(params={**called.params, "in_specs": specs})


def _branches(equation: Any, counters: list[Any]) -> Any:
    branches = tuple(_renumbered(branch, len(counters)) for branch in equation.params["branches"])
    return equation.replace(invars=[*equation.invars, *counters], params={**equation.params, "branches": branches})


def _scan(equation: Any, counters: list[Any]) -> Any:
    constants, carry = jax_internals.scan_inputs(equation)
    closed, added = equation.params["jaxpr"], len(counters)
    body = _open(_renumbered(closed, added + 1))
    first, middle, last = _split(body.invars[: -added - 1], constants, carry)
    *outer, index = body.invars[-added - 1 :]
    step, following, unused = index, _variable(), _variable()
    equations = []
    if equation.params["reverse"]:
        step = _variable()
        final = _literal(equation.params["length"] - 1)
        equations.append(jax_internals.new_equation(lax.sub_p, [final, step], index, equation))
    equations.append(jax_internals.new_equation(lax.add_p, [step, _literal(1)], following, equation))
    body = body.replace(
        invars=[*first, *outer, *middle, step, *last],
        outvars=[*body.outvars[:carry], following, *body.outvars[carry:]],
        eqns=[*equations, *body.eqns],
    )
    before, initial, slices = _split(equation.invars, constants, carry)
    return equation.replace(
        invars=[*before, *counters, *initial, _literal(0), *slices],
        outvars=[*equation.outvars[:carry], unused, *equation.outvars[carry:]],
        params=jax_internals.scan_parameters(equation, _closed_like(closed, body), constants + added, carry + 1),
    )


def _while(equation: Any, counters: list[Any]) -> Any:
    parameters, added = dict(equation.params), len(counters)
    following, unused = _variable(), _variable()
    for part in ("cond", "body"):
        closed, constants = parameters[f"{part}_jaxpr"], parameters[f"{part}_nconsts"]
        jaxpr = _open(_renumbered(closed, added + 1))
        first, carry = jaxpr.invars[:constants], jaxpr.invars[constants : -added - 1]
        *outer, index = jaxpr.invars[-added - 1 :]
        jaxpr = jaxpr.replace(invars=[*first, *outer, *carry, index])
        if part == "body":
            step = jax_internals.new_equation(lax.add_p, [index, _literal(1)], following, equation)
            jaxpr = jaxpr.replace(outvars=[*jaxpr.outvars, following], eqns=[step, *jaxpr.eqns])
        parameters[f"{part}_jaxpr"] = _closed_like(closed, jaxpr)
        parameters[f"{part}_nconsts"] = constants + added
    before, after, carry = _split(equation.invars, equation.params["cond_nconsts"], equation.params["body_nconsts"])
    return equation.replace(
        invars=[*before, *counters, *after, *counters, *carry, _literal(0)],
        outvars=[*equation.outvars, unused],
        params=parameters,
    )


def _split(items: Sequence[Any], first: int, second: int) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    return items[:first], items[first : first + second], items[first + second :]


def _variable() -> Any:
    return jax_internals.new_variable(_COUNTER)


def _literal(value: int) -> Any:
    return jax.extend.core.Literal(np.int32(value), _COUNTER)


_RULES: dict[str, Callable[[Any, list[Any]], Any]] = {
    "jit": _jit,
    "pjit": _jit,
    "shard_map": _shard_map,
    "cond": _branches,
    "scan": _scan,
    "while": _while,
}
