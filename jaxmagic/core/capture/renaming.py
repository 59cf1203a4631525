"""Argument paths behind the jits of Equinox and Flax NNX, which hand arrays to `jax.jit` in containers of their own."""

import re
from collections.abc import Iterator
from typing import Any

import jax

from jaxmagic.core.capture.ownership import code_of, methods_of
from jaxmagic.core.capture.signatures import spelled
from jaxmagic.core.jax_internals import Earlier
from jaxmagic.records import Argument

_MOST_STATICS = 40


class Naming:
    """The names that the user's function has for what one call passes to `jax.jit` and gets back.

    Unchanged where no such library is involved, or where its containers are not what they were when this was
    written.

    Args:
        fun: What the library gave to `jax.jit`.
        function: The user's function inside.
    """

    def __init__(self, fun: Any, function: Any) -> None:
        code = code_of(fun)
        self._function = function
        self.equinox = code is not None and code.co_filename.replace("\\", "/").endswith("equinox/_jit.py")
        self.nnx = type(fun).__module__.startswith("flax.nnx.")

    def inputs(self, arguments: tuple[Argument, ...], args: tuple, info: Any) -> tuple[Argument, ...]:
        """Array arguments in JAX's order, then the static ones."""
        if self.equinox:
            paths = _equinox_paths(self._function, args[2])
            arrays = [_renamed(each, _EQUINOX, paths) for each in arguments if each.aval is not None]
            return (*arrays, *_equinox_statics(paths, args[2]))
        if self.nnx:
            paths = _nnx_paths(args, info)
            return tuple(_renamed(each, _NNX, paths) for each in arguments)
        return arguments

    def outputs(self, outputs: tuple[Argument, ...], args: tuple, info: Any) -> tuple[Argument, ...]:
        """What the user's function returned; for NNX also the modules that it was given and has changed."""
        if self.equinox and len(outputs) > 0:
            return tuple(_with_name(each, each.name.removeprefix("[1]")) for each in outputs[1:])
        if self.nnx:
            by_position = {str(i): paths for i, paths in enumerate(_nnx_paths(args, info).values())}
            return tuple(_nnx_output(each, by_position) for each in outputs)
        return outputs

    def earlier(self, earlier: Earlier, like: tuple[Argument, ...]) -> tuple[tuple[str, ...], dict[str, str]] | None:
        """Names of the arrays and texts of the static arguments of a call that JAX remembers.

        Args:
            earlier: The call.
            like: Arguments of another call of the same jit, under JAX's names.

        Returns:
            None where JAX's own names are good.
        """
        if not self.equinox:
            return None
        static = earlier.signature.static_args[0]
        paths = _equinox_paths(self._function, static)
        leaves: dict[str, tuple] = {"fun": static[0][0], "first": static[1][0], "rest": static[2][0]}
        parts = dict.fromkeys(str(found[1]) for each in like if (found := _EQUINOX.match(each.name)))
        arrays = [paths[part][i] for part in parts for i, leaf in enumerate(leaves[part]) if leaf is None]
        return tuple(arrays), {each.name: each.static for each in _equinox_statics(paths, static)}


def _renamed(argument: Argument, pattern: re.Pattern, paths: dict[str, list[str]]) -> Argument:
    found = pattern.match(argument.name)
    names = paths.get(found[1], []) if found else []
    position = int(found[2]) if found else 0
    return _with_name(argument, names[position]) if position < len(names) else argument


def _with_name(argument: Argument, name: str) -> Argument:
    return Argument(name, argument.aval, argument.static, argument.donated)


# ------------------------------------------------------------------------------------------------ Equinox

_EQUINOX = re.compile(r"dynamic_\w+\['(fun|first|rest)'\]\[(\d+)\]$")


def _equinox_paths(function: Any, static: tuple) -> dict[str, list[str]]:
    """`filter_jit` passes lists of leaves: of the function, of its first argument, and of all others."""
    parameters = _parameters(function, static[0][1])
    return {
        "fun": [f"self{path}" for path in _leaf_paths(static[0][1])],
        "first": [_parameter(parameters, 0) + path for path in _leaf_paths(static[1][1])],
        "rest": [_of_pair(path, parameters) for path in _leaf_keys(static[2][1])],
    }


def _equinox_statics(paths: dict[str, list[str]], static: tuple) -> list[Argument]:
    leaves = [*zip(paths["first"], static[1][0], strict=True), *zip(paths["rest"], static[2][0], strict=True)]
    found = [(path, spelled(leaf)) for path, leaf in leaves if leaf is not None]
    return [Argument(path, None, text) for path, text in found if text][:_MOST_STATICS]


def _of_pair(path: tuple, parameters: list[str]) -> str:
    """The path of a leaf in the pair of the other positional arguments and the keywords."""
    key, inner = path[1], jax.tree_util.keystr(path[2:])
    return (key.key if path[0].idx == 1 else _parameter(parameters, key.idx + 1)) + inner


def _parameters(function: Any, tree: Any) -> list[str]:
    """Names of the positional parameters, `self` left out for a module that is called."""
    code = code_of(function)
    if code is None:
        return []
    names = list(code.co_varnames[: code.co_argcount])
    node = tree.node_data()
    bound = node is not None and any(each is function for each in methods_of(node[0]))
    return names[1:] if bound else names


def _parameter(names: list[str], position: int) -> str:
    return names[position] if position < len(names) else f"args[{position}]"


def _leaf_paths(tree: Any) -> list[str]:
    return [jax.tree_util.keystr(path) for path in _leaf_keys(tree)]


def _leaf_keys(tree: Any) -> list[tuple]:
    numbered = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    return [path for path, _ in jax.tree_util.tree_leaves_with_path(numbered)]


# -------------------------------------------------------------------------------------------------- NNX

_NNX = re.compile(r"(.+)\.states\[0\]\[(\d+)\]$")
_NNX_CHANGED = re.compile(r"\[0\]\[(\d+)\]\.states\[0\]\[(\d+)\]$")


def _nnx_paths(args: tuple, info: Any) -> dict[str, list[str]]:
    """Paths of the leaves of each positional argument: `nnx.jit` passes a module as its graph and a list of leaves."""
    paths: dict[str, list[str]] = {}
    for name, value in zip(info.fun_signature.parameters, args, strict=False):
        graph = getattr(value, "_graphdef", None)
        paths[name] = [] if graph is None else list(_of_graph(iter(graph.nodes), iter(graph.attributes), name))
    return paths


def _nnx_output(output: Argument, paths: dict[str, list[str]]) -> Argument:
    """`nnx.jit` returns positional arguments, keyword arguments and the result."""
    changed = _renamed(output, _NNX_CHANGED, paths)
    if changed is not output:
        return _with_name(changed, f"{changed.name} (updated)")
    return _with_name(output, output.name.removeprefix("[2]"))


def _of_graph(nodes: Iterator[Any], attributes: Iterator[tuple], path: str) -> Iterator[str]:
    """Paths of the leaves of one node and of all below it, in the order in which NNX lists them."""
    node = next(nodes)
    if type(node).__name__ == "VariableDef":
        yield path
    elif type(node).__name__ == "NodeDef":
        for _ in range(node.num_attributes):
            key, attribute = next(attributes)
            inner = f"{path}.{key}" if isinstance(key, str) and key.isidentifier() else f"{path}[{key!r}]"
            if type(attribute).__name__ == "NodeAttr":
                yield from _of_graph(nodes, attributes, inner)
            elif type(attribute).__name__ != "Static":
                yield inner
