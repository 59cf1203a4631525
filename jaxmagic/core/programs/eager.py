"""A program for code that was not jitted: the operations that it ran are noted, and traced afterwards."""

import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmagic.core import jax_internals
from jaxmagic.core.limits import Limits
from jaxmagic.core.programs.programs import program
from jaxmagic.core.wrapping import wrapped
from jaxmagic.records import Program

MOST_OPERATIONS = 20_000

jax_internals.exclude_from_tracebacks(__file__)


class _Value(NamedTuple):
    """A number among the arguments of an operation, or an array that JAX took into the program."""

    value: Any


class _Operation(NamedTuple):
    params: dict[str, Any]
    ins: list[int | _Value]
    outs: list[int]
    traceback: Any


class EagerRecord:
    """Notes every operation that runs outside of a trace between `start` and `stop`.

    JAX's fast path is off meanwhile, which makes an eager operation some ten times dearer (0.1–0.2 ms). No user
    code runs a second time, and no array is kept alive: an array is known by its identity, as long as it lives.

    Args:
        limits: Where to note what could not be observed.
        is_user: Whether a file name is the user's code.
        most: Operations to note; then the fast path is on again.
    """

    def __init__(self, limits: Limits, is_user: Callable[[str], bool], most: int = MOST_OPERATIONS) -> None:
        self._limits = limits
        self._is_user = is_user
        self._most = most
        self._operations: list[_Operation] = []
        self._inputs: dict[int, jax.ShapeDtypeStruct] = {}
        self._arrays: dict[int, tuple[int, weakref.ref]] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._undo = ExitStack()

    def start(self) -> None:
        self._undo.callback(jax_internals.forget_dispatch)  # what was called meanwhile is marked "no fast path"
        for key, wrapper in (("call_impl", self._run), ("fast_path", self._fast_path)):
            self._undo.enter_context(wrapped(key, wrapper))
        jax_internals.forget_dispatch()

    def stop(self) -> None:
        self._undo.close()

    def jaxpr(self) -> Any:
        """What ran, as a closed jaxpr: from the arrays that were there before to the results that nothing used."""
        used = {atom for operation in self._operations for atom in operation.ins if isinstance(atom, int)}
        results = [out for operation in self._operations for out in operation.outs if out not in used]
        return jax.make_jaxpr(lambda *inputs: self._again(inputs, results))(*self._inputs.values())

    def program(self, name: str = "") -> Program | None:
        """What ran, as a program of kind `eager`; None if nothing did. What was noted is dropped."""
        try:
            if not self._operations:
                return None
            return program(self.jaxpr(), is_user=self._is_user, name=name, kind="eager")
        finally:
            self._operations.clear()
            self._arrays.clear()

    def _again(self, inputs: tuple, results: list[int]) -> list[Any]:
        values = dict(zip(self._inputs, inputs, strict=True))
        for operation in self._operations:
            arguments = [atom.value if isinstance(atom, _Value) else values[atom] for atom in operation.ins]
            with jax_internals.as_if_at(operation.traceback):
                answers = jax_internals.run_again(operation.params, arguments)
            values.update(zip(operation.outs, answers, strict=True))
        return [values[result] for result in results]

    def _fast_path(self, inner: Any, *args: Any, **kwargs: Any) -> Any:
        return None if len(self._operations) < self._most else inner(*args, **kwargs)

    def _run(self, inner: Any, *args: Any, **params: Any) -> Any:
        __tracebackhide__ = True
        if len(self._operations) >= self._most:
            return inner(*args, **params)
        ins = None
        with self._limits.guard("an eager operation"):
            ins = [self._atom(argument) for argument in args]
        answer = inner(*args, **params)
        with self._limits.guard("an eager operation"):
            if ins is not None:
                self._note(params, ins, answer[0])
        return answer

    def _note(self, params: dict[str, Any], ins: list[int | _Value], answers: Any) -> None:
        outs = [self._number(answer) for answer in answers]
        self._operations.append(_Operation(params, ins, outs, jax_internals.here()))
        if len(self._operations) == self._most:
            self._limits.add(f"eager operations beyond the first {self._most:,}: not observed")
            jax_internals.forget_dispatch()

    def _atom(self, argument: Any) -> int | _Value:
        with self._lock:
            known = self._arrays.get(id(argument))
        if known is not None and known[1]() is argument:
            return known[0]
        if not isinstance(argument, jax.Array) and not (isinstance(argument, np.ndarray) and argument.ndim):
            return _Value(argument)
        number = self._number(argument)
        aval = jax.typeof(argument)
        self._inputs[number] = jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
        return number

    def _number(self, array: Any) -> int:
        with self._lock:
            self._count += 1
            self._arrays[id(array)] = (self._count, weakref.ref(array))
            return self._count
