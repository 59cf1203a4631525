"""Equations of backward rules that the user wrote for `custom_vjp`: JAX puts them down to the call of the function."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from jaxmagic.core.nonfinite.origins import Making
from jaxmagic.core.rules.spots import Spot, spot_of
from jaxmagic.core.rules.undefined import computes
from jaxmagic.core.source.nodes import last_name, loaded, name_called, own_nodes
from jaxmagic.records import Frame


def placed(making: Making, namespace: Mapping[str, Any]) -> Making:
    """The equation at the expression of the rule that computes it, where there is only one that can be it."""
    spot = spot_of(making, namespace) if making.transposed else None
    if spot is None or not isinstance(spot.node, ast.Call):
        return making
    rule = _rule(spot, {name_called(spot.node), *loaded(spot.node.func)})
    fitting = [node for node in own_nodes(rule) if computes(node, making.primitive)] if rule is not None else []
    if len(fitting) != 1:
        return making
    frame = Frame(spot.span(fitting[0]), getattr(rule, "name", "<lambda>"))
    return replace(making, frames=(frame, *making.frames), stack="")


def _rule(spot: Spot, names: set[str]) -> ast.AST | None:
    """`bwd` of `f.defvjp(fwd, bwd)`, `f` being one of these names: that of `f(x)`, or one in `jax.grad(f)(x)`."""
    for node in ast.walk(spot.tree):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="defvjp"), args=[_, rule, *_]) if (
                last_name(owner) in names
            ):
                return rule if isinstance(rule, ast.Lambda) else next(_named(spot, last_name(rule)), None)
    return None


def _named(spot: Spot, name: str) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(spot.tree) if isinstance(node, ast.FunctionDef) and node.name == name)
