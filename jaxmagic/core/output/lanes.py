"""Which lane of a vmap a print or a callback of JAX's is for, compiled or not: JAX makes one of it for each lane."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from jaxmagic.core import jax_internals
from jaxmagic.core.batchers import batched_by

jax_internals.exclude_from_tracebacks(__file__)


class InLane:
    """A host function that is called for one lane."""

    def __init__(self, callback: Callable[..., Any], lane: int) -> None:
        self.callback = callback
        self.lane = lane

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return self.callback(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self.callback)


class Format(str):
    """The format of a print for one lane, which JAX must not take for that of another."""

    __slots__ = ("lanes",)
    lanes: tuple[int, ...]
    """Outermost vmap first."""

    def __new__(cls, text: str, lane: int) -> "Format":
        made = super().__new__(cls, text)
        made.lanes = (lane, *lanes_of_format(text))
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and str(self) == str(other) and self.lanes == other.lanes

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((str(self), self.lanes))


def lanes_of_format(text: object) -> tuple[int, ...]:
    return text.lanes if isinstance(text, Format) else ()


def lane_of(frame: FrameType) -> int | None:
    """The lane that a frame calls a host function for; of nested vmaps the innermost is nearest to that function."""
    return frame.f_locals["self"].lane if frame.f_code is InLane.__call__.__code__ else None


@contextmanager
def marked_lanes() -> Iterator[None]:
    """While it lasts, prints and callbacks that are vmapped learn their lane; those in JAX's caches did not."""
    with batched_by(_batch, jax_internals.DEBUG_PRIMITIVES):
        yield


def _batch(rule: Any, primitive: Any, axis: Any, operands: Any, axes: Any, **parameters: Any) -> Any:
    if all(each is None for each in axes):
        return rule(axis, operands, axes, **parameters)
    return jax_internals.bind_for_each_lane(_Lanes(primitive), operands, axes, parameters)


class _Lanes:
    """Stands for a primitive that JAX binds once for each lane, in their order."""

    def __init__(self, primitive: Any) -> None:
        self._primitive = primitive
        self._lane = -1

    def bind(self, *operands: Any, **parameters: Any) -> Any:
        self._lane += 1
        if "fmt" in parameters:
            parameters["fmt"] = Format(parameters["fmt"], self._lane)
        else:
            parameters["callback"] = InLane(parameters["callback"], self._lane)
        return self._primitive.bind(*operands, **parameters)
