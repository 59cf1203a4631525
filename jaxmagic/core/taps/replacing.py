"""Puts another array where one is in a container, without running any code of the user's."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxmagic.core.lines.attributes import (
    MISSING,
    attribute,
    blank_copy,
    builtin_base,
    class_attribute,
    inherits,
    instance_dict,
    set_attribute,
)
from jaxmagic.core.lines.containers import Owns, children, mapping_of

Steps = tuple[str, ...]
"""What leads from a variable to an array in it, as `children` spells each step: `("['w1']",)`."""


class Change(NamedTuple):
    """An attribute that was given another value."""

    owner: Any
    name: str
    old: Any
    new: Any

    def undo(self) -> None:
        """Puts back what was there, unless the program has put something else there meanwhile."""
        if attribute(self.owner, self.name) is self.new:
            set_attribute(self.owner, self.name, self.old)


class Replacing:
    """Replaces arrays inside of one value.

    Containers and frozen objects are values: they are copied, and the originals stay as they are. Other objects have
    an identity, which other references to them rely on: they are changed in place.

    Args:
        owns: Whether a class is the user's own.
        in_place: Whether objects may be changed in place; if not, they are copied too. A constant of a program
            belongs to those who use it afterwards.
    """

    def __init__(self, owns: Owns, *, in_place: bool) -> None:
        self.changes: list[Change] = []
        self._owns = owns
        self._in_place = in_place

    def replaced(self, value: Any, steps: Sequence[str], new: Any) -> Any:
        """What stands for `value` with `new` at the end of `steps`.

        Raises:
            TypeError: There is nothing at the end of `steps`, or it can't be replaced.
        """
        if not steps:
            return new
        wrapped = mapping_of(value)
        if wrapped is not None:
            held = attribute(value, wrapped)
            changed = self.replaced(held, steps, new)
            return value if changed is held else self._with_attribute(value, wrapped, changed)
        part = dict(children(value, self._owns) or ()).get(steps[0], MISSING)
        if part is MISSING:
            raise TypeError(f"a {type(value).__name__} has nothing at {steps[0]}")
        changed = self.replaced(part, steps[1:], new)
        return value if changed is part else self._with(value, steps[0], changed)

    def _with(self, value: Any, step: str, part: Any) -> Any:
        cls = type(value)
        if inherits(cls, dict) or inherits(cls, list):
            return _with_item(value, dict(_keys(value))[step], part)
        if inherits(cls, tuple):
            return _with_element(value, dict(_keys(value))[step], part)
        return self._with_attribute(value, step.strip(".[]") or "_raw_value", part)

    def _with_attribute(self, owner: Any, name: str, value: Any) -> Any:
        if self._in_place and not _is_value(owner):
            self.changes.append(Change(owner, name, attribute(owner, name), value))
            set_attribute(owner, name, value)
            return owner
        copy = blank_copy(owner)
        set_attribute(copy, name, value)
        return copy


def _keys(value: Any) -> list[tuple[str, Any]]:
    """Step → key or index."""
    steps = [step for step, _ in children(value, lambda cls: False) or ()]
    keys = list(dict.__iter__(value)) if inherits(type(value), dict) else range(len(steps))
    return list(zip(steps, keys, strict=True))


def _with_item(value: Any, key: Any, part: Any) -> Any:
    copy = blank_copy(value)
    if inherits(type(value), list):
        list.extend(copy, list.__iter__(value))
        list.__setitem__(copy, key, part)
        return copy
    base = builtin_base(type(value))
    for each, held in base.items(value):
        base.__setitem__(copy, each, part if each is key else held)
    return copy


def _with_element(value: tuple, at: int, part: Any) -> tuple:
    parts = [part if number == at else each for number, each in enumerate(tuple.__iter__(value))]
    copy = tuple.__new__(type(value), parts)
    dict.update(instance_dict(copy), instance_dict(value))
    return copy


def _is_value(owner: Any) -> bool:
    """Whether it is nothing but what it holds: a frozen dataclass (so an Equinox module), or a wrapped mapping."""
    parameters = class_attribute(type(owner), "__dataclass_params__")
    return mapping_of(owner) is not None or bool(getattr(parameters, "frozen", False))
