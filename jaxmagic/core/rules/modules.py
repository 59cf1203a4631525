"""Layers of Flax and Equinox on a traceback: which one failed, and the shapes of its parameters."""

import ast
from dataclasses import dataclass
from types import FrameType
from typing import Any

from jaxmagic.core.failures.sites import path_of
from jaxmagic.core.lines import values
from jaxmagic.core.lines.attributes import instance_dict, module_of
from jaxmagic.core.lines.containers import children
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.records import Aval

_LIBRARIES = ("flax", "equinox", "haiku", "penzai")
_PARAMETERS = ("kernel", "weight", "embedding", "scale", "bias")


@dataclass(frozen=True)
class Layer:
    """A library's layer that was being called."""

    kind: str
    """Its class: `Linear`."""
    path: str
    """How the user's code reaches it, `self.layers[1]`; its own name, or its class, where that is unknown."""
    parameters: dict[str, Aval]
    inputs: tuple[Aval, ...]
    """The arrays it was called with."""

    def __str__(self) -> str:
        return f"`{self.path}` ({self.kind})" if self.path != self.kind else f"`{self.kind}`"

    def described(self) -> str:
        """Its parameters: `weight f32[4,3]`."""
        return ", ".join(f"{name} {aval}" for name, aval in self.parameters.items())


def layer_of(failing: Failing) -> Layer | None:
    """The innermost layer below the user's frame that has parameters; None where no layer was called."""
    found = None
    for frame in failing.machinery:
        owner = frame.f_locals.get("self")
        if frame.f_code.co_name == "__call__" and _is_layer(owner):
            parameters = _parameters(owner, frame)
            if parameters or found is None:
                found = Layer(type(owner).__name__, _path(failing, owner), parameters, _inputs(frame))
    return found


def _is_layer(owner: Any) -> bool:
    library, *path = module_of(type(owner)).split(".")
    return library in _LIBRARIES and (library != "equinox" or path[:1] == ["nn"])


def _parameters(owner: Any, frame: FrameType) -> dict[str, Aval]:
    """Arrays of the layer itself; of a Linen layer, whose parameters are given to it, those in its frame."""
    held = {step.lstrip("."): part for step, part in children(owner, lambda cls: True) or ()}
    held |= {name: frame.f_locals.get(name) for name in _PARAMETERS if name in frame.f_locals}
    found = {}
    for name, part in held.items():
        leaves, hidden = values.leaves(part, 1)
        if name in _PARAMETERS and leaves and not leaves[0].path and not hidden:
            found[name] = leaves[0].aval
    return found


def _inputs(frame: FrameType) -> tuple[Aval, ...]:
    code = frame.f_code
    given = [frame.f_locals.get(name) for name in code.co_varnames[1 : code.co_argcount]]
    return tuple(leaves[0].aval for leaves, _ in (values.leaves(value, 1) for value in given) if leaves)


def _path(failing: Failing, owner: Any) -> str:
    for name, value in failing.scope.locals.items():
        if found := path_of(owner, value, name):
            return found
    if isinstance(failing.node, ast.Call) and failing.scope.get(failing.node.func) is owner:
        return failing.text(failing.node.func)
    named = instance_dict(owner).get("name")
    return named if isinstance(named, str) else type(owner).__name__
