"""Wrappers around pieces of JAX: any number at once, taken off in any order, JAX's own back after the last one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from jaxmagic.core.jax_internals import PIECES, exclude_from_tracebacks

Wrapper = Callable[..., Any]
"""Called as `wrapper(inner, *args, **kwargs)`; `inner` is the piece, or the wrapper put on before."""

exclude_from_tracebacks(__file__)
_lock = threading.RLock()
_layers: dict[str, list[Wrapper]] = {}
_originals: dict[str, Any] = {}
_CACHE_METHODS = ("evict_weakref", "cache_clear", "cache_info", "cache_keys")


@contextmanager
def wrapped(key: str, wrapper: Wrapper) -> Iterator[None]:
    """Has every call of a piece go through `wrapper`, on all threads, until the block is left."""
    with _lock:
        piece = PIECES[key]
        if key not in _layers:
            _originals[key] = getattr(piece.owner, piece.name)
        _layers.setdefault(key, []).append(wrapper)
        _install(key)
    try:
        yield
    finally:
        with _lock:
            _layers[key].remove(wrapper)
            _install(key)


def _install(key: str) -> None:
    piece, original, layers = PIECES[key], _originals[key], _layers[key]
    setattr(piece.owner, piece.name, _chain(original, tuple(layers)) if layers else original)
    if not layers:
        del _layers[key], _originals[key]


def _chain(original: Any, layers: tuple[Wrapper, ...]) -> Any:
    inner = original
    for layer in layers:
        inner = partial(layer, inner)

    def piece(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # JAX hides its frames, and ours with them, for errors but not for an interrupt
        return inner(*args, **kwargs)

    # `f.clear_cache()` reaches for these on the functions that JAX caches.
    for name in _CACHE_METHODS:
        if hasattr(original, name):
            setattr(piece, name, getattr(original, name))
    return piece
