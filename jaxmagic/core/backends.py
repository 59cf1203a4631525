"""Backends and devices by the names users type."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax


def device(name: str) -> Any:
    """The device meant by `cpu`, `gpu`, `tpu` or `cpu:1`.

    Raises:
        ValueError: No such backend or device here; the message lists what is there.
    """
    platform, _, index = name.partition(":")
    try:
        return jax.devices(platform)[int(index or 0)]
    except (RuntimeError, IndexError, ValueError):
        raise ValueError(f"no device {name!r} here; there is {', '.join(available())}") from None


def available() -> tuple[str, ...]:
    """Every device of this process, as `device` takes them: `cpu:0`, `gpu:0`, …"""
    found: dict[str, None] = {}
    for platform in (jax.default_backend(), "cpu", "gpu", "tpu"):
        try:
            devices = jax.devices(platform)
        except RuntimeError:
            continue
        found.update(dict.fromkeys(f"{one.platform}:{number}" for number, one in enumerate(devices)))
    return tuple(found)


def selected(name: str | None) -> AbstractContextManager[Any]:
    """Puts new arrays and computations on the named device for a while; on the default one for None.

    Raises:
        ValueError: As `device`.
    """
    return nullcontext() if name is None else jax.default_device(device(name))
