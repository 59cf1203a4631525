"""Tells taps in a vmapped `cond` which lanes take their branch: JAX computes every branch for every lane."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax.core
import numpy as np
from jax import lax

from jaxmagic.core import jax_internals
from jaxmagic.core.batchers import batched_by
from jaxmagic.core.jax_internals import Literal, cond_p
from jaxmagic.core.programs.parameters import opened
from jaxmagic.core.taps.descent import Extra, closed_like, has_tap, pass_down

_ACTIVE = jax.core.ShapedArray((), np.dtype(bool))
_INDEX = jax.core.ShapedArray((), np.dtype(np.int32))


@contextmanager
def marked_branches() -> Iterator[None]:
    """While it lasts, a `cond` that is vmapped with a predicate per lane says so to the taps inside of it."""
    with batched_by(_batch, (cond_p,)):
        yield


def _batch(rule: Any, _: Any, axis: Any, operands: Any, axes: Any, *, branches: Any, **parameters: Any) -> Any:
    index, *others = operands
    if axes[0] is not None and any(map(has_tap, branches)):
        branches = tuple(_told(branch, number) for number, branch in enumerate(branches))
        operands, axes = (index, *others, index), (*axes, axes[0])
    return rule(axis, operands, axes, branches=branches, **parameters)


def _told(branch: Any, number: int) -> Any:
    """The branch with the index as a further operand, from which its taps learn whether it is this branch."""
    index, active = jax_internals.new_variable(_INDEX), jax_internals.new_variable(_ACTIVE)
    told = pass_down(branch, [Extra(active, "active")], counting=False)
    jaxpr = opened(told)
    *own, passed = jaxpr.invars
    chosen = Literal(np.int32(number), _INDEX)
    asked = [jax_internals.new_equation(lax.eq_p, [index, chosen], passed, each) for each in jaxpr.eqns[:1]]
    jaxpr = jaxpr.replace(invars=[*own, index], eqns=[*asked, *jaxpr.eqns])
    return closed_like(told, jaxpr)
