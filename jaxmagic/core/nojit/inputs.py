"""What a cell starts from: the user's variables that it reads, copied, and the host's random states."""

import copy
import copyreg
import functools
import gc
import random
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import jax
import numpy as np

from jaxmagic.core.nojit.matching import codes_of, unwrapped

_JITTED = type(jax.jit(lambda: None))
_SHARED = (ModuleType, type, FunctionType, _JITTED)
"""Not copied: a copy would be another function to JAX, and miss the programs that the user's run uses."""

_MOST_OBJECTS = 20_000
"""Looked at to find functions among the data."""


class Inputs:
    """Sets of equal inputs for several runs of one cell.

    Args:
        code: Of the cell.
        namespace: The user's variables.
    """

    def __init__(self, code: CodeType, namespace: MutableMapping[str, Any]) -> None:
        self._namespace = namespace
        self._names = names_read(code, namespace)
        self._before = dict(namespace)
        self._random = random.getstate(), np.random.get_state()
        self.uncopied: tuple[str, ...] = ()
        """Variables that can't be copied; all runs share them."""

    def copied(self) -> dict[str, Any]:
        """The variables that the cell reads, copied with all that hangs on them; what they share stays shared."""
        given = {name: self._before[name] for name in self._names}
        with _functions_shared(_kinds_of_functions(given.values())):
            try:
                return copy.deepcopy(given)
            except Exception:  # noqa: BLE001 - something in it refuses; find out what
                return self._one_by_one(given)

    def put(self, copies: dict[str, Any]) -> None:
        """Makes the namespace what it was before the cell, the variables it reads being `copies`."""
        for name in list(self._namespace):
            if name not in self._before and not name.startswith("_"):
                del self._namespace[name]
        self._namespace.update({name: value for name, value in self._before.items() if not name.startswith("_")})
        self._namespace.update(copies)
        random.setstate(self._random[0])
        np.random.set_state(self._random[1])

    def restore(self) -> None:
        """Makes it what it was, with the very objects."""
        self.put({})

    def results(self, given: dict[str, Any]) -> dict[str, Any]:
        """Variables that a run has set, or was given and may have changed."""
        names = [name for name in self._namespace if not name.startswith("_")]
        return {
            name: self._namespace[name]
            for name in names
            if name in given or name in self._names or self._namespace[name] is not self._before.get(name, self)
        }

    def _one_by_one(self, given: dict[str, Any]) -> dict[str, Any]:
        copies: dict[str, Any] = {}
        memo: dict[int, Any] = {}  # one for all: what two variables share stays shared
        refused = []
        for name, value in given.items():
            try:
                copies[name] = copy.deepcopy(value, memo)
            except Exception:  # noqa: BLE001 - the user's own __deepcopy__, a file, a lock
                copies[name] = value
                refused.append(name)
        self.uncopied = tuple(refused)
        return copies


def names_read(code: CodeType, namespace: MutableMapping[str, Any]) -> tuple[str, ...]:
    """Variables that hold data and are named in a cell, or in functions of the notebook that it names."""
    found: dict[str, None] = {}
    waiting, seen = [code], set[int]()
    while waiting:
        for each in codes_of(waiting.pop()):
            if id(each) in seen:
                continue
            seen.add(id(each))
            for name in each.co_names:
                if name in namespace and not name.startswith("_"):
                    value = namespace[name]
                    waiting += _codes_behind(value, namespace)
                    if not _is_function(value):
                        found[name] = None
    return tuple(found)


def _codes_behind(value: Any, namespace: MutableMapping[str, Any]) -> Iterator[CodeType]:
    """Code that runs when the user's function or class is called and that looks names up in the notebook."""
    if isinstance(value, type):
        functions = [each for each in map(unwrapped, vars(value).values()) if isinstance(each, FunctionType)]
    else:
        functions = [inner] if isinstance(inner := unwrapped(value), FunctionType) else []
    for function in functions:
        if function.__globals__ is namespace:
            yield function.__code__


def _is_function(value: Any) -> bool:
    """Also what a library made of a function: it may know itself by its identity, which a copy does not have."""
    return isinstance(value, _SHARED) or (callable(value) and unwrapped(value) is not value and not _holds_data(value))


def _kinds_of_functions(values: Iterable[Any]) -> set[type]:
    """Types of the functions that some values hold, at any depth."""
    waiting, seen, kinds = list(values), set[int](), set[type]()
    while waiting and len(seen) < _MOST_OBJECTS:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            if _is_function(each):
                kinds.add(type(each))
            else:
                waiting += gc.get_referents(each)
    return kinds


def _holds_data(value: Any) -> bool:
    return isinstance(value, functools.partial | MethodType)


@contextmanager
def _functions_shared(kinds: Iterable[type]) -> Iterator[None]:
    """`copy.deepcopy` takes jitted functions and objects of these kinds as they are, as it takes any function."""
    table: dict[type, Callable[[Any], Any]] = copyreg.dispatch_table
    before = dict(table)
    table.update(dict.fromkeys((_JITTED, *kinds), lambda function: "itself"))
    try:
        yield
    finally:
        table.clear()
        table.update(before)
