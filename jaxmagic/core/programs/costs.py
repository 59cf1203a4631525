"""What XLA says of an executable, and the arrays baked into a program."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import jax
from jax.core import Tracer

from jaxmagic.core.jax_internals import Literal
from jaxmagic.core.lines.values import aval_from
from jaxmagic.core.programs.parameters import inner_jaxprs, opened
from jaxmagic.records import Constant, Cost

_known: WeakKeyDictionary[Any, Cost] = WeakKeyDictionary()
"""Costs by executable: XLA goes through the whole program to answer, each time it is asked."""


def cost(executable: Any) -> Cost:
    """FLOPs and bytes of a compiled executable (`jax.stages.Compiled`, or what is inside of one).

    FLOPs and bytes accessed are XLA's estimates for one call, with loop bodies whose trip count it does not know
    counted once. Memory is that of one device.

    Returns:
        The cost; None in each field that the backend does not say, or says as a negative number.
    """
    known = _known.get(executable)
    if known is None:
        known = _known[executable] = _cost(executable)
    return known


def _cost(executable: Any) -> Cost:
    analysis = _asked(executable, "cost_analysis") or {}
    if isinstance(analysis, list | tuple):
        analysis = analysis[0] if analysis else {}
    memory = _asked(executable, "memory_analysis")
    return Cost(
        flops=_counted(analysis.get("flops")),
        bytes_accessed=_counted(analysis.get("bytes accessed")),
        argument_bytes=_counted(getattr(memory, "argument_size_in_bytes", None)),
        output_bytes=_counted(getattr(memory, "output_size_in_bytes", None)),
        temporary_bytes=_counted(getattr(memory, "temp_size_in_bytes", None)),
        peak_bytes=_counted(getattr(memory, "peak_memory_in_bytes", None)),
        code_bytes=_counted(getattr(memory, "generated_code_size_in_bytes", None)),
    )


def _asked(executable: Any, question: str) -> Any:
    """The answer, or None from a backend that has none: it raises "unimplemented" in several ways."""
    try:
        return getattr(executable, question)()
    except (RuntimeError, TypeError, ValueError, AttributeError):
        return None


def _counted(number: Any) -> Any:
    return number if isinstance(number, int | float) and number >= 0 else None


def constants(jaxpr: Any, names: Mapping[int, str] | None = None) -> tuple[Constant, ...]:
    """The arrays baked into a jaxpr and the regions inside, each once, largest first.

    Args:
        jaxpr: A closed jaxpr.
        names: Of arrays by `id`, where the caller knows closures and globals to look them up in.
    """
    names = names or {}
    found = {id(value): _constant(value, names) for value in _values(jaxpr)}
    known = [constant for constant in found.values() if constant is not None]
    return tuple(sorted(known, key=lambda constant: -constant.bytes))


def _values(jaxpr: Any) -> Iterator[Any]:
    waiting, met = [jaxpr], set()
    while waiting:
        each = waiting.pop()
        yield from getattr(each, "consts", ())
        if id(opened(each)) in met:
            continue
        met.add(id(opened(each)))
        for equation in opened(each).eqns:
            yield from (atom.val for atom in equation.invars if isinstance(atom, Literal))
            waiting.extend(inner.jaxpr for inner in inner_jaxprs("", equation.params))


def _constant(value: Any, names: Mapping[int, str]) -> Constant | None:
    if isinstance(value, Tracer) or not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return None
    name = next((names[id(each)] for each in _wrapped(value) if id(each) in names), "")
    if not value.shape and not name:
        return None
    return Constant(name, aval_from(jax.typeof(value)), prod(value.shape) * value.dtype.itemsize)


def _wrapped(value: Any) -> tuple[Any, ...]:
    """A constant, and the user's NumPy array inside of it: JAX wraps those that it bakes in."""
    return value, getattr(value, "val", None), getattr(value, "base", None)
