"""While-loops on the way to a tap: counted, and where their lanes may end apart, saying which lanes still run."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jax import lax

from jaxmagic.core import jax_internals
from jaxmagic.core.jax_internals import Literal
from jaxmagic.core.programs.parameters import opened
from jaxmagic.core.taps.counters import counter_literal, counter_variable
from jaxmagic.core.taps.descent import (
    Extra,
    closed_like,
    has_tap,
    inner_jaxprs,
    pass_down,
    split,
    variables,
    without_taps,
)


class _Loop(NamedTuple):
    """The parts of a while equation."""

    test: Any
    body: Any
    test_constants: Sequence[Any]
    body_constants: Sequence[Any]
    initial: Sequence[Any]


class _Inputs(NamedTuple):
    """The inputs of one of its jaxprs after `pass_down`."""

    constants: Sequence[Any]
    carry: Sequence[Any]
    passed: Sequence[Any]
    own: Sequence[Any]
    """What the loop itself adds."""


def pass_down_while(equation: Any, extras: list[Extra], counting: bool) -> list[Any]:
    loop = _parts(equation)
    running = loop.test.out_avals[0]
    if counting and running.shape and _is_repeatable(loop.test):
        return _apart(equation, loop, extras)
    counters = [Extra(counter_variable(running), "loop")] if counting else []
    test = opened(pass_down(loop.test, [*extras, *counters], counting=counting))
    asked = _inputs(test, len(loop.test_constants), len(extras), len(counters))
    test = test.replace(invars=[*asked.constants, *asked.passed, *asked.carry, *asked.own])
    body = opened(pass_down(loop.body, [*extras, *counters], counting=counting))
    done = _inputs(body, len(loop.body_constants), len(extras), len(counters))
    steps, following = _steps(equation, done.own)
    body = body.replace(
        invars=[*done.constants, *done.passed, *done.carry, *done.own],
        outvars=[*body.outvars, *following],
        eqns=[*steps, *body.eqns],
    )
    given = variables(extras)
    before, after = [*loop.test_constants, *given], [*loop.body_constants, *given]
    return [_rebuilt(equation, loop, test, body, before, after, counters)]


def _apart(equation: Any, loop: _Loop, extras: list[Extra]) -> list[Any]:
    """Each lane keeps its carry, and so its counter, once it has ended.

    JAX asks the condition of such a loop twice in each iteration. Here its taps are taken out of it; the condition
    with its taps is asked at the beginning of the body, which also says which lanes still run, and after the loop.
    """
    running = loop.test.out_avals[0]
    counter = Extra(counter_variable(running), "loop")
    mask = Extra(jax_internals.new_variable(running), "active")
    tests, given = len(loop.test_constants), variables(extras)

    tapped = opened(pass_down(loop.test, [*extras, counter], counting=True))
    body = opened(pass_down(loop.body, [*extras, counter, mask], counting=True))
    done = _inputs(body, len(loop.body_constants), len(extras), 2)
    index, still = done.own
    needed = [jax_internals.new_variable(v.aval) for v in opened(loop.test).invars[:tests]]
    asked = _inlined(tapped, [*needed, *done.carry, *done.passed, index], still)
    steps, following = _steps(equation, [index])
    body = body.replace(
        invars=[*done.constants, *needed, *done.passed, *done.carry, index],
        outvars=[*body.outvars, *following],
        eqns=[*asked, *steps, *body.eqns],
    )
    silent = without_taps(opened(loop.test))
    silent = silent.replace(invars=[*silent.invars, counter_variable(running)])
    after = [*loop.body_constants, *loop.test_constants, *given]
    rebuilt = _rebuilt(equation, loop, silent, body, loop.test_constants, after, [counter])
    if not has_tap(loop.test):
        return [rebuilt]
    outs = [_kept(v) for v in rebuilt.outvars]
    last = _inlined(tapped, [*loop.test_constants, *outs[:-1], *given, outs[-1]], jax_internals.new_variable(running))
    return [rebuilt.replace(outvars=outs), *last]


def _parts(equation: Any) -> _Loop:
    parameters = equation.params
    atoms = split(equation.invars, parameters["cond_nconsts"], parameters["body_nconsts"])
    return _Loop(parameters["cond_jaxpr"], parameters["body_jaxpr"], *atoms)


def _rebuilt(
    equation: Any, loop: _Loop, test: Any, body: Any, before: Sequence[Any], after: Sequence[Any], counters: list[Extra]
) -> Any:
    """The equation with other jaxprs, other constants (`before` and `after`) and counters at the end of its carry."""
    parameters = {
        **equation.params,
        "cond_jaxpr": closed_like(loop.test, test),
        "cond_nconsts": len(before),
        "body_jaxpr": closed_like(loop.body, body),
        "body_nconsts": len(after),
    }
    zeros = [counter_literal(0, counter.variable.aval) for counter in counters]
    unused = [counter_variable(counter.variable.aval) for counter in counters]
    return equation.replace(
        invars=[*before, *after, *loop.initial, *zeros], outvars=[*equation.outvars, *unused], params=parameters
    )


def _inputs(jaxpr: Any, constants: int, passed: int, own: int) -> _Inputs:
    end = len(jaxpr.invars) - passed - own
    first, carry = jaxpr.invars[:constants], jaxpr.invars[constants:end]
    return _Inputs(first, carry, jaxpr.invars[end : end + passed], jaxpr.invars[end + passed :])


def _steps(equation: Any, counters: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The equations that add one to each counter, and the variables that hold the results."""
    following = [counter_variable(counter.aval) for counter in counters]
    equations = [
        jax_internals.new_equation(lax.add_p, [now, counter_literal(1, now.aval)], then, equation)
        for now, then in zip(counters, following, strict=True)
    ]
    return equations, following


def _inlined(jaxpr: Any, arguments: Sequence[Any], result: Any) -> list[Any]:
    """The equations of a jaxpr with one result, for these arguments, in variables of their own."""
    given = dict(zip(jaxpr.invars, arguments, strict=True))
    equations = []
    for equation in jaxpr.eqns:
        made = [jax_internals.new_variable(v.aval) for v in equation.outvars]
        equations.append(equation.replace(invars=[_now(v, given) for v in equation.invars], outvars=made))
        given.update(zip(equation.outvars, made, strict=True))
    last = _now(jaxpr.outvars[0], given)
    return [*equations, jax_internals.new_equation(lax.or_p, [last, last], result, equations[-1])]


def _now(atom: Any, given: dict[Any, Any]) -> Any:
    return atom if isinstance(atom, Literal) else given[atom]


def _kept(variable: Any) -> Any:
    """A result that the program itself dropped, now that it is needed."""
    return jax_internals.new_variable(variable.aval) if jax_internals.is_dropped(variable) else variable


def _is_repeatable(test: Any) -> bool:
    """Whether the condition can be asked once more, with its taps at its surface."""
    inside = [inner for equation in opened(test).eqns for inner in inner_jaxprs(equation)]
    return not opened(test).constvars and bool(opened(test).eqns) and not any(map(has_tap, inside))
