"""The tap: a primitive of our own that hands values of a running program to the host, under every transformation.

The primitive keeps no state and its callbacks hand over numpy views, which is what makes it 10 to 20 times cheaper
than `jax.debug.callback`. What is reduced, packed or held back is decided in its lowering, where no transformation
can see it.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe

from jaxmagic.core.aside import aside
from jaxmagic.core.jax_internals import Primitive
from jaxmagic.core.taps.delivery import Delivery, Kind, Part, Site
from jaxmagic.core.taps.masks import running
from jaxmagic.core.taps.packing import Layout, layout_of
from jaxmagic.core.taps.sending import callback_effect, lower_tap
from jaxmagic.core.taps.summaries import reduce

tap_p = Primitive("jaxmagic_tap")
tap_p.multiple_results = True


def tap(site: Site, values: Sequence[Array], *, anchors: Sequence[Array] = (), ordered: bool = False) -> None:
    """Stages a tap into the current trace, or delivers at once where there is none.

    Args:
        site: who receives the values.
        values: traced or concrete arrays of any shape and dtype; typed PRNG keys travel as their key data.
        anchors: arrays that change with every iteration of the loop around the tap. They are not sent; they keep JAX
            from moving the tap of a loop invariant out of a differentiated scan.
        ordered: in program order with all other ordered taps; for one device only.
    """
    operands = [unlocked(value) for value in (*values, *anchors)]
    kinds: tuple[Kind, ...] = ("value",) * len(values) + ("anchor",) * len(anchors)
    tap_p.bind(*operands, site=site, lanes=((),) * len(operands), kinds=kinds, ordered=ordered)


def unlocked(value: Array) -> Array:
    return jax.random.key_data(value) if jnp.issubdtype(value.dtype, jax.dtypes.prng_key) else value


# ------------------------------------------------------------------------------------ transformations


@tap_p.def_effectful_abstract_eval
def _tap_type(*_: Any, ordered: bool, site: Site, **__: Any) -> tuple[list[Any], set[Any]]:
    return [], {callback_effect(ordered=ordered and site.gate is None)}


def _batch(operands: Any, axes: Any, *, lanes: Any, ordered: bool, **rest: Any) -> tuple[list[Any], list[Any]]:
    """All lanes in one event. Never ordered: an ordered effect in the condition of a batched while-loop makes JAX 0.8
    to 0.12 compute wrong results (finished lanes go on).
    """
    front = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(operands, axes, strict=True)]
    inside = tuple((axis is not None, *flags) for axis, flags in zip(axes, lanes, strict=True))
    tap_p.bind(*front, lanes=inside, ordered=False, **rest)
    return [], []


def _differentiate(primals: Any, _: Any, **params: Any) -> tuple[list[Any], list[Any]]:
    return tap_p.bind(*primals, **params), []


def _transpose(_: Any, *operands: Any, **__: Any) -> list[None]:
    return [None] * len(operands)


def _rematerialize(_: Any, unknown: Sequence[bool], instantiated: Sequence[bool], equation: Any) -> tuple[Any, ...]:
    """Taps the forward pass, not its repetition."""
    if any(unknown):
        needed = [v for v, there in zip(equation.invars, instantiated, strict=True) if not there]
        return None, equation, [], [], needed
    return equation, None, [], [], []


batching.primitive_batchers[tap_p] = _batch
ad.primitive_jvps[tap_p] = _differentiate
ad.primitive_transposes[tap_p] = _transpose
pe.partial_eval_jaxpr_custom_rules[tap_p] = _rematerialize
mlir.register_lowering(tap_p, lower_tap)


# ---------------------------------------------------------------------------------------------- eager


@tap_p.def_impl
def _deliver_now(*operands: Any, site: Site, lanes: Any, kinds: tuple[Kind, ...], **_: Any) -> list[Any]:
    """Outside every trace: the same payload, computed at once."""
    with aside():
        _deliver(operands, site, lanes, kinds)
    return []


def _deliver(operands: Any, site: Site, lanes: Any, kinds: tuple[Kind, ...]) -> None:
    at = [i for i, kind in enumerate(kinds) if kind == "value"]
    masks = [i for i, kind in enumerate(kinds) if kind == "active"]
    values = [jnp.asarray(operands[i]) for i in at]
    conditions = (*site.marks, site.gate) if site.gate else site.marks
    active = [jnp.asarray(operands[i]) for i in masks]
    marks = [
        condition.holds(x, sum(lanes[i]), running(lanes[i], active, [lanes[m] for m in masks]))
        for condition in conditions
        for i, x in zip(at, values, strict=True)
    ]
    parts, payload = [], [np.asarray(marks)] if marks else []
    for i, value in zip(at, values, strict=True):
        reduced = site.reduce_above is not None and value.size > site.reduce_above
        arrays = _reduce_now(value) if reduced else (value,)
        parts.append(Part(reduced, len(arrays), tuple(value.shape), np.dtype(value.dtype), lanes[i]))
        payload += [np.asarray(array) for array in arrays]
    payload += map(np.asarray, active)
    axes, layout = tuple(lanes[i] for i in masks), layout_of(payload)
    site.receive(site, _delivered_now(tuple(parts), len(conditions), site.gate is not None, axes, layout), payload)


@lru_cache(1024)
def _delivered_now(parts: tuple[Part, ...], conditions: int, gated: bool, active: Any, layout: Layout) -> Delivery:
    """The same object for events that are laid out alike."""
    return Delivery(parts, conditions, gated, active, layout=layout, way="read at once")


_reduce_now = jax.jit(reduce)
