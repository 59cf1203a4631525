"""The eager ring, for loops of millions of steps: the program writes into buffers on the device, read once it is done.

The buffers are made outside of every trace. One made inside of a trace would be kept by JAX's trace caches after it
has died, and fail in the user's code.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxmagic.core import jax_internals
from jaxmagic.core.limits import Limits
from jaxmagic.core.taps.batches import Batch, Name
from jaxmagic.core.taps.delivery import Delivery, Part
from jaxmagic.core.taps.transport import unlocked

ROWS = 256
"""Events of each tap that a ring holds: the last ones."""

_SAFE = {"jit", "scan", "while_body", "fori_loop", "cond", "switch"}
"""Purposes of traces whose programs may write to a buffer and are not transformed afterwards."""

_REUSERS = (os.path.join("control_flow", "solves.py"), os.path.join("export", "_export.py"))

_makers = ThreadPoolExecutor(1, "jaxmagic ring")
"""What JAX traces is known per thread; in this one it never traces anything."""


class RingTrack:
    """The events of one tap as its ring held them in the end."""

    def __init__(self, batch: Batch, total: int, size: int) -> None:
        self.names = batch.names
        self.total = total
        self.bytes = size
        self._batch = batch

    def kept(self) -> list[Batch]:
        return [self._batch]

    def total_of(self, name: Name) -> int:
        return self.total * self.names.count(name)


class _Ring(NamedTuple):
    names: tuple[Name, ...]
    buffers: list[Any]
    times: Any
    """On the shared clock: the order of all events of all rings."""
    count: Any


class Rings:
    """All rings of one run."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._rings: dict[tuple[Name, ...], _Ring] = {}
        self._clock = _makers.submit(lambda: jax.new_ref(jnp.zeros((), jnp.uint32))).result()
        self._local = threading.local()

    def refusal(self, arrays: Sequence[Array] = ()) -> str | None:
        """Why a ring would be wrong for these values, where the code now runs; None where it is right."""
        if jax.device_count() > 1:
            return "it works on one device only"
        for purpose in [level.purpose for level in jax_internals.trace_levels()]:
            if purpose not in _SAFE:
                return f"it can't be written to under {purpose}"
        if getattr(self._local, "transformed", False):
            return "the function is called under a transformation"
        if _is_reused():
            return "JAX uses its program in several places, or stores it"
        if sum(array.size * array.dtype.itemsize for array in arrays) * ROWS > self._budget:
            return f"{ROWS} of these values are more than the budget"
        return None

    @contextmanager
    def calling(self, transformed: bool) -> Iterator[None]:
        """While a function is traced that is called under a transformation, which it can't see from inside."""
        before = getattr(self._local, "transformed", False)
        self._local.transformed = before or transformed
        try:
            yield
        finally:
            self._local.transformed = before

    def put(self, names: tuple[Name, ...], arrays: Sequence[Array]) -> None:
        """Stages the writing of one event into the current trace."""
        # Without the barrier XLA computes what leads to a value once more for each buffer.
        values = lax.optimization_barrier([lax.stop_gradient(unlocked(array)) for array in arrays])
        ring = self._rings.get(names)
        if ring is None:
            shapes = [(value.shape, value.dtype) for value in values]
            ring = self._rings[names] = _makers.submit(_made, names, shapes).result()
        count, now = ring.count[...], self._clock[...]
        row = (count % jnp.uint32(ROWS)).astype(jnp.int32)
        for buffer, value in zip(ring.buffers, values, strict=True):
            buffer[row] = value
        ring.times[row] = now
        ring.count[...] = count + jnp.uint32(1)
        self._clock[...] = now + jnp.uint32(1)

    def read(self, limits: Limits) -> list[RingTrack]:
        """What the rings hold, once the programs have ended."""
        tracks = []
        for ring in self._rings.values():
            # A program that failed has taken the buffers with it.
            with limits.guard(f"the ring of {', '.join(name.name for name in ring.names)}"):
                tracks.append(_track(ring))
        return tracks


def _is_reused() -> bool:
    """Whether JAX traces for a custom root or solve, which runs one program in many places, or for an export."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_REUSERS):
            return True
        frame = frame.f_back
    return False


def _made(names: tuple[Name, ...], shapes: list[tuple[tuple[int, ...], Any]]) -> _Ring:
    buffers = [jax.new_ref(jnp.zeros((ROWS, *shape), dtype)) for shape, dtype in shapes]
    return _Ring(names, buffers, jax.new_ref(jnp.zeros(ROWS, jnp.uint32)), jax.new_ref(jnp.zeros((), jnp.uint32)))


def _track(ring: _Ring) -> RingTrack:
    total, times = int(ring.count[...]), np.asarray(ring.times[...])
    arrays = [np.asarray(buffer[...]) for buffer in ring.buffers]
    parts = tuple(Part(False, 1, array.shape[1:], array.dtype, ()) for array in arrays)
    layout = tuple((array.shape[1:], array.dtype) for array in arrays)
    events = np.arange(max(0, total - ROWS), total)
    rows = events % ROWS
    batch = Batch(
        names=ring.names,
        delivery=Delivery(parts, layout=layout, way=f"ring of the last {ROWS} events, read after the programs ended"),
        numbers=times[rows].astype(int),
        times=np.full(len(rows), time.perf_counter()),
        steps=np.stack([_steps(ring.names, column, events) for column in range(len(arrays))], axis=1),
        arrays=tuple(array[rows] for array in arrays),
        alerts=np.zeros((len(rows), len(arrays)), bool),
    )
    return RingTrack(batch, total, sum(array.nbytes for array in arrays))


def _steps(names: tuple[Name, ...], column: int, events: np.ndarray) -> np.ndarray:
    """Steps of one value of each event, of which others may have the same name."""
    name = names[column]
    return events * names.count(name) + names[:column].count(name)
