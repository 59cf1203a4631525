"""`scan`, `while_loop`, `cond`, `switch` and `checkpoint` as Python around functions that run without jit."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple

import jax

from jaxmagic.core import jax_internals
from jaxmagic.core.limits import Limits
from jaxmagic.core.nojit import scans
from jaxmagic.core.nojit.steps import Loop, Steps
from jaxmagic.core.wrapping import wrapped

jax_internals.exclude_from_tracebacks(__file__)

_FUNCTIONS = {"while_loop": ("cond_fun", "body_fun"), "cond": ("", "true_fun", "false_fun")}
"""Parameters that hold the user's functions, in order; the empty name is a parameter in front of them."""

_LEAF = jax.tree.structure(0)


class PythonLoops:
    """Has JAX's loops and branches call the user's functions step by step.

    JAX does most of it itself under `jax.disable_jit`, which is switched on for the loop alone: what the functions
    call is left as it was.

    Args:
        applies: Whether a loop around these functions is to run in Python, now.
        steps: Is told of every step.
        limits: Told of loops that can't run so.
    """

    def __init__(self, applies: Callable[[Sequence[Any]], bool], steps: Steps, limits: Limits) -> None:
        self._applies = applies
        self._steps = steps
        self._limits = limits
        self._undo = ExitStack()

    def start(self) -> None:
        for key, hook in (
            ("scan", self._scan),
            ("while_loop", self._while),
            ("cond", self._cond),
            ("switch", self._switch),
            ("checkpoint_trace", self._checkpoint),
            ("checkpoint_bind", self._bind_checkpoint),
        ):
            if key in jax_internals.PIECES:
                with self._limits.guard(jax_internals.PIECES[key].lost):
                    self._undo.enter_context(wrapped(key, hook))

    def stop(self) -> None:
        self._undo.close()

    def _scan(self, inner: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        scan = scans.scan_of(args, kwargs)
        if scan is None or not self._applies((scan.body,)):
            return inner(*args, **kwargs)
        if scan.length == 0:
            self._limits.add("a scan over nothing ran with jit: without a step Python can't tell what it returns")
            return inner(*args, **kwargs)
        with self._steps.loop("scan", scan.length) as loop:
            return scans.run(scan, self._step(scan.body, loop), self._changed)

    def _while(self, inner: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        condition, body = functions = _given("while_loop", args, kwargs)
        if not (callable(condition) and callable(body) and self._applies(functions)):
            return inner(*args, **kwargs)
        with self._steps.loop("while_loop", None) as loop, jax.disable_jit():
            stepping = _compiling(condition), self._step(body, loop)
            return inner(*_replaced("while_loop", args, kwargs, stepping), **_others("while_loop", kwargs))

    def _cond(self, inner: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        branches = _given("cond", args, kwargs)
        if not all(map(callable, branches)) or not self._applies(branches):
            return inner(*args, **kwargs)
        with jax.disable_jit():
            taken = inner(*_replaced("cond", args, kwargs, tuple(map(_compiling, branches))), **_others("cond", kwargs))
        return jax.tree.map(scans.as_array, taken)

    def _switch(self, inner: Any, index: Any, branches: Any, *operands: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if not isinstance(branches, list | tuple) or not self._applies(branches):
            return inner(index, branches, *operands, **kwargs)
        with jax.disable_jit():
            taken = inner(index, [_compiling(branch) for branch in branches], *operands, **kwargs)
        return jax.tree.map(scans.as_array, taken)

    def _checkpoint(self, inner: Any, function: Any, tree: Any, *args: Any, **kwargs: Any) -> Any:
        """Around the trace of a function under `jax.checkpoint`: there is none, and what stands for it is called."""
        __tracebackhide__ = True
        if not self._applies((function,)):
            return inner(function, tree, *args, **kwargs)
        return _Called(function, tree), (), _LEAF

    def _bind_checkpoint(self, inner: Any, *args: Any, **params: Any) -> Any:
        __tracebackhide__ = True
        called = params.get("jaxpr")
        return [called(args)] if isinstance(called, _Called) else inner(*args, **params)

    def _changed(self, before: str, after: str) -> None:
        self._limits.add(f"a scan's carry goes in as {before} and comes out as {after}: with jit that is an error")

    def _step(self, body: Any, loop: Loop) -> Callable[..., Any]:
        """The body of a loop, with its steps counted."""
        compiling = _compiling(body)

        def step(*args: Any) -> Any:
            __tracebackhide__ = True
            result = compiling(*args)
            loop.done += 1
            self._steps.tick()
            return result

        return step


class _Called(NamedTuple):
    """A function under `jax.checkpoint` in the place of its jaxpr; what it returns is one leaf to JAX."""

    function: Any
    tree: Any

    def __call__(self, leaves: Sequence[Any]) -> Any:
        __tracebackhide__ = True
        args, kwargs = jax.tree.unflatten(self.tree, leaves)
        return self.function(*args, **kwargs)


def _compiling(function: Any) -> Callable[..., Any]:
    """The function with jit as it is outside of the loop."""

    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with jit_on():
            return function(*args, **kwargs)

    return call


def jit_on() -> AbstractContextManager[Any]:
    return jax.disable_jit(False)


def _given(key: str, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The user's functions among the arguments; None for one that is not there, which JAX will complain of."""
    return tuple(args[i] if i < len(args) else kwargs.get(name) for i, name in enumerate(_FUNCTIONS[key]) if name)


def _replaced(key: str, args: tuple, kwargs: dict[str, Any], functions: tuple[Any, ...]) -> list[Any]:
    """The positional arguments, up to the last of the user's functions by position at least."""
    names = _FUNCTIONS[key]
    first = len(names) - len(functions)
    return [*args[:first], *functions, *args[len(names) :]]


def _others(key: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name not in _FUNCTIONS[key]}
