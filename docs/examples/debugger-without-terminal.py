import io
import sys

import jax

sys.stdin = io.StringIO("")  # as in a notebook


@jax.jit
def f(x):
    jax.debug.breakpoint(backend="cli")
    return x


f(1.0)
