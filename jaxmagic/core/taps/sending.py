"""From the tap to the host: what its lowering tests, reduces, packs and hands to a callback.

JAX's own `debug.callback` spends nearly all of its time on `device_put`; a bare callback is given numpy views.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.interpreters import mlir
from jaxlib.mlir.dialects import stablehlo

from jaxmagic.core import jax_internals
from jaxmagic.core.jax_internals import Primitive
from jaxmagic.core.taps.delivery import Delivery, Kind, Part, Site, TapStopped
from jaxmagic.core.taps.masks import running
from jaxmagic.core.taps.packing import is_worth_packing, layout_of, pack, widen
from jaxmagic.core.taps.summaries import reduce


def _effect(*, ordered: bool) -> Any:
    """The effect of `jax.debug.callback`, which JAX lets through loops, branches, remat and custom rules."""
    jaxpr = jax.make_jaxpr(lambda: jax.debug.callback(_nothing, ordered=ordered))()
    return next(iter(jaxpr.effects))


def _nothing() -> None:
    """Stands where a callback is needed that is never called."""


_UNORDERED = _effect(ordered=False)
_ORDERED = _effect(ordered=True)


def callback_effect(*, ordered: bool) -> Any:
    return _ORDERED if ordered else _UNORDERED


_send_p = Primitive("jaxmagic_send")
_send_p.multiple_results = True
_partition_p = Primitive("jaxmagic_partition")


def lower_tap(context: Any, *operands: Any, ordered: bool, site: Site, **params: Any) -> Any:
    """The lowering of the tap: whatever it takes to bring its values ashore."""
    where = context.module_context.axis_context
    ordered = ordered and site.gate is None
    way = _way(where, ordered=ordered)
    stage = functools.partial(_stage, site=site, ordered=ordered, way=way, devices=_devices(where), **params)
    return mlir.lower_fun(stage)(context, *operands)


def _stage(*operands: Array, site: Site, lanes: Any, kinds: tuple[Kind, ...], **how: Any) -> list[Any]:
    """What a tap becomes: test, reduce, pack, send; traced by the lowering."""
    chosen = {kind: [i for i, k in enumerate(kinds) if k == kind] for kind in ("value", "active", "loop")}
    values = [operands[i] for i in chosen["value"]]
    flags = [lanes[i] for i in chosen["value"]]
    extras = {kind: [operands[i] for i in chosen[kind]] for kind in ("active", "loop")}
    masks = tuple(lanes[i] for i in chosen["active"])
    send = functools.partial(_send, site, values, flags, extras, masks, **how)
    if site.gate is None:
        send()
        return []
    held = [
        site.gate.may_hold(value, sum(axes), running(axes, extras["active"], masks))
        for value, axes in zip(values, flags, strict=True)
    ]
    # The branch sits in the lowering, so that vmap never turns it into a select which sends in every lane.
    lax.cond(functools.reduce(jnp.logical_or, held), send, lambda: None)
    return []


def _send(
    site: Site,
    values: list[Array],
    lanes: list[tuple[bool, ...]],
    extras: dict[str, list[Array]],
    masks: tuple[tuple[bool, ...], ...],
    *,
    ordered: bool,
    way: str,
    devices: tuple[int, ...] | None,
) -> None:
    conditions = (*site.marks, site.gate) if site.gate else site.marks
    marks = [
        condition.holds(x, sum(axes), running(axes, extras["active"], masks))
        for condition in conditions
        for x, axes in zip(values, lanes, strict=True)
    ]
    parts, payload = [], [jnp.stack(marks)] if marks else []
    for value, axes in zip(values, lanes, strict=True):
        reduced = site.reduce_above is not None and value.size > site.reduce_above
        arrays = reduce(value) if reduced else (widen(value),)
        parts.append(Part(reduced, len(arrays), tuple(value.shape), np.dtype(value.dtype), axes))
        payload += arrays
    payload += extras["active"] + extras["loop"] + ([_partition_p.bind()] if devices else [])
    layout = layout_of(payload)
    packed = is_worth_packing(layout)
    delivery = Delivery(
        parts=tuple(parts),
        conditions=len(conditions),
        gated=site.gate is not None,
        active=masks,
        loops=len(extras["loop"]),
        devices=devices,
        layout=layout,
        packed=packed,
        way=way,
    )
    operands = [pack(payload)] if packed else payload
    _send_p.bind(*operands, deliver=_deliverer(site, delivery), ordered=ordered)


def _deliverer(site: Site, delivery: Delivery) -> Callable[..., tuple[()]]:
    receive = site.receive

    def deliver(*arrays: np.ndarray) -> tuple[()]:
        try:
            receive(site, delivery, arrays)
        except TapStopped:
            raise
        except Exception:  # noqa: BLE001 - only the circuit breaker may end the user's program
            pass
        return ()

    return deliver


def _after_token(deliver: Callable[..., tuple[()]]) -> Callable[..., tuple[Any]]:
    """For an ordered callback, which is given a token first and hands it back."""

    def deliver_in_order(token: Any, *arrays: np.ndarray) -> tuple[Any]:
        deliver(*arrays)
        return (token,)

    return deliver_in_order


@_send_p.def_effectful_abstract_eval
def _send_type(*_: Any, ordered: bool, **__: Any) -> tuple[list[Any], set[Any]]:
    return [], {_ORDERED if ordered else _UNORDERED}


def _lower_send(context: Any, *operands: Any, deliver: Callable[..., tuple[()]], ordered: bool) -> Any:
    if not _callback_fits(context.module_context.axis_context):
        # Laid out by the compiler over several devices: JAX knows where to place its own callback.
        return mlir.lower_fun(lambda *xs: _send_by_jax(deliver, xs))(context, *operands)
    results, emitted = _emit(context, deliver, operands, ordered=ordered)
    jax_internals.call_directly(context, emitted, _after_token(deliver) if ordered else deliver)
    return results


def lower_callback(context: Any, callback: Callable[..., Any], operands: Sequence[Any], *, ordered: bool) -> Any:
    """Calls `callback` with numpy views of the operands; it returns one array for each output of the equation."""
    return _emit(context, callback, operands, ordered=ordered)[0]


def _emit(context: Any, callback: Callable[..., Any], operands: Sequence[Any], *, ordered: bool) -> tuple[Any, Any]:
    """The results of a callback, and the function that JAX made of it."""
    token = context.tokens_in.get(_ORDERED) if ordered else None
    results, token, emitted = mlir.emit_python_callback(
        context, callback, token, list(operands), context.avals_in, context.avals_out, has_side_effect=True
    )
    if ordered:
        context.set_tokens_out(context.tokens_in.update_tokens(mlir.TokenSet({_ORDERED: token})))
    return results, emitted


def _send_by_jax(deliver: Callable[..., tuple[()]], arrays: Sequence[Array]) -> list[Any]:
    def callback(*values: Any) -> None:
        deliver(*map(np.asarray, values))

    jax.debug.callback(callback, *arrays)
    return []


def _callback_fits(where: Any) -> bool:
    """Whether a plain callback may stand here: on one device, or where the user's code is per device."""
    if isinstance(where, mlir.ShardingContext):
        return where.num_devices == 1
    return isinstance(where, mlir.SPMDAxisContext) and set(where.manual_axes) == set(where.mesh.axis_names)


def _way(where: Any, *, ordered: bool) -> str:
    if not _callback_fits(where):
        return "jax.debug.callback, since the program is laid out over several devices"
    if isinstance(where, mlir.SPMDAxisContext):
        return "one callback per device, unordered"
    return "one callback per frame, in program order" if ordered else "one callback per frame, unordered"


def _devices(where: Any) -> tuple[int, ...] | None:
    """Ids of the devices that run this code each on its own, in partition order; None where there is one program."""
    if not isinstance(where, mlir.SPMDAxisContext) or not _callback_fits(where):
        return None
    devices = getattr(where.mesh, "devices", None)
    return tuple(range(where.mesh.size)) if devices is None else tuple(int(device.id) for device in devices.flat)


@_partition_p.def_abstract_eval
def _partition_type() -> Any:
    return jax.core.ShapedArray((), np.dtype(np.uint32))


def _lower_partition(context: Any) -> Any:
    return [stablehlo.partition_id()]


mlir.register_lowering(_send_p, _lower_send)
mlir.register_lowering(_partition_p, _lower_partition)
