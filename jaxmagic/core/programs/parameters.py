"""Parameters and literals of equations as short text, and the jaxprs among the parameters."""

import enum
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from jaxmagic.records import Aval

MOST_CHARACTERS = 400
"""Of the parameters of one equation."""

_MOST_OF_ONE = 160
_MOST_PARTS = 24
_DEEPEST = 6
_EMPTY = ("", "()", "None", "False")


class Inner(NamedTuple):
    """A jaxpr found in a parameter."""

    kind: str
    """`scan body`, `cond branch 0`, …: see `Region.kind`."""
    jaxpr: Any
    """Open or closed."""


_KINDS = {
    ("while", "cond_jaxpr"): "while condition",
    ("while", "body_jaxpr"): "while body",
    ("scan", "jaxpr"): "scan body",
    ("cond", "branches"): "cond branch",
    ("pjit", "jaxpr"): "jit",
    ("checkpoint", "jaxpr"): "remat",
    ("remat2", "jaxpr"): "remat",
    ("custom_jvp_call", "call_jaxpr"): "custom_jvp",
    ("custom_vjp_call", "call_jaxpr"): "custom_vjp",
    ("custom_vjp_call_jaxpr", "fun_jaxpr"): "custom_vjp",
    ("custom_linear_solve", "jaxprs"): "linear solve",
    ("pallas_call", "jaxpr"): "pallas kernel",
    ("xla_pmap", "call_jaxpr"): "pmap",
}

CALLS = (
    "closed_call",
    "core_call",
    "checkpoint",
    "remat",
    "remat2",
    "custom_jvp_call",
    "custom_vjp_call",
    "eval_jaxpr",
)
"""Primitives whose operands are those of the one jaxpr in their parameters."""

_NOISE = {
    "compiler_options_kvs",
    "ctx_mesh",
    "ft_in",
    "ft_out",
    "in_layouts",
    "in_tree",
    "inline",
    "keep_unused",
    "out_layouts",
    "out_tree",
    "out_trees",
    "np_printoptions",
    "static_args",
    "update_consts",
}
"""Bookkeeping of JAX that says nothing about the computation."""


def inner_jaxprs(primitive: str, params: Mapping[str, Any]) -> list[Inner]:
    """Every jaxpr among the parameters of an equation, in the order of the parameters."""
    found = []
    for key, value in params.items():
        if isinstance(value, tuple | list):
            found += _jaxprs_in(primitive, key, value)
        elif is_jaxpr(value):
            found.append(Inner(_kind(primitive, key), value))
    return found


def _jaxprs_in(primitive: str, key: str, values: tuple | list) -> list[Inner]:
    found = [(place, part) for place, part in enumerate(values) if is_jaxpr(part)]
    names = getattr(values, "_fields", None) if found else None
    return [Inner(f"{_kind(primitive, key)} {names[place] if names else place}", part) for place, part in found]


def is_jaxpr(value: Any) -> bool:
    """Whether it is a jaxpr, open or closed."""
    if type(value) in _PLAIN:  # most parameters, and asking them for attributes is slow
        return False
    return hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns")


def opened(jaxpr: Any) -> Any:
    """The jaxpr without its constants' values; JAX 0.12 has one class for both."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def _kind(primitive: str, key: str) -> str:
    named = _KINDS.get((primitive, key))
    if named is None:
        role = key.removesuffix("jaxpr").rstrip("_")
        named = f"{primitive} {role}" if role not in ("", "call") else primitive
    return named


def parameters_text(params: Mapping[str, Any]) -> str:
    """Parameters as `axes=(1,), length=10`: regions, functions, unset options and bookkeeping left out."""
    parts = []
    for key, value in params.items():
        if key in _NOISE or _is_unset(value):
            continue
        text = _spelled(value)
        if text:
            parts.append(f"{key}={shortened(text, _MOST_OF_ONE)}")
    return shortened(", ".join(parts), MOST_CHARACTERS)


def _is_unset(value: Any) -> bool:
    if value is None or value is False or type(value).__name__ == "UnspecifiedValue":
        return True
    return isinstance(value, tuple) and bool(value) and all(_is_unset(part) for part in value)


def _spelled(value: Any, depth: int = 0) -> str:
    """Text of one parameter, empty for what isn't shown. Never runs a user class's `repr`."""
    plain = _PLAIN.get(type(value))
    if plain is not None:
        return plain(value)
    if isinstance(value, PartitionSpec):  # a tuple on some versions
        return f"P({', '.join(map(repr, value))})"
    if isinstance(value, tuple | list | dict | frozenset | set):
        return _spelled_container(value, depth)
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, np.dtype | np.generic):
        return str(value)
    if isinstance(value, np.ndarray | jax.Array):
        return f"{value.dtype}{list(value.shape)}"
    return _spelled_object(value)


_PLAIN: dict[type, Callable[[Any], str]] = {
    type(None): repr,
    bool: repr,
    int: repr,
    float: repr,
    complex: repr,
    str: lambda text: repr(shortened(text, _MOST_OF_ONE)),
    bytes: lambda data: f"<{len(data)} bytes>",
}


def _spelled_container(value: Any, depth: int) -> str:
    if depth >= _DEEPEST:
        return "…"
    if isinstance(value, dict):
        pairs = (f"{_spelled(key, depth + 1)}: {_spelled(part, depth + 1)}" for key, part in value.items())
        return f"{{{_joined(pairs)}}}"
    if any(is_jaxpr(part) for part in value):
        return ""
    if hasattr(value, "_fields"):
        return _spelled_fields(value, depth)
    inside = _joined(_spelled(part, depth + 1) for part in value)
    if isinstance(value, list):
        return f"[{inside}]"
    if isinstance(value, tuple):
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return f"{{{inside}}}"


def _spelled_fields(value: Any, depth: int) -> str:
    texts = ((name, _spelled(part, depth + 1)) for name, part in zip(value._fields, value, strict=True))
    return f"{type(value).__name__}({_joined(f'{name}={text}' for name, text in texts if text not in _EMPTY)})"


def _joined(parts: Iterable[str]) -> str:
    texts = list(islice(parts, _MOST_PARTS + 1))
    return ", ".join([*texts[:_MOST_PARTS], "…"] if len(texts) > _MOST_PARTS else texts)


def _spelled_object(value: Any) -> str:
    if isinstance(value, NamedSharding):
        return _spelled(value.spec)
    if isinstance(value, type):
        return value.__name__
    if callable(value) or is_jaxpr(value) or type(value).__name__ in ("PyTreeDef", "WrappedFun", "DebugInfo"):
        return ""
    if type(value).__module__.partition(".")[0] in ("jax", "jaxlib"):
        return shortened(" ".join(str(value).split()), _MOST_OF_ONE)
    return f"<{type(value).__name__}>"


def literal_text(value: Any, aval: Aval) -> str:
    """A literal as JAX prints it, `2.0:f32[]`; an array as its type alone."""
    if aval.shape or isinstance(value, jax.Array):
        return f"…:{aval}"
    number = np.asarray(value).item()
    text = f"{number:.7g}" if isinstance(number, float) else repr(number)
    return f"{text}.0:{aval}" if isinstance(number, float) and text.lstrip("-").isdigit() else f"{text}:{aval}"


def shortened(text: str, most: int) -> str:
    """The text, its end cut off beyond `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
