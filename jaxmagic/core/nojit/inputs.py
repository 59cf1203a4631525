"""What a cell starts from: the user's variables that it reads, copied, and the host's random states."""

import copy
import copyreg
import random
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

import jax
import numpy as np

from jaxmagic.core.nojit.matching import codes_of, unwrapped

_JITTED = type(jax.jit(lambda: None))
_SHARED = (ModuleType, type, FunctionType, _JITTED)
"""Not copied: a copy would be another function to JAX, and miss the programs that the user's run uses."""


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
        with _jitted_functions_shared():
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
                    if not isinstance(value, _SHARED):
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


@contextmanager
def _jitted_functions_shared() -> Iterator[None]:
    """`copy.deepcopy` takes a jitted function as it is, as it takes any other function."""
    table: dict[type, Callable[[Any], Any]] = copyreg.dispatch_table
    before = table.get(_JITTED)
    table[_JITTED] = lambda function: "itself"
    try:
        yield
    finally:
        if before is None:
            del table[_JITTED]
        else:
            table[_JITTED] = before
