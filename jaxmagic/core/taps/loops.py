"""Numbers the loops around every tap of a program.

Done right before lowering and after all transformations, so that what is counted are the loops that run: the forward
and the backward scan of a gradient alike.
"""

import weakref
from typing import Any

from jax import lax

from jaxmagic.core import jax_internals
from jaxmagic.core.programs.parameters import opened
from jaxmagic.core.taps.counters import counter_literal, counter_variable
from jaxmagic.core.taps.descent import (
    RULES,
    Extra,
    closed_like,
    inner_jaxprs,
    pass_down,
    split,
    variables,
)
from jaxmagic.core.taps.transport import tap_p
from jaxmagic.core.taps.whiles import pass_down_while


def number_loops(closed: Any) -> Any:
    """The same program with counters at its taps; the very same object where there is no tap in a loop.

    A counter is the position of the step's slice, as in `xs[i]`: a reversed scan counts down, so that a value and its
    gradient have the same address. While-loops count from 0; their condition is asked once more than the body runs.
    Where lanes of a while-loop may end apart, its taps also learn which lanes still run. Loops inside of primitives
    that are not known here count for themselves alone.
    """
    if closed not in _numbered:
        # JAX finds a compiled program by its jaxpr, which must therefore be the same one each time.
        needed = _has_tap_in_loop(closed, looping=False)
        _numbered[closed] = pass_down(closed, [], counting=True) if needed else None
    numbered = _numbered[closed]
    return closed if numbered is None else numbered


_numbered: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _has_tap_in_loop(jaxpr: Any, *, looping: bool) -> bool:
    for equation in opened(jaxpr).eqns:
        if equation.primitive is tap_p and looping:
            return True
        inside = looping or equation.primitive.name in ("scan", "while")
        if any(_has_tap_in_loop(inner, looping=inside) for inner in inner_jaxprs(equation)):
            return True
    return False


def _scan(equation: Any, extras: list[Extra], counting: bool) -> list[Any]:
    constants, carry = jax_internals.scan_inputs(equation)
    closed, added = equation.params["jaxpr"], len(extras)
    counters = [Extra(counter_variable(), "loop")] if counting else []
    body = opened(pass_down(closed, [*extras, *counters], counting=counting))
    own = len(body.invars) - added - len(counters)
    first, middle, last = split(body.invars[:own], constants, carry)
    passed, index = body.invars[own : own + added], body.invars[own + added :]
    steps, following, unused, equations = index, [], [], []
    if counting:
        steps, following, unused, equations = _counted(equation, index[0])
    body = body.replace(
        invars=[*first, *passed, *middle, *steps, *last],
        outvars=[*body.outvars[:carry], *following, *body.outvars[carry:]],
        eqns=[*equations, *body.eqns],
    )
    before, initial, slices = split(equation.invars, constants, carry)
    parameters = jax_internals.scan_parameters(
        equation, closed_like(closed, body), constants + added, carry + len(counters)
    )
    numbered = equation.replace(
        invars=[*before, *variables(extras), *initial, *[counter_literal(0) for _ in counters], *slices],
        outvars=[*equation.outvars[:carry], *unused, *equation.outvars[carry:]],
        params=parameters,
    )
    return [numbered]


def _counted(scan: Any, index: Any) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """The carried counter of a scan: as it comes in, as it goes out, as the scan returns it, and its equations."""
    step, following, equations = index, counter_variable(), []
    if scan.params["reverse"]:
        step = counter_variable()
        final = counter_literal(scan.params["length"] - 1)
        equations.append(jax_internals.new_equation(lax.sub_p, [final, step], index, scan))
    equations.append(jax_internals.new_equation(lax.add_p, [step, counter_literal(1)], following, scan))
    return [step], [following], [counter_variable()], equations


RULES |= {"scan": _scan, "while": pass_down_while}
