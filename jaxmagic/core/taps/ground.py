"""Where a tap may stand: what JAX is doing around the code that runs, and to which trace an array belongs."""

from typing import Any, Literal

import jax

from jaxmagic.core import jax_internals

Ground = Literal["python", "ordered", "unordered", "none"]
"""Outside of every trace; in one, where ordered effects are right; where they are not; where no effect may be."""

_NO_EFFECTS = ("reduce", "select_and", "scatter", "pallas")
"""Beginnings of the purposes of traces whose programs may hold no effect at all."""

_UNORDERED = ("vmap", "shard", "spmd", "map")


def ground() -> Ground:
    """What kind of tap is right for the code that runs now."""
    levels = jax_internals.trace_levels()
    if not levels:
        return "python"
    if any(level.purpose.startswith(_NO_EFFECTS) for level in levels):
        return "none"
    # JAX refuses ordered effects on several devices, and computes wrong results with them in vmapped while-loops.
    split = any(level.purpose.startswith(_UNORDERED) for level in levels)
    return "unordered" if split or jax.device_count() > 1 else "ordered"


def is_compiling() -> bool:
    """Whether what happens now becomes part of a program, so that concrete arrays around are its constants."""
    return any(level.name for level in jax_internals.trace_levels())


def belongs_here(tracer: Any) -> bool:
    """Whether a tracer is of the innermost program being traced, not one that an enclosing trace left behind.

    Staging a tracer of an outer trace would work today and fail when JAX reuses the inner trace elsewhere.
    """
    return jax_internals.is_of_current_program(tracer)
