"""Hands a value to a host function and lets what it returns flow on, as `host_callback.call` did."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.interpreters import ad, batching, mlir

from jaxmagic.core.jax_internals import Primitive
from jaxmagic.core.placed import Placed
from jaxmagic.core.taps.sending import callback_effect, lower_callback
from jaxmagic.records import Frame

_exchange_p = Primitive("jaxmagic_exchange")


class BadReturn(Placed):
    """The host function returned something that cannot stand in for the value."""


@dataclass(frozen=True, eq=False)
class Host:
    """A function on the host that sees each value."""

    label: str
    """For messages: `x f32[3] at line 4 of step()`."""
    function: Callable[[np.ndarray], Any]
    """What it returns replaces the value; None leaves it. It must not compute with JAX, which would deadlock."""
    place: Frame | None
    """The user's line that gave the value its name."""
    failed: Callable[[BaseException], None]
    """Is told of an exception, which XLA would otherwise lose."""
    differentiated: Callable[[], None]
    """Is told when a gradient ends here that the plain program has."""


def exchange(host: Host, value: Array, *, ordered: bool) -> Array:
    """The value that the host function returns instead; of the same shape and dtype.

    Under vmap the function is called once for each lane. To differentiation the result is a constant: its gradient
    with respect to `value` is zero, since JAX can't look inside of the host function.
    """
    return _exchange_p.bind(value, host=host, lanes=0, ordered=ordered)


@_exchange_p.def_effectful_abstract_eval
def _type(value: Any, *, ordered: bool, **_: Any) -> tuple[Any, set[Any]]:
    return value, {callback_effect(ordered=ordered)}


@_exchange_p.def_impl
def _run(value: Any, *, host: Host, lanes: int, **_: Any) -> Any:
    return jnp.asarray(_call(host, lanes, np.asarray(value)))


def _batch(operands: Sequence[Any], axes: Sequence[int], *, lanes: int, **rest: Any) -> tuple[Any, int]:
    front = jnp.moveaxis(operands[0], axes[0], 0)
    return _exchange_p.bind(front, lanes=lanes + 1, **(rest | {"ordered": False})), 0


def _differentiate(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    if not isinstance(tangents[0], ad.Zero):
        params["host"].differentiated()
    result = _exchange_p.bind(*primals, **params)
    aval: Any = jax.typeof(result)
    return result, ad.Zero(aval.to_tangent_aval())


def _lower(context: Any, value: Any, *, host: Host, lanes: int, ordered: bool) -> Any:
    def callback(array: np.ndarray) -> tuple[np.ndarray]:
        return (_call(host, lanes, np.asarray(array)),)

    return lower_callback(context, callback, [value], ordered=ordered)


def _call(host: Host, lanes: int, value: np.ndarray) -> np.ndarray:
    """The function applied to each lane.

    Raises:
        BadReturn: what it returned has another shape, or a dtype that can't be converted.
    """
    result = value.copy()
    try:
        for lane in np.ndindex(*value.shape[:lanes]):
            returned = host.function(value[lane].copy())
            if returned is not None:
                result[lane] = _fitting(host, np.asarray(returned), value[lane])
    except BaseException as error:
        if not isinstance(error, Placed):
            error.add_note(f"in the host function that was given {host.label}")
        host.failed(error)
        raise
    return result


def _fitting(host: Host, returned: np.ndarray, value: np.ndarray) -> np.ndarray:
    if returned.shape != value.shape:
        raise BadReturn(_misfit(host, "shape", returned.shape, value.shape), host.place)
    if not np.can_cast(returned.dtype, value.dtype, "same_kind"):
        raise BadReturn(_misfit(host, "dtype", returned.dtype, value.dtype), host.place)
    return returned.astype(value.dtype)


def _misfit(host: Host, what: str, returned: Any, needed: Any) -> str:
    return f"the host function returned {what} {returned} for {host.label}, not {needed}"


mlir.register_lowering(_exchange_p, _lower)
batching.primitive_batchers[_exchange_p] = _batch
ad.primitive_jvps[_exchange_p] = _differentiate
