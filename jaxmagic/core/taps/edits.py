"""What is done to a named value on its way: replaced, shown to a host function, watched for its gradient."""

from collections.abc import Callable, Mapping
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from jaxmagic.core.lines.containers import Owns
from jaxmagic.core.placed import Placed, Theirs
from jaxmagic.core.source.stores import Store, is_read_on
from jaxmagic.core.taps.batches import Name
from jaxmagic.core.taps.delivery import Site
from jaxmagic.core.taps.exchange import Host, exchange
from jaxmagic.core.taps.gradients import watch_gradient
from jaxmagic.core.taps.ground import ground, is_compiling
from jaxmagic.core.taps.remarks import Remarks
from jaxmagic.core.taps.replacing import Change, Replacing, Steps
from jaxmagic.core.taps.wanted import Wanted
from jaxmagic.core.taps.writeback import write
from jaxmagic.records import Frame


class BadValue(Placed):
    """A value that was to stand in for another can't."""


class Variable(NamedTuple):
    """A variable that has just been given a value."""

    frame: FrameType
    target: Store | str
    """What stored it, or the name of a parameter."""


class Edits:
    """Everything that changes or marks a variable; takes effect from the next line on.

    Args:
        replace: names → the function that makes the new value of the old one, traced with the program.
        call: a host function that sees each value of the tapped names; what it returns flows on.
        gradient: makes the site that receives the cotangents of a name; None where none are wanted.
        wanted: the tapped names.
        owns: whether a class is the user's own.
        remarks: takes what the user should know of it.
        is_current: whether what is sent now goes to this run.
    """

    def __init__(
        self,
        replace: Mapping[str, Callable[[Array], Any]],
        call: Callable[[np.ndarray], Any] | None,
        gradient: Callable[[tuple[Name, ...]], Site] | None,
        wanted: Wanted,
        owns: Owns,
        remarks: Remarks,
        is_current: Callable[[], bool],
    ) -> None:
        self.active = bool(replace or call or gradient)
        self._replace = [(Wanted([name]), function) for name, function in replace.items()]
        self._call = call
        self._gradient = gradient
        self._wanted = wanted
        self._owns = owns
        self._remarks = remarks
        self._is_current = is_current
        self._error: Exception | None = None
        """Of the host function in a running program; raised where the program was called."""
        self._traceback: TracebackType | None = None
        self._changes: dict[int, list[Change]] = {}
        """What was changed in place inside of the parameters of a frame, by its id."""

    def unknown(self) -> dict[str, tuple[str, ...]]:
        """Names that were to be replaced and were never there, with those like them."""
        return {name: near for wanted, _ in self._replace for name, near in wanted.unknown().items()}

    def may_match(self, function: str, variable: str) -> bool:
        """Whether the variable, or something inside of it, may have to be replaced."""
        return any(wanted.may_match(function, variable) for wanted, _ in self._replace)

    def apply(self, variable: Variable, name: Name, steps: Steps, array: Any, value: Any) -> Any:
        """Edits one array inside of a variable's value; returns what the variable then holds.

        Raises:
            BadValue: What was to replace the array doesn't fit.
        """
        __tracebackhide__ = True
        where = ground()
        edited = array if where == "none" else self._edited(name, array, ordered=where == "ordered")
        if edited is array:
            return value
        # In a program an array that is not traced is a constant, and so is the object around it.
        replacing = Replacing(self._owns, in_place=_is_traced(array) or not is_compiling())
        whole = replacing.replaced(value, steps, edited)
        if whole is not value:
            write(variable.frame, variable.target, whole)
        if isinstance(variable.target, str):
            self._changes.setdefault(id(variable.frame), []).extend(replacing.changes)
        elif is_read_on(variable.frame.f_code, variable.target):
            self._remarks.used_on_its_line(name)
        return whole

    def returned(self, name: Name) -> None:
        """Notes that a value which a function returns was to be edited: it is in no variable."""
        wanted = [wanted for wanted, _ in self._replace]
        if self._call is not None or self._gradient is not None:
            wanted.append(self._wanted)
        if any(each.names_exactly(name.function, name.name) for each in wanted):
            for each in wanted:
                each.matches(name.function, name.name)
            self._remarks.returned(name, self._verb())

    def restore(self, frame: int | None = None) -> None:
        """Undoes what was changed in place inside of the parameters of a frame that has ended; of all, if None."""
        for key in [frame] if frame is not None else list(self._changes):
            for change in reversed(self._changes.pop(key, ())):
                change.undo()

    def _verb(self) -> str:
        done = {"replaced": self._replace, "handed to the host": self._call, "watched for its gradient": self._gradient}
        return " or ".join(word for word, asked in done.items() if asked)

    def _edited(self, name: Name, array: Any, *, ordered: bool) -> Any:
        __tracebackhide__ = True
        is_tapped = self._wanted.matches(name.function, name.name)
        edited = array
        for wanted, function in self._replace:
            if wanted.matches(name.function, name.name):
                self._remarks.replaced(wanted, name)
                edited = _replaced(name, edited, function)
        if not is_tapped:
            return edited
        if self._call is not None and (_is_traced(array) or not is_compiling() or not self._wanted.everything):
            edited = self._exchanged(self._call, name, edited, ordered=ordered)
        if self._gradient is not None and self._is_current() and _is_differentiable(edited):
            edited = watch_gradient(self._gradient((name._replace(gradient=True),)), edited, ordered=ordered)
        return edited

    def _exchanged(self, call: Callable[[np.ndarray], Any], name: Name, array: Any, *, ordered: bool) -> Any:
        __tracebackhide__ = True

        def differentiated() -> None:
            self._remarks.cut_gradient(name)

        host = Host(f"{name.name} {name.aval} at {_place(name)}", call, _frame(name), self._failed, differentiated)
        try:
            if not jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
                return exchange(host, array, ordered=ordered)
            data = exchange(host, jax.random.key_data(array), ordered=ordered)
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(array))
        except Exception as error:
            mine = self.take_error()
            if mine is not error or isinstance(error, Placed):
                raise
            raise Theirs(error) from None

    def take_error(self) -> Exception | None:
        """The exception that a host function raised since the last time, with no frames but its own."""
        error, traceback, self._error, self._traceback = self._error, self._traceback, None, None
        return error.with_traceback(traceback) if error is not None else None

    def _failed(self, error: BaseException) -> None:
        if self._error is None and isinstance(error, Exception):
            self._error = error
            self._traceback = error.__traceback__.tb_next if error.__traceback__ else None


def _replaced(name: Name, array: Any, function: Callable[[Array], Any]) -> Any:
    __tracebackhide__ = True
    try:
        return _fitting(name, array, function(array))
    except BadValue:
        raise
    except Exception as error:  # noqa: BLE001 - the user's expression, said back to them
        problem = f"{type(error).__name__}: {error}".partition("\n")[0]
        message = f"the value set for {name.name} {name.aval} at {_place(name)} can't be computed: {problem}"
        raise BadValue(message, _frame(name)) from None


def _fitting(name: Name, array: Any, new: Any) -> Any:
    """The new value with the shape and dtype of the old; a scalar stands for an array full of it."""
    __tracebackhide__ = True
    new = jnp.asarray(new)
    where = f"the value set for {name.name} at {_place(name)}"
    if new.shape not in (array.shape, ()):
        raise BadValue(f"{where} has shape {new.shape}, not {array.shape}", _frame(name))
    if new.dtype == array.dtype:
        return jnp.broadcast_to(new, array.shape)
    if jnp.issubdtype(array.dtype, jax.dtypes.extended) or not jnp.can_cast(new.dtype, array.dtype, "same_kind"):
        raise BadValue(f"{where} has dtype {new.dtype}, not {array.dtype}", _frame(name))
    return jnp.broadcast_to(new.astype(array.dtype), array.shape)


def _place(name: Name) -> str:
    return f"line {name.span.line} of {name.function}()" if name.span else f"{name.function}()"


def _frame(name: Name) -> Frame | None:
    return Frame(name.span, name.function) if name.span else None


def _is_traced(array: Any) -> bool:
    return issubclass(type(array), Tracer)


def _is_differentiable(array: Any) -> bool:
    return _is_traced(array) and jnp.issubdtype(array.dtype, jnp.inexact)
