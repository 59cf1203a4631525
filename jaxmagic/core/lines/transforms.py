"""Under which transformations code runs right now, in words."""

from jaxmagic.core import jax_internals

_WORDS = {
    "scan": "scan body",
    "while_cond": "while condition",
    "while_body": "while body",
    "fori_loop": "fori_loop body",
    "cond": "cond branch",
    "switch": "switch branch",
    "checkpoint / remat": "remat",
    "custom_vjp fun": "custom_vjp",
    "custom_jvp fun": "custom_jvp",
}
"""What JAX calls a trace in its debugging information, where we say it otherwise."""


def transforms() -> tuple[str, ...]:
    """The transformations around the code that runs, innermost first; empty outside of any.

    Example:
        >>> jax.jit(jax.vmap(step))(xs)  # inside of step
        ('vmap ×32', 'jit step')
    """
    return tuple(_word(level) for level in jax_internals.trace_levels())


def is_tracing() -> bool:
    """Whether primitives bound now are recorded or transformed, not run."""
    return bool(jax_internals.trace_levels())


def _word(level: jax_internals.Level) -> str:
    if level.purpose == "jit":
        return f"jit {level.name}"
    if level.size is not None:
        return f"{level.purpose} ×{level.size}"
    if level.axes:
        return " ".join([level.purpose, *(f"{name}={size}" if name else f"×{size}" for name, size in level.axes)])
    return _WORDS.get(level.purpose, level.purpose)
