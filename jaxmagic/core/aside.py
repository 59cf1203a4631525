"""Computations of our own, told from the user's by those who watch what runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_local = threading.local()


@contextmanager
def aside() -> Iterator[None]:
    """What this thread computes meanwhile is not the user's."""
    before, _local.aside = is_aside(), True
    try:
        yield
    finally:
        _local.aside = before


def is_aside() -> bool:
    return getattr(_local, "aside", False)
