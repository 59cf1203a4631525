"""`jax.experimental.host_callback`, which JAX removed in 2024, over the callbacks that took its place.

Functions run on the host with NumPy arrays, while the program runs, each time that it does; under vmap once for each
example. A value that depends on another comes after it; between others there is no order.
"""

import importlib.util
import sys
from collections.abc import Callable
from typing import Any, TextIO

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np

from jaxmagic.core import host_calls, jax_internals
from jaxmagic.core.host_calls import Function, HostCall, Use
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.source.positions import user_frame
from jaxmagic.core.source.spans import position

__all__ = ["barrier_wait", "call", "id_print", "id_tap"]

NAME = "jax.experimental.host_callback"

jax_internals.exclude_from_tracebacks(__file__)
jax_internals.exclude_from_tracebacks(host_calls.__file__)
_policy = Policy()


def call(callback_func: Callable[[Any], Any], arg: Any, *, result_shape: Any = None) -> Any:
    """Calls a function on the host with the value of `arg`; what it returns flows on.

    Under vmap the function is called once for each example. It can't be differentiated, nor stand inside of
    `jax.checkpoint`: give it `jax.lax.stop_gradient(x)`, or write a rule with `jax.custom_jvp`.

    Args:
        callback_func: Given the arrays of `arg` as NumPy arrays. It must not compute with JAX.
        arg: A pytree of arrays.
        result_shape: A pytree of arrays, scalars or `jax.ShapeDtypeStruct`, of the shapes and dtypes that the function
            returns; `()` for none. Left out, those of `arg`: then a function that returns None leaves the value.

    Returns:
        A pytree of the types of `result_shape`.

    Raises:
        NotImplementedError: It is differentiated.
        BadResult: At run time, the function returned another structure or shape, or a dtype that can't be converted.
    """
    host = _host("call", callback_func)
    arg = jax.tree.map(_undifferentiable, jax.tree.map(jnp.asarray, arg))
    shapes = jax.tree.map(_type_of, arg if result_shape is None else result_shape)

    def on_host(value: Any) -> Any:
        returned = host(value)
        return value if returned is None and result_shape is None else host.fitted(returned, shapes)

    return jax.experimental.io_callback(on_host, shapes, arg)


def id_tap(tap_func: Callable[[Any, Any], Any], arg: Any, *, result: Any = None) -> Any:
    """Calls `tap_func(arg, transforms)` on the host and goes on without it.

    Derivatives pass: the function sees the values of the forward pass.

    Args:
        tap_func: Given the arrays of `arg` as NumPy arrays, and `()`, where the names of transformations once were.
            What it returns is dropped.
        arg: A pytree of arrays.
        result: What to return instead of `arg`.

    Returns:
        `result` if it is given, else `arg`.
    """
    jax.debug.callback(_host("id_tap", tap_func, ()), arg)
    return arg if result is None else result


def id_print(arg: Any, *, result: Any = None, output_stream: TextIO | None = None, **what: Any) -> Any:
    """Prints a value while the program runs, after the keywords given: `id_print(x, what="x")`.

    Args:
        arg: A pytree of arrays.
        result: What to return instead of `arg`.
        output_stream: Where to print; `sys.stdout` if left out.
        **what: Printed in front, by name.

    Returns:
        `result` if it is given, else `arg`.
    """
    head = "  ".join(f"{name}: {value}" for name, value in sorted(what.items()))

    def show(value: Any) -> None:
        text = str(value) if isinstance(value, np.ndarray) else str(jax.tree.map(str, value))
        print("\n".join(filter(None, [head, text])), file=output_stream)

    jax.debug.callback(_host("id_print", show), arg)
    return arg if result is None else result


def barrier_wait(logging_name: str | None = None) -> None:
    """Waits until all host functions of the programs started so far have run."""
    _host("barrier_wait", str)
    jax.effects_barrier()


def __getattr__(name: str) -> Any:
    raise AttributeError(f"{NAME} was removed from JAX; of it, jaxmagic brings back {', '.join(__all__)}, not {name!r}")


def install() -> None:
    """Makes `jax.experimental.host_callback` importable; does nothing where JAX still has it."""
    if NAME not in sys.modules and importlib.util.find_spec(NAME) is None:
        sys.modules[NAME] = sys.modules[__name__]
        setattr(jax.experimental, "host_callback", sys.modules[__name__])  # noqa: B010 - JAX has no such name


def remove() -> None:
    """Takes it away again, if it is ours."""
    if sys.modules.get(NAME) is sys.modules[__name__]:
        del sys.modules[NAME]
        delattr(jax.experimental, "host_callback")


def _host(function: Function, callback: Callable[..., Any], *further: Any) -> HostCall:
    """The host function, with the place of the user's call, which is noted."""
    frame = user_frame(sys._getframe(2), _policy.is_user)
    if frame is None:
        return HostCall(callback, further, None, f"host_callback.{function}")
    span = position(frame)
    host_calls.note(Use(function, span))
    where = f"host_callback.{function} at line {span.line} of {frame.f_code.co_name}()"
    return HostCall(callback, further, span, where.replace("<module>()", "the cell"))


def _type_of(value: Any) -> jax.ShapeDtypeStruct:
    shape = value.shape if hasattr(value, "shape") else np.shape(value)
    dtype = value.dtype if hasattr(value, "dtype") else jnp.result_type(value)
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))


@jax.custom_jvp
def _undifferentiable(value: Any) -> Any:
    return value


@_undifferentiable.defjvp
def _refuse(primals: Any, tangents: Any) -> Any:
    raise NotImplementedError(
        "host_callback.call can't be differentiated: JAX can't look inside of a host function. "
        "Give it jax.lax.stop_gradient(x), or write a rule with jax.custom_jvp."
    )
