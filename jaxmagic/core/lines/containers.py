"""What a pytree holds, by access path. Its flatten functions are never called: they may be the user's code."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

from jaxmagic.core.lines.attributes import MISSING, attribute, class_attribute, inherits, instance_dict

Owns = Callable[[type], bool]
"""Whether a class is the user's own, so that the plain attributes of its instances may be read."""

_KEYS = (str, int, float, bool, bytes, type(None))
_LONGEST_KEY = 40


def children(value: Any, owns: Owns) -> Iterator[tuple[str, Any]] | None:
    """The parts of a container with the path that leads to each; None if `value` is not a container.

    Known are dicts, lists, tuples, named tuples, dataclasses (so Equinox modules and `flax.struct`), Flax NNX
    modules, variables and states, Flax's FrozenDict, and instances of classes for which `owns` is true.
    """
    cls = type(value)
    if inherits(cls, dict):
        return ((f"[{_key(key)}]", part) for key, part in dict.items(value))
    if inherits(cls, list):
        return _numbered(list.__iter__(value))
    if inherits(cls, tuple):
        return _tuple(value)
    return _flax(value) or _dataclass(value) or (_attributes(value) if owns(cls) else None)


def _numbered(parts: Iterator[Any]) -> Iterator[tuple[str, Any]]:
    return ((f"[{index}]", part) for index, part in enumerate(parts))


def _key(key: object) -> str:
    """A dictionary's key as Python spells it; keys of the user's own classes are not asked for their repr."""
    text = repr(key) if type(key) in _KEYS else f"<{type(key).__name__}>"
    return text if len(text) <= _LONGEST_KEY else text[:_LONGEST_KEY] + "…"


def _tuple(value: Any) -> Iterator[tuple[str, Any]]:
    fields = class_attribute(type(value), "_fields")
    parts = tuple.__iter__(value)
    if type(fields) is tuple and len(fields) == tuple.__len__(value):
        return ((f".{name}", part) for name, part in zip(fields, parts, strict=True))
    return _numbered(parts)


def _dataclass(value: object) -> Iterator[tuple[str, Any]] | None:
    fields = class_attribute(type(value), "__dataclass_fields__")
    if type(fields) is not dict:
        return None
    held = ((f".{name}", attribute(value, name)) for name in fields)
    return ((path, part) for path, part in held if part is not MISSING)


def _attributes(value: object) -> Iterator[tuple[str, Any]]:
    held = {name: part for name, part in dict.items(instance_dict(value)) if type(name) is str and name[:1] != "_"}
    # In the order of JAX's own flattening: NNX puts attributes back in another order than they were made in.
    return ((_path(name), held[name]) for name in sorted(held, key=_order))


def _order(name: str) -> tuple[int, str]:
    return (len(name), name) if name.isdigit() else (0, name)


def _path(name: str) -> str:
    # NNX keeps the elements of a List as attributes that are called "0", "1", …
    return f"[{name}]" if name.isdigit() else f".{name}"


def _flax(value: object) -> Iterator[tuple[str, Any]] | None:
    nnx = sys.modules.get("flax.nnx")
    if _is(value, nnx, "Variable"):
        return iter([("", attribute(value, "_raw_value"))])
    mapping = mapping_of(value)
    if mapping is not None:
        return children(attribute(value, mapping), _never)
    if _is(value, nnx, "Pytree") or _is(value, nnx, "Module"):
        return _attributes(value)
    return None


def mapping_of(value: object) -> str | None:
    """The one attribute in which a mapping of Flax's keeps what it holds; None for anything else."""
    found = (held for module, name, held in _MAPPINGS if _is(value, sys.modules.get(module), name))
    return next(found, None)


_MAPPINGS = (("flax.nnx", "State", "_mapping"), ("flax.core", "FrozenDict", "_dict"))


def _is(value: object, module: Any, name: str) -> bool:
    cls = getattr(module, name, None)
    return isinstance(cls, type) and inherits(type(value), cls)


def _never(cls: type) -> bool:
    return False
