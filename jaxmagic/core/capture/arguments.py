"""Inputs and outputs of programs as records, by the paths that the function's signature gives them."""

from typing import Any

import jax
from jax.core import Tracer

from jaxmagic.core.jax_internals import names_of
from jaxmagic.core.lines.values import aval_from, aval_of
from jaxmagic.core.programs.parameters import opened
from jaxmagic.records import Argument, Aval


def inputs_of(params: Any) -> tuple[Argument, ...]:
    """The array arguments of a traced call; `params` is JAX's `PjitParams`."""
    avals = params.in_avals
    donated = params.params["donated_invars"][-len(avals) :] if avals else ()
    names = params.arg_names or ("",) * len(avals)
    triples = zip(names, avals, donated, strict=True)
    return tuple(Argument(name or "", aval_from(aval), donated=gone) for name, aval, gone in triples)


def inputs_of_jaxpr(jaxpr: Any, donated: tuple[bool, ...] = ()) -> tuple[Argument, ...]:
    """The inputs of a program for which only the jaxpr is known."""
    variables = opened(jaxpr).invars
    names = names_of(opened(jaxpr)).arguments or ("",) * len(variables)
    donated = donated if len(donated) == len(variables) else (False,) * len(variables)
    triples = zip(names, variables, donated, strict=True)
    return tuple(Argument(name, aval_from(variable.aval), donated=gone) for name, variable, gone in triples)


def outputs_of(jaxpr: Any) -> tuple[Argument, ...]:
    """The results of a program, named by their path in what the function returns: `[0]`, `['loss']`, or nothing."""
    atoms = opened(jaxpr).outvars
    names = names_of(opened(jaxpr)).results or ("",) * len(atoms)
    return tuple(
        Argument(name.removeprefix("result"), aval_from(atom.aval)) for name, atom in zip(names, atoms, strict=True)
    )


def placed(arguments: tuple[Argument, ...], values: Any) -> tuple[Argument, ...]:
    """The arguments with the shardings of the arrays that were passed, or returned."""
    dynamic = sum(each.aval is not None for each in arguments)
    if len(values) < dynamic:
        return arguments
    arrays = iter(values[len(values) - dynamic :])
    return tuple(each if each.aval is None else _placed(each, next(arrays)) for each in arguments)


def _placed(argument: Argument, value: Any) -> Argument:
    aval = argument.aval
    if aval is None or not isinstance(value, jax.Array) or isinstance(value, Tracer):
        return argument
    if len(value.sharding.device_set) < 2:
        return argument
    aval = Aval(aval.shape, aval.dtype, aval.weak, aval_of(value).sharding)
    return Argument(argument.name, aval, argument.static, argument.donated)


def devices_of(values: Any) -> str:
    """The devices on which the first of the arrays lies: `TFRT_CPU_0`."""
    for value in values:
        sharding = getattr(value, "sharding", None)
        if sharding is not None:
            return ", ".join(sorted(map(str, sharding.device_set)))
    return ""
