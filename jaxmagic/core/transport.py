"""The tap: a primitive of our own that hands values of a running program to the host, under every transformation.

The primitive keeps no state and its callbacks hand over numpy views, which is what makes it 10 to 20 times cheaper
than `jax.debug.callback`. What is reduced, packed or held back is decided in its lowering, where no transformation
can see it.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe

from jaxmagic.core.conditions import Condition
from jaxmagic.core.delivery import Delivery, Part, Stop
from jaxmagic.core.packing import is_worth_packing, layout_of, pack, widen
from jaxmagic.core.summaries import reduce

Kind = Literal["value", "anchor", "active", "loop"]
"""What an operand of the tap is: sent; only there to tie the tap to its loop; which lanes run; a loop's counter."""


class Receiver(Protocol):
    def __call__(self, site: "Site", delivery: Delivery, arrays: Sequence[np.ndarray]) -> None:
        """Takes what arrived. `arrays` are views that die with the call; it may run on any thread."""


@dataclass(frozen=True, eq=False)
class Site:
    """Where values leave the program. A static parameter of the tap, compared by identity."""

    label: str
    receive: Receiver = field(repr=False)
    reduce_above: int | None = None
    """Values of more elements are reduced on the device; None never reduces."""
    gate: Condition | None = None
    """Nothing is sent unless it holds for one of the values."""
    marks: tuple[Condition, ...] = ()
    """Tested for each value and sent along with it."""

    def __repr__(self) -> str:
        return f"Site({self.label})"


def _effect(*, ordered: bool) -> Any:
    """The effect of `jax.debug.callback`, which JAX lets through loops, branches, remat and custom rules."""
    jaxpr = jax.make_jaxpr(lambda: jax.debug.callback(_nothing, ordered=ordered))()
    return next(iter(jaxpr.effects))


def _nothing() -> None:
    """Stands where a callback is needed that is never called."""


_UNORDERED = _effect(ordered=False)
_ORDERED = _effect(ordered=True)

tap_p = jax.extend.core.Primitive("jaxmagic_tap")
tap_p.multiple_results = True
_send_p = jax.extend.core.Primitive("jaxmagic_send")
_send_p.multiple_results = True
_partition_p = jax.extend.core.Primitive("jaxmagic_partition")


def tap(site: Site, values: Sequence[Array], *, anchors: Sequence[Array] = (), ordered: bool = False) -> None:
    """Stages a tap into the current trace, or delivers at once where there is none.

    Args:
        site: who receives the values.
        values: traced or concrete arrays of any shape and dtype; typed PRNG keys travel as their key data.
        anchors: arrays that change with every iteration of the loop around the tap. They are not sent; they keep JAX
            from moving the tap of a loop invariant out of a differentiated scan.
        ordered: in program order with all other ordered taps; for one device only.
    """
    operands = [_unlocked(value) for value in (*values, *anchors)]
    kinds: tuple[Kind, ...] = ("value",) * len(values) + ("anchor",) * len(anchors)
    tap_p.bind(*operands, site=site, lanes=((),) * len(operands), kinds=kinds, ordered=ordered)


def _unlocked(value: Array) -> Array:
    return jax.random.key_data(value) if jnp.issubdtype(value.dtype, jax.dtypes.prng_key) else value


# ------------------------------------------------------------------------------------ transformations


@tap_p.def_effectful_abstract_eval
def _tap_type(*_: Any, ordered: bool, site: Site, **__: Any) -> tuple[list[Any], set[Any]]:
    return [], {_ORDERED if ordered and site.gate is None else _UNORDERED}


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


# ------------------------------------------------------------------------------------------- lowering


def _lower_tap(context: Any, *operands: Any, ordered: bool, site: Site, **params: Any) -> Any:
    where = context.module_context.axis_context
    ordered = ordered and site.gate is None
    stage = functools.partial(_stage, site=site, ordered=ordered, devices=_devices(where), **params)
    return mlir.lower_fun(stage)(context, *operands)


def _stage(
    *operands: Array, site: Site, lanes: Any, kinds: tuple[Kind, ...], ordered: bool, devices: tuple[int, ...] | None
) -> list[Any]:
    """What a tap becomes: test, reduce, pack, send; traced by the lowering."""
    chosen = {kind: [i for i, k in enumerate(kinds) if k == kind] for kind in ("value", "active", "loop")}
    values = [operands[i] for i in chosen["value"]]
    flags = [lanes[i] for i in chosen["value"]]
    extras = {kind: [operands[i] for i in chosen[kind]] for kind in ("active", "loop")}
    send = functools.partial(_send, site, values, flags, extras, ordered, devices)
    if site.gate is None:
        send()
        return []
    held = [site.gate.may_hold(value, sum(axes)) for value, axes in zip(values, flags, strict=True)]
    # The branch sits in the lowering, so that vmap never turns it into a select which sends in every lane.
    lax.cond(functools.reduce(jnp.logical_or, held), send, lambda: None)
    return []


def _send(
    site: Site,
    values: list[Array],
    lanes: list[tuple[bool, ...]],
    extras: dict[str, list[Array]],
    ordered: bool,
    devices: tuple[int, ...] | None,
) -> None:
    conditions = (*site.marks, site.gate) if site.gate else site.marks
    marks = [condition.holds(x, sum(axes)) for condition in conditions for x, axes in zip(values, lanes, strict=True)]
    parts, payload = [], [jnp.stack(marks)] if marks else []
    for value, axes in zip(values, lanes, strict=True):
        reduced = site.reduce_above is not None and value.size > site.reduce_above
        arrays = reduce(value) if reduced else (widen(value),)
        parts.append(Part(reduced, len(arrays), tuple(value.shape), np.dtype(value.dtype), sum(axes)))
        payload += arrays
    payload += extras["active"] + extras["loop"] + ([_partition_p.bind()] if devices else [])
    layout = layout_of(payload)
    packed = is_worth_packing(layout)
    delivery = Delivery(
        parts=tuple(parts),
        conditions=len(conditions),
        gated=site.gate is not None,
        active=len(extras["active"]),
        loops=len(extras["loop"]),
        devices=devices,
        packed=layout if packed else None,
        bytes=sum(array.size * array.dtype.itemsize for array in payload),
    )
    operands = [pack(payload)] if packed else payload
    _send_p.bind(*operands, deliver=_deliverer(site, delivery), ordered=ordered)


def _deliverer(site: Site, delivery: Delivery) -> Callable[..., tuple[()]]:
    receive = site.receive

    def deliver(*arrays: np.ndarray) -> tuple[()]:
        try:
            receive(site, delivery, arrays)
        except Stop:
            raise
        except Exception:  # noqa: BLE001 - only the circuit breaker may end the user's program
            pass
        return ()

    return deliver


@_send_p.def_effectful_abstract_eval
def _send_type(*_: Any, ordered: bool, **__: Any) -> tuple[list[Any], set[Any]]:
    return [], {_ORDERED if ordered else _UNORDERED}


def _lower_send(context: Any, *operands: Any, deliver: Callable[..., tuple[()]], ordered: bool) -> Any:
    if not _callback_fits(context.module_context.axis_context):
        # Laid out by the compiler over several devices: JAX knows where to place its own callback.
        return mlir.lower_fun(lambda *xs: _send_by_jax(deliver, xs))(context, *operands)
    token = context.tokens_in.get(_ORDERED) if ordered else None
    results, token, _ = mlir.emit_python_callback(
        context, deliver, token, list(operands), context.avals_in, context.avals_out, has_side_effect=True
    )
    if ordered:
        context.set_tokens_out(context.tokens_in.update_tokens(mlir.TokenSet({_ORDERED: token})))
    return results


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


mlir.register_lowering(tap_p, _lower_tap)
mlir.register_lowering(_send_p, _lower_send)
mlir.register_lowering(_partition_p, _lower_partition)


# ---------------------------------------------------------------------------------------------- eager


@tap_p.def_impl
def _deliver_now(*operands: Any, site: Site, lanes: Any, kinds: tuple[Kind, ...], **_: Any) -> list[Any]:
    """Outside every trace: the same payload, computed at once."""
    at = [i for i, kind in enumerate(kinds) if kind == "value"]
    values = [jnp.asarray(operands[i]) for i in at]
    conditions = (*site.marks, site.gate) if site.gate else site.marks
    marks = [condition.holds(x, sum(lanes[i])) for condition in conditions for i, x in zip(at, values, strict=True)]
    parts, payload = [], [np.asarray(marks)] if marks else []
    for i, value in zip(at, values, strict=True):
        reduced = site.reduce_above is not None and value.size > site.reduce_above
        arrays = _reduce_now(value) if reduced else (value,)
        parts.append(Part(reduced, len(arrays), tuple(value.shape), np.dtype(value.dtype), sum(lanes[i])))
        payload += [np.asarray(array) for array in arrays]
    size = sum(array.nbytes for array in payload)
    delivery = Delivery(tuple(parts), len(conditions), gated=site.gate is not None, bytes=size)
    site.receive(site, delivery, payload)
    return []


_reduce_now = jax.jit(reduce)
