"""Reads what an object holds, without running any code of its class: no property, no `__getattr__`, no `__eq__`."""

from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

MISSING: Any = object()

_HEAP_TYPE = 1 << 9
"""Of `type.__flags__`: made by a `class` statement."""

# Through the descriptors of `type`, because a metaclass may replace the attributes of the same name.
_bases = type.__dict__["__mro__"].__get__
_namespace = type.__dict__["__dict__"].__get__
_flags = type.__dict__["__flags__"].__get__
_has_subclass = type.__dict__["__subclasscheck__"]


def attribute(owner: object, name: str) -> Any:
    """What `owner` holds under `name` in its own `__dict__` or slots; `MISSING` if nothing."""
    value = dict.get(instance_dict(owner), name, MISSING)
    if value is not MISSING:
        return value
    slot = class_attribute(type(owner), name)
    if type(slot) is not MemberDescriptorType:
        return MISSING
    try:
        return slot.__get__(owner)
    except AttributeError:
        return MISSING


def set_attribute(owner: object, name: str, value: Any) -> None:
    """Puts `value` where `attribute` finds it, past whatever the class has to say about it.

    Raises:
        TypeError: `owner` holds nothing under `name`.
    """
    held = instance_dict(owner)
    if dict.__contains__(held, name):
        dict.__setitem__(held, name, value)
        return
    slot = class_attribute(type(owner), name)
    if type(slot) is not MemberDescriptorType:
        raise TypeError(f"a {type(owner).__name__} holds nothing under {name}")
    slot.__set__(owner, value)


def blank_copy(owner: Any) -> Any:
    """Another object of the same class with the same attributes, without what a built-in container holds."""
    made = builtin_base(type(owner)).__new__(type(owner))
    dict.update(instance_dict(made), instance_dict(owner))
    for base in _bases(type(owner)):
        for name, slot in _namespace(base).items():
            value = attribute(owner, name) if type(slot) is MemberDescriptorType else MISSING
            if value is not MISSING and name not in instance_dict(owner):
                slot.__set__(made, value)
    return made


def instance_dict(owner: object) -> dict[str, Any]:
    """The `__dict__` of an object; empty for a class, and where its class has none or made it a property."""
    descriptor = class_attribute(type(owner), "__dict__")
    if type(descriptor) is GetSetDescriptorType or type(descriptor) is MemberDescriptorType:
        found = descriptor.__get__(owner)
        return found if inherits(type(found), dict) else {}
    return {}


def class_attribute(cls: type, name: str) -> Any:
    """What the first class in the method resolution order has under `name`, not bound to anything."""
    for base in _bases(cls):
        namespace = _namespace(base)
        if name in namespace:
            return namespace[name]
    return MISSING


def builtin_base(cls: type) -> Any:
    """The first class that is not made by a `class` statement: `OrderedDict`, `dict`, `list`, … or `object`."""
    return next(base for base in _bases(cls) if not _flags(base) & _HEAP_TYPE)


def inherits(cls: type, base: type) -> bool:
    """`issubclass`, without asking an abstract base class for its opinion: that would hash and compare `cls`."""
    return _has_subclass(base, cls)


def module_of(cls: type) -> str:
    """Name of the module that defined a class; empty where it isn't a string."""
    name = _namespace(cls).get("__module__", "builtins")
    return name if type(name) is str else ""
