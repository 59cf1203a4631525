"""Values as records: what each array in a value is. Nothing is kept of them but text and numbers."""

from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from jaxmagic.core import jax_internals
from jaxmagic.core.lines.attributes import inherits
from jaxmagic.core.lines.containers import Owns, children
from jaxmagic.core.lines.transforms import is_tracing as is_tracing
from jaxmagic.core.lines.transforms import transforms as transforms
from jaxmagic.records import Aval, Leaf

MOST_PARTS = 2_000
"""Parts of one value that are looked at and hold no array; a longer list is not walked to its end in a hook."""

MOST_ARRAYS = 100_000
"""Arrays that are counted in one value."""

_DEEPEST = 12
_NOT_NUMBERS = "OUSMm"
"""Kinds of numpy arrays that JAX has no use for."""


def aval_of(value: Any) -> Aval:
    """The abstract value of an array.

    Args:
        value: A JAX array, a tracer, a numpy array or a numpy scalar.

    Raises:
        TypeError: it is none of these.
    """
    kind = _kind(value)
    if kind is None:
        raise TypeError(f"not an array: {type(value).__name__}")
    if kind == "numpy":
        base = _numpy_base(type(value))
        return Aval(base.shape.__get__(value), _dtype(base.dtype.__get__(value)))
    return _with_layout(aval_from(jax.typeof(value)), value) if kind == "array" else aval_from(value.aval)


def aval_from(aval: Any) -> Aval:
    """One of JAX's own abstract values as a record; those without a shape (tokens) keep their name as dtype."""
    shape = tuple(size if type(size) is int else _size(size) for size in getattr(aval, "shape", ()))
    dtype = getattr(aval, "dtype", None)
    name = type(aval).__name__ if dtype is None else _dtype(dtype)
    return Aval(shape, name, bool(getattr(aval, "weak_type", False)), _explicit_sharding(aval))


def leaves(
    value: Any, cap: int, owns: Owns = lambda cls: False, most: int = MOST_ARRAYS
) -> tuple[tuple[Leaf, ...], int]:
    """The arrays in a value, by access path, without running any code of the user's.

    Args:
        value: Anything; what is neither an array nor a container that we know has no leaves.
        cap: How many leaves to describe.
        owns: Whether a class is the user's own; the plain attributes of its instances are then looked into.
        most: How many arrays to count.

    Returns:
        The leaves, and how many there are beyond `cap` (up to `most` in all, and `MOST_PARTS` other parts).
    """
    walk = _Walk(cap, owns, most)
    walk.visit("", value, 0)
    return tuple(walk.found), walk.hidden


class _Walk:
    """One way through a value."""

    def __init__(self, cap: int, owns: Owns, most: int) -> None:
        self.found: list[Leaf] = []
        self.hidden = 0
        self._cap = cap
        self._owns = owns
        self._most = most
        self._parts = 0
        self._around: set[int] = set()

    def visit(self, path: str, value: Any, depth: int) -> None:
        kind = _kind(value)
        if kind is not None:
            self._keep(path, value, kind)
            return
        self._parts += 1
        if id(type(value)) not in _SCALARS and depth < _DEEPEST and id(value) not in self._around:
            self._enter(path, value, depth)

    def _enter(self, path: str, value: Any, depth: int) -> None:
        self._around.add(id(value))
        for step, part in children(value, self._owns) or ():
            if self._parts > MOST_PARTS or len(self.found) + self.hidden >= self._most:
                break
            self.visit(path + step, part, depth + 1)
        self._around.discard(id(value))

    def _keep(self, path: str, value: Any, kind: Any) -> None:
        if len(self.found) >= self._cap:
            self.hidden += 1
            return
        lanes = jax_internals.batch_sizes(value) if kind == "traced" else ()
        self.found.append(Leaf(path, aval_of(value), kind, lanes))


_SCALARS = frozenset(map(id, (int, float, bool, complex, str, bytes, type(None), type)))
"""By id: a metaclass may have a `__hash__` of its own."""


def _kind(value: Any) -> str | None:
    # Of the type, never `isinstance`: that asks the object for its `__class__`, which may be a property.
    cls = type(value)
    if id(cls) in _SCALARS:
        return None
    if inherits(cls, Tracer):
        return "traced"
    if inherits(cls, jax.Array):
        return "array"
    base = _numpy_base(cls)
    return "numpy" if base and _is_number(base.dtype.__get__(value)) else None


def _numpy_base(cls: type) -> Any:
    return next((base for base in (np.ndarray, np.generic) if inherits(cls, base)), None)


def _is_number(dtype: Any) -> bool:
    return dtype.kind not in _NOT_NUMBERS and (dtype.names is None or dtype == jax.dtypes.float0)


def _dtype(dtype: Any) -> str:
    # The dtype of what has no tangent; numpy spells it as a list of fields.
    return "float0" if dtype == jax.dtypes.float0 else str(dtype)


def _size(size: Any) -> int | str:
    return int(size) if isinstance(size, np.integer) else str(size)


def _with_layout(aval: Aval, array: Any) -> Aval:
    """Adds how a concrete array lies on its devices, where that is more than one."""
    sharding = array.sharding
    if type(sharding) is jax.sharding.SingleDeviceSharding or len(sharding.device_set) < 2:
        return aval
    spec = getattr(sharding, "spec", None)
    return Aval(aval.shape, aval.dtype, aval.weak, type(sharding).__name__ if spec is None else _spec(spec))


def _explicit_sharding(aval: Any) -> str | None:
    """The layout that is part of the type, under a mesh with explicit axes."""
    spec = getattr(getattr(aval, "sharding", None), "spec", ())
    return _spec(spec) if any(part is not None for part in spec) else None


def _spec(spec: Any) -> str:
    return f"P({', '.join(map(repr, spec))})"
