"""What JAX's trace cache looks at in a call, as text: avals by argument path, static values, spelling, options."""

import enum
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any

import jax
import msgspec
import numpy as np

from jaxmagic.core import jax_internals
from jaxmagic.core.lines.values import aval_from
from jaxmagic.records import Argument, Aval

_LONGEST = 80
_IMMEDIATE = (int, float, complex, bool, str, bytes, type(None), type(...), np.dtype, np.generic)


class Tree(msgspec.Struct, frozen=True):
    """The structure of one argument."""

    text: str
    """Types of its nodes, leaves as `*`."""
    hash: int
    """Tells apart trees whose nodes hold other static data, which may be anything and is never printed."""


class Signature(msgspec.Struct, frozen=True):
    """One key of the trace cache."""

    arrays: dict[str, Aval]
    statics: dict[str, str]
    keywords: frozenset[str]
    """Arguments given by keyword."""
    trees: tuple["Tree", ...]
    """Of the arrays in each argument, those given by keyword last; empty where it isn't known."""
    jit: dict[str, str]
    """Options given to `jax.jit`."""
    options: dict[str, str]
    """`jax.config` and context managers that take part in tracing."""


def signature_of(arguments: tuple[Argument, ...], params: Any, info: Any, args: tuple, kwargs: dict) -> Signature:
    """The key of a call that JAX has just looked up; `params` is JAX's `PjitParams`."""
    positional = [args[i] for i in range(len(args)) if i not in info.static_argnums]
    named = [value for name, value in kwargs.items() if name not in info.static_argnames]
    return Signature(
        arrays={each.name: each.aval for each in arguments if each.aval is not None},
        statics={each.name: each.static for each in arguments if each.aval is None},
        keywords=frozenset(kwargs),
        trees=_trees(params.in_tree, len(positional) + len(named)),
        jit=jit_options(info),
        options={name: text for name, value in jax_internals.trace_context().items() if (text := spelled(value))},
    )


def signature_from(
    earlier: jax_internals.Earlier, names: tuple[str, ...], statics: dict[str, str] | None = None
) -> Signature:
    """The key of a trace that JAX holds.

    Args:
        earlier: What JAX says of it.
        names: Argument paths, of this call or of another one of the same function.
        statics: Static arguments; as JAX has them, if None.
    """
    avals = earlier.avals
    if len(names) != len(avals):
        names = _earlier_names(earlier)
    parts = jax_internals.named_context(earlier.context)
    keywords = (*earlier.signature.dynamic_arg_names, *earlier.signature.static_arg_names)
    return Signature(
        arrays=dict(zip(names, map(aval_from, avals), strict=True)),
        statics=_earlier_statics(earlier) if statics is None else statics,
        keywords=frozenset(keywords),
        trees=tuple(map(_tree, earlier.signature.dynamic_arg_treedefs)),
        jit=jit_options(earlier.info),
        options={name: text for name, value in parts.items() if (text := spelled(value))},
    )


def static_arguments(info: Any, args: tuple, kwargs: Mapping[str, Any]) -> tuple[Argument, ...]:
    """The static arguments of a call, by the names in the function's signature."""
    found = [(position_name(info, i), args[i]) for i in info.static_argnums if -len(args) <= i < len(args)]
    found += [(name, kwargs[name]) for name in info.static_argnames if name in kwargs]
    return tuple(Argument(name, None, spelled(value) or f"<{type(value).__name__}>") for name, value in found)


def position_name(info: Any, position: int) -> str:
    """`n` for the third positional argument of `f(x, y, n)`."""
    try:
        return list(info.fun_signature.parameters)[position]
    except (AttributeError, IndexError):
        return f"args[{position}]"


def _earlier_statics(earlier: jax_internals.Earlier) -> dict[str, str]:
    values, by_name = list(earlier.signature.static_args), list(earlier.signature.static_arg_names)
    positional = len(values) - len(by_name)
    names = [position_name(earlier.info, i) for i in earlier.info.static_argnums[:positional]] + by_name
    return {name: spelled(value) or f"<{type(value).__name__}>" for name, value in zip(names, values, strict=False)}


def _earlier_names(earlier: jax_internals.Earlier) -> tuple[str, ...]:
    """Argument paths as JAX would spell them, from the trees of the arguments."""
    keywords = tuple(earlier.signature.dynamic_arg_names)
    trees = tuple(earlier.signature.dynamic_arg_treedefs)
    dynamic = [i for i in range(len(trees) + len(earlier.info.static_argnums)) if i not in earlier.info.static_argnums]
    positions = [position_name(earlier.info, i) for i in dynamic[: len(trees) - len(keywords)]]
    pairs = zip((*positions, *keywords), trees, strict=True)
    names = tuple(name + path for name, tree in pairs for path in _leaf_paths(tree))
    return names if len(names) == len(earlier.avals) else tuple(f"array {i}" for i in range(len(earlier.avals)))


def _leaf_paths(tree: Any) -> list[str]:
    """Paths of the leaves through Python's own containers; what is in others is numbered."""
    node = tree.node_data()
    if node is None:
        return [""] * tree.num_leaves
    kind, data = node
    fields = getattr(kind, "_fields", None)
    if kind is dict:
        keys = [f"[{key!r}]" for key in data]
    else:
        keys = [f".{field}" for field in fields] if fields else [f"[{i}]" for i in range(len(tree.children()))]
    return [key + path for key, child in zip(keys, tree.children(), strict=False) for path in _leaf_paths(child)]


def _trees(in_tree: Any, count: int) -> tuple[Tree, ...]:
    """Structures of the arguments, from the tree of `(args, kwargs)`."""
    args, kwargs = in_tree.children()
    trees = (*args.children(), *kwargs.children())
    return tuple(map(_tree, trees)) if len(trees) == count else ()


def _tree(tree: Any) -> Tree:
    try:
        number = hash(tuple(_static_data(tree)))
    except Exception:  # noqa: BLE001 - whatever a user's type does when it is hashed
        number = 0
    return Tree(_shortened(_structure(tree)), number)


def _static_data(tree: Any) -> Iterator[Any]:
    """What the nodes of a tree hold beside arrays; JAX compares it, but leaves it out of a tree's own hash."""
    node = tree.node_data()
    if node is not None:
        kind, data = node
        yield kind, tuple(data) if isinstance(data, list) else data
        for child in tree.children():
            yield from _static_data(child)


def _structure(tree: Any, depth: int = 0) -> str:
    node = tree.node_data()
    if node is None:
        return "*" if tree.num_leaves else "None"
    if depth > 3:
        return "…"
    kind, data = node
    parts = [_structure(child, depth + 1) for child in tree.children()[:9]]
    if kind is dict:
        parts = [f"{spelled(key)}: {part}" for key, part in zip(data, parts, strict=False)]
    opening, closing = {dict: "{}", list: "[]", tuple: "()"}.get(kind, (f"{kind.__name__}(", ")"))
    return f"{opening}{', '.join(parts)}{closing}"


_JIT_OPTIONS = (
    "static_argnums",
    "static_argnames",
    "donate_argnums",
    "donate_argnames",
    "device",
    "backend",
    "keep_unused",
    "inline",
    "compiler_options_kvs",
    "in_shardings_leaves",
    "out_shardings_leaves",
)


def jit_options(info: Any) -> dict[str, str]:
    return {name.removesuffix("_leaves"): str(getattr(info, name, ""))[:_LONGEST] for name in _JIT_OPTIONS}


def spelled(value: Any, depth: int = 0) -> str:
    """A value as Python spells it, where that runs no code of the user's; empty for anything else."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, _IMMEDIATE) and type(value).__module__ in ("builtins", "numpy", "numpy.dtypes"):
        return _shortened(repr(value))
    if isinstance(value, type | FunctionType | MethodType):
        return value.__qualname__.rpartition("<locals>.")[2]
    if isinstance(value, jax.sharding.Mesh | jax.sharding.AbstractMesh | jax.sharding.Sharding):
        return _shortened(str(value))
    if depth < 3 and type(value) in (tuple, list, frozenset, set):
        return _container(value, lambda inner: spelled(inner, depth + 1))
    return ""


def _container(values: Any, spell: Callable[[Any], str]) -> str:
    inside = ", ".join(spell(value) or f"<{type(value).__name__}>" for value in list(values)[:8])
    inside += ", …" if len(values) > 8 else ""
    opening, closing = ("(", ")") if type(values) is tuple else ("[", "]") if type(values) is list else ("{", "}")
    return _shortened(f"{opening}{inside}{',' if type(values) is tuple and len(values) == 1 else ''}{closing}")


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
