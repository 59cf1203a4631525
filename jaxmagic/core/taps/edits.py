"""What is done to a named value on its way: replaced, shown to a host function, watched for its gradient."""

from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from jaxmagic.core.limits import Limits
from jaxmagic.core.taps.delivery import Site
from jaxmagic.core.taps.exchange import Host, exchange
from jaxmagic.core.taps.gradients import watch_gradient
from jaxmagic.core.taps.ground import ground
from jaxmagic.core.taps.series import Name
from jaxmagic.core.taps.wanted import Wanted
from jaxmagic.core.taps.writeback import with_leaf, write


class BadValue(Exception):  # noqa: N818 - the user reads it: it names what is wrong with their expression
    """A value that was to stand in for another can't."""


class Edits:
    """Everything that changes or marks a variable; takes effect from the next line on.

    Args:
        replace: names → the function that makes the new value of the old one, traced with the program.
        call: a host function that sees each value of the tapped names; what it returns flows on.
        gradient: makes the site that receives the cotangents of a name; None where none are wanted.
        wanted: the tapped names.
    """

    def __init__(
        self,
        replace: Mapping[str, Callable[[Array], Any]],
        call: Callable[[np.ndarray], Any] | None,
        gradient: Callable[[tuple[Name, ...]], Site] | None,
        wanted: Wanted,
        limits: Limits,
    ) -> None:
        self.error: Exception | None = None
        self.active = bool(replace or call or gradient)
        self._replace = [(Wanted([name]), function) for name, function in replace.items()]
        self._call = call
        self._gradient = gradient
        self._wanted = wanted
        self._limits = limits

    def unknown(self) -> dict[str, tuple[str, ...]]:
        """Names that were to be replaced and were never there, with those like them."""
        return {name: near for wanted, _ in self._replace for name, near in wanted.unknown().items()}

    def may_match(self, function: str, variable: str) -> bool:
        """Whether the variable, or something inside of it, may have to be replaced."""
        return any(wanted.may_match(function, variable) for wanted, _ in self._replace)

    def apply(self, frame: FrameType, name: Name, array: Any, value: Any) -> Any:
        """Edits one array inside of a variable's value; returns what the variable then holds."""
        if ground() == "none":
            return value
        edited = self._edited(name, array)
        if edited is array:
            return value
        variable = name.name.partition("[")[0].partition(".")[0]
        try:
            whole = with_leaf(value, array, edited)
        except TypeError as error:
            self._limits.add(f"{variable} in {name.function}: {error}; no gradient of it, and nothing set in it")
            return value
        write(frame, variable, whole)
        return whole

    def _edited(self, name: Name, array: Any) -> Any:
        ordered = ground() == "ordered"
        edited = array
        for wanted, function in self._replace:
            if wanted.matches(name.function, name.name):
                edited = self._replaced(name, edited, function)
        if not self._wanted.matches(name.function, name.name):
            return edited
        if self._call is not None:
            host = Host(f"{name.name} {name.aval} at {_place(name)}", self._call, self._failed)
            edited = exchange(host, edited, ordered=ordered)
        if self._gradient is not None and _is_differentiable(edited):
            edited = watch_gradient(self._gradient((name._replace(gradient=True),)), edited, ordered=ordered)
        return edited

    def _replaced(self, name: Name, array: Any, function: Callable[[Array], Any]) -> Any:
        try:
            return _fitting(name, array, function(array))
        except Exception as error:  # noqa: BLE001 - raised where the traced function was called
            self._failed(error if isinstance(error, BadValue) else BadValue(f"{_place(name)}: {error}"))
            return array

    def _failed(self, error: BaseException) -> None:
        if self.error is None and isinstance(error, Exception):
            self.error = error


def _fitting(name: Name, array: Any, new: Any) -> Any:
    """The new value with the shape and dtype of the old; a scalar stands for an array full of it."""
    new = jnp.asarray(new)
    if new.shape not in (array.shape, ()):
        raise BadValue(f"the value set for {name.name} at {_place(name)} has shape {new.shape}, not {array.shape}")
    if not jnp.can_cast(new.dtype, array.dtype, "same_kind"):
        raise BadValue(f"the value set for {name.name} at {_place(name)} has dtype {new.dtype}, not {array.dtype}")
    return jnp.broadcast_to(new.astype(array.dtype), array.shape)


def _place(name: Name) -> str:
    return f"line {name.span.line} of {name.function}()" if name.span else f"{name.function}()"


def _is_differentiable(array: Any) -> bool:
    return issubclass(type(array), Tracer) and jnp.issubdtype(array.dtype, jnp.inexact)
