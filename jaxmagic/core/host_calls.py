"""Who called the old `host_callback`, and what its host functions may return."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from jaxmagic.records import Span

Function = Literal["call", "id_tap", "id_print", "barrier_wait"]


class Use(NamedTuple):
    """One call of a function of the old module."""

    function: Function
    span: Span
    """The call in the user's code."""


class BadResult(Exception):  # noqa: N818 - names what is wrong, as the user sees it
    """A host function returned something else than the program was compiled for."""


_listeners: list[Callable[[Use], None]] = []
_running = threading.local()


@contextmanager
def noted(listener: Callable[[Use], None]) -> Iterator[None]:
    """Has `listener` told of every use, on whatever thread, until the block is left."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def note(use: Use) -> None:
    for listener in tuple(_listeners):
        listener(use)


def running() -> Span | None:
    """The user's call whose host function runs on this thread now."""
    return getattr(_running, "span", None)


@dataclass(frozen=True, eq=False)
class HostCall:
    """A user's function to be called on the host, with NumPy arrays."""

    function: Callable[..., Any]
    further: tuple[Any, ...]
    """What it is given after the value."""
    span: Span | None
    where: str
    """For messages: `host_callback.call at line 4 of step()`."""

    def __call__(self, value: Any) -> Any:
        before = running()
        _running.span = self.span
        try:
            # JAX hands over arrays of its own; computing with those inside of a callback can deadlock.
            return self.function(jax.tree.map(np.asarray, value), *self.further)
        finally:
            _running.span = before

    def fitted(self, returned: Any, shapes: Any) -> Any:
        """What the function returned, as arrays of the types in `shapes`.

        Raises:
            BadResult: the structure or a shape differs, or a dtype can't be converted.
        """
        expected, tree = jax.tree.flatten(shapes)
        leaves, found = jax.tree.flatten(returned)
        if found != tree:
            raise BadResult(f"the function given to {self.where} returned {found}, not {tree}")
        arrays = [self._fitting(np.asarray(leaf), shape) for leaf, shape in zip(leaves, expected, strict=True)]
        return jax.tree.unflatten(tree, arrays)

    def _fitting(self, array: np.ndarray, expected: Any) -> np.ndarray:
        if array.shape != expected.shape:
            raise BadResult(f"the function given to {self.where} returned shape {array.shape}, not {expected.shape}")
        if not np.can_cast(array.dtype, expected.dtype, "same_kind"):
            raise BadResult(f"the function given to {self.where} returned dtype {array.dtype}, not {expected.dtype}")
        return array.astype(expected.dtype)
