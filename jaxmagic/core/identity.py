"""The same function under a new identity, so that JAX traces it afresh and its own caches stay as they were."""

import functools
from collections.abc import Callable
from typing import Any

from jaxmagic.core.jax_internals import exclude_from_tracebacks

exclude_from_tracebacks(__file__)


def fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    """A new function that calls `function`; it misses every cache of JAX, and what it leaves there dies with it."""

    def again(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    try:
        return functools.update_wrapper(again, function)
    except Exception:  # noqa: BLE001 - a callable object may compute its attributes
        again.__wrapped__ = function  # pyright: ignore[reportFunctionMemberAccess]
        return again
