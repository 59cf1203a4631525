"""Taps on cotangents: an identity that JAX differentiates by tapping what flows back through it."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.interpreters import ad, batching, mlir

from jaxmagic.core.jax_internals import Primitive
from jaxmagic.core.taps.delivery import Site
from jaxmagic.core.taps.transport import tap_p

_watch_p = Primitive("jaxmagic_gradient")


def watch_gradient(site: Site, value: Array, *, ordered: bool) -> Array:
    """`value` itself, whose cotangent is sent to `site` whenever one is computed.

    An identity, not a `custom_vjp`: forward-mode differentiation (`jvp`, `hessian`) goes through it too. Where the
    cotangent is zero by structure, nothing is sent.
    """
    return _watch_p.bind(value, site=site, lanes=(), ordered=ordered)


@_watch_p.def_impl
def _run(value: Any, **_: Any) -> Any:
    return value


@_watch_p.def_abstract_eval
def _type(value: Any, **_: Any) -> Any:
    return value


def _lower(_: Any, value: Any, **__: Any) -> list[Any]:
    return [value]


def _batch(operands: Sequence[Any], axes: Sequence[int], *, lanes: Any, **rest: Any) -> tuple[Any, int]:
    (value,), (axis,) = operands, axes
    front = jnp.moveaxis(value, axis, 0)
    return _watch_p.bind(front, lanes=(True, *lanes), **(rest | {"ordered": False})), 0


def _differentiate(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    (value,), (tangent,) = primals, tangents
    return value, tangent if isinstance(tangent, ad.Zero) else _watch_p.bind(tangent, **params)


def _transpose(cotangent: Any, _: Any, *, site: Site, lanes: Any, ordered: bool) -> list[Any]:
    if not isinstance(cotangent, ad.Zero):
        tap_p.bind(cotangent, site=site, lanes=(lanes,), kinds=("value",), ordered=ordered)
    return [cotangent]


mlir.register_lowering(_watch_p, _lower)
batching.primitive_batchers[_watch_p] = _batch
ad.primitive_jvps[_watch_p] = _differentiate
ad.primitive_transposes[_watch_p] = _transpose
