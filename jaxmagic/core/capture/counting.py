"""A look at every call that JAX dispatches in C++, at the place that JAX keeps for its NaN check."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jaxmagic.core.jax_internals import PIECES

CallHook = Callable[[Any, tuple, dict, Any], None]
"""Called with a jitted function, its arguments and its result; must not raise."""

_lock = threading.RLock()
_hooks: list[CallHook] = []
_place = PIECES["post_hook"]


@contextmanager
def after_each_call(hook: CallHook) -> Iterator[None]:
    """Calls `hook` after each call that takes JAX's fast path, eager operations included: less than 1 µs each.

    JAX goes on using the place: `jax.debug_nans` works as before, switched on before, meanwhile or after.
    """
    with _lock:
        _hooks.append(hook)
        _stand().renew()
    try:
        yield
    finally:
        with _lock:
            _hooks.remove(hook)
            _stand().renew()


class _Stand:
    """Stands in for JAX's own access to the place, so that its check comes behind our hooks."""

    def __init__(self, state: Any) -> None:
        self.state = state
        self._check = state.get_global()
        local = state.get_local()
        if local is None or callable(local):  # else it is not set on this thread, and the global one counts
            self.set_local(local)

    def set_global(self, check: Callable | None) -> None:
        self._check = check
        self.renew()

    def set_local(self, check: Callable | None) -> None:
        self.state.set_local(_Local(self.state.set_local, check))

    def renew(self) -> None:
        """Puts what should be there into the global place; leaves everything to JAX once there are no hooks."""
        self.state.set_global(_in_turn(tuple(_hooks), self._check))
        if not _hooks:
            setattr(_place.owner, _place.name, self.state)
            local = self.state.get_local()
            if isinstance(local, _Local):
                self.state.set_local(local.check)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.state, name)


def _stand() -> _Stand:
    state = getattr(_place.owner, _place.name)
    if not isinstance(state, _Stand):
        state = _Stand(state)
        setattr(_place.owner, _place.name, state)
    return state


def _in_turn(hooks: tuple[CallHook, ...], check: Callable | None) -> Callable | None:
    """One function for several; a single one is used as it is, since a microsecond counts here."""
    if check is None and len(hooks) < 2:
        return hooks[0] if hooks else None
    if not hooks:
        return check

    def each(fun: Any, args: tuple, kwargs: dict, out: Any) -> None:
        for hook in hooks:
            hook(fun, args, kwargs, out)
        if check is not None:
            check(fun, args, kwargs, out)

    return each


class _Local:
    """What is in the place of one thread: our hooks, then the check that JAX wants there."""

    def __init__(self, put: Callable[[Any], None], check: Callable | None) -> None:
        self._put = put
        self.check = check

    def __call__(self, fun: Any, args: tuple, kwargs: dict, out: Any) -> None:
        if not _hooks:
            self._put(self.check)  # left over on another thread, whose place only that thread can reach
        for hook in _hooks:
            hook(fun, args, kwargs, out)
        if self.check is not None:
            self.check(fun, args, kwargs, out)
