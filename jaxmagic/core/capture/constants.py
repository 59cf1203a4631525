"""Constants of cached programs: whether two are equal, and whether the NumPy arrays they came from still hold them."""

import functools
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from jaxmagic.core.capture.ownership import values_of_cells
from jaxmagic.core.lines.attributes import instance_dict

_MOST_COMPARED = 65_536
"""Elements of a constant; larger ones are compared by identity only."""

_MOST_OBJECTS = 500
"""Looked through for the arrays that a function reads."""

_MOST_ELEMENTS = 50
"""Of a container."""

_JITTED = type(jax.jit(abs))


def same_array(old: Any, new: Any) -> bool:
    """Equal, or too large to tell: only a difference that was seen is reported."""
    if old is new or isinstance(old, Tracer) or isinstance(new, Tracer):
        return True
    if np.size(old) != np.size(new):
        return False
    if np.size(old) > _MOST_COMPARED or is_key(old) or is_key(new):
        return True
    # Bits, so that NaN equals NaN.
    before, after = np.asarray(old), np.asarray(new)
    return before.dtype == after.dtype and before.tobytes() == after.tobytes()


def is_key(value: Any) -> bool:
    return hasattr(value, "dtype") and jax.numpy.issubdtype(value.dtype, jax.dtypes.extended)


def user_of(jaxpr: Any, place: int) -> Any:
    """The first equation that reads a constant."""
    constant = jaxpr.constvars[place] if place < len(jaxpr.constvars) else None
    return next((each for each in jaxpr.eqns if any(atom is constant for atom in each.invars)), None)


# ------------------------------------------------------------- arrays written to in place


def is_of_numpy(constant: Any) -> bool:
    """Whether it may change: JAX's own arrays do not."""
    known = hasattr(constant, "__array__") and not isinstance(constant, jax.Array | Tracer)
    return known and 0 < np.size(constant) <= _MOST_COMPARED


def overwritten(jaxpr: Any, lowered: Any) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Places of constants that share a NumPy array's memory, and what they were when the program was lowered and are.

    Args:
        jaxpr: The cached program, closed.
        lowered: The computation that JAX made of it then.
    """
    constants = list(getattr(jaxpr, "consts", ()))
    if not any(map(is_of_numpy, constants)):
        return
    kept = list(_lowered_constants(lowered))[: len(constants)]
    if [_kind(each) for each in kept] != [_kind(each) for each in constants]:
        return  # some are passed in another way
    for place, (before, now) in enumerate(zip(kept, constants, strict=True)):
        if is_of_numpy(now) and not same_array(before, now):
            yield place, before, np.asarray(now)


def _kind(array: Any) -> tuple:
    return np.shape(array), array.dtype


def _lowered_constants(lowered: Any) -> Iterator[np.ndarray]:
    """Of the main function, in order: those of the jaxpr come first."""
    for function in lowered.stablehlo().body.operations:
        if function.attributes["sym_name"].value == "main":
            for operation in function.regions[0].blocks[0].operations:
                if operation.operation.name == "stablehlo.constant":
                    yield np.array(operation.operation.attributes["value"])


def rewritten(constants: list[Any], roots: tuple) -> dict[int, np.ndarray]:
    """By the place of a constant, the array that it can only be a copy of and that is otherwise now.

    JAX can't hold 64-bit arrays as they are and keeps a converted copy for as long as they live; since 0.10 it finds
    that copy again when it traces anew, whatever was written to the array meanwhile.

    Args:
        constants: Those that the program and a new trace share.
        roots: The function, and its static arguments.
    """
    wanted = [place for place, each in enumerate(constants) if is_of_numpy(each)]
    arrays = [_converted(each) for each in _sixty_four(roots)] if wanted else []
    apart = [each for each in arrays if not any(same_array(each, constants[place]) for place in wanted)]
    lost = [place for place in wanted if not any(same_array(each, constants[place]) for each in arrays)]
    found = {}
    for place in lost:
        alike = [each for each in apart if _kind(each) == _kind(constants[place])]
        if len(alike) == 1 and [_kind(constants[other]) for other in lost].count(_kind(alike[0])) == 1:
            found[place] = alike[0]
    return found


def _sixty_four(roots: tuple) -> list[np.ndarray]:
    """Arrays that have to be converted, of all that a function leads to."""
    waiting, seen, found = list(roots), {}, []
    while waiting and len(seen) < _MOST_OBJECTS:
        value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if type(value) is not np.ndarray:
            waiting += _inside(value)
        elif 0 < value.size <= _MOST_COMPARED and jax.dtypes.canonicalize_dtype(value.dtype) != value.dtype:
            found.append(value)
    return found


def _converted(array: np.ndarray) -> np.ndarray:
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype))


def _inside(value: Any) -> list[Any]:
    """What an object leads to: a function to what it reads, others to what they hold. None of their code runs."""
    kind = type(value)
    if kind is FunctionType:
        variables = value.__globals__
        read = [variables[name] for name in _names(value.__code__) if name in variables]
        return [*read, *values_of_cells(value), *(value.__defaults__ or ()), *instance_dict(value).values()]
    if kind is MethodType:
        return [value.__func__, value.__self__]
    if kind is functools.partial:
        return [value.func, *value.args, *value.keywords.values()]
    if kind in (dict, list, tuple):
        return list(value.values() if kind is dict else value)[:_MOST_ELEMENTS]
    return [*([value.__wrapped__] if kind is _JITTED else []), *list(instance_dict(value).values())[:_MOST_ELEMENTS]]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
