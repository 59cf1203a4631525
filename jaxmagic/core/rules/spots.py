"""An expression of the user's that gave a NaN or an infinity: its syntax, its surroundings, and code in its place."""

import ast
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple

from jaxmagic.core.failures.operands import Scope
from jaxmagic.core.nonfinite.hosts import HOST
from jaxmagic.core.nonfinite.origins import Making, Value
from jaxmagic.core.rules.rewrite import alias, text
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import loaded, own_nodes, path_to, smallest, stored
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Span

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module

_SYMBOLS: dict[type, str] = {
    ast.Div: "/",
    ast.Pow: "**",
    ast.Mult: "*",
    ast.Sub: "-",
    ast.Add: "+",
    ast.MatMult: "@",
    ast.Mod: "%",
    ast.FloorDiv: "//",
}
_SYNONYMS = {
    "divide": "/",
    "true_divide": "/",
    "div": "/",
    "power": "**",
    "pow": "**",
    "float_power": "**",
    "multiply": "*",
    "mul": "*",
    "subtract": "-",
    "sub": "-",
    "add": "+",
    "acos": "arccos",
    "asin": "arcsin",
    "atanh": "arctanh",
    "acosh": "arccosh",
    "atan2": "arctan2",
    "matmul": "@",
    "dot": "@",
    "remainder": "%",
    "mod": "%",
}


@dataclass(frozen=True)
class Mask:
    """A `where` that chooses between what an expression gave and something else."""

    call: ast.Call
    condition: ast.expr
    chosen: bool
    """Whether it takes the expression where the condition holds; else where it does not."""


@dataclass(frozen=True)
class Spot:
    """A place in the source, and the equation of it that gave the NaN or infinity."""

    making: Making
    file: str
    tree: ast.Module
    node: ast.expr
    scope: Scope

    @cached_property
    def around(self) -> tuple[ast.AST, ...]:
        """What encloses the expression, innermost first."""
        return tuple(path_to(self.tree, self.node))[1:]

    @cached_property
    def statement(self) -> ast.stmt | None:
        return next((node for node in self.around if isinstance(node, ast.stmt)), None)

    @cached_property
    def function(self) -> Function:
        """The innermost function around it, or the cell itself."""
        return next((node for node in self.around if isinstance(node, Function)), self.tree)

    @property
    def operation(self) -> str:
        return operation_of(self.node)

    @property
    def parts(self) -> list[ast.expr]:
        return self.parts_of(self.node)

    @property
    def values(self) -> tuple[Value, ...]:
        return self.making.operands

    def parts_of(self, node: ast.AST) -> list[ast.expr]:
        """The operands of an operation, a method's own array first."""
        if isinstance(node, ast.Call) and is_call_of(node, *HOST):
            return [each for each in node.args[2:] if not isinstance(each, ast.Starred)]
        match node:
            case ast.BinOp(left=left, right=right):
                return [left, right]
            case ast.Call(func=ast.Attribute(value=owner), args=args) if not self.is_module(owner):
                return [owner, *args]
            case ast.Call(args=args):
                return [each for each in args if not isinstance(each, ast.Starred)]
        return []

    def is_module(self, node: ast.expr) -> bool:
        """Whether `node` is `jnp`, `jax.nn`, …, so that `node.sqrt` is a function and not a method."""
        return isinstance(self.scope.get(node), ModuleType)

    def text(self, node: ast.AST) -> str:
        return source.text_of(span_of(self.file, node))

    def span(self, node: ast.AST) -> Span:
        return span_of(self.file, node)

    def assigned(self, name: str) -> ast.expr | None:
        """What a plain name was last assigned before this line of the function."""
        found = None
        for node in own_nodes(self.function):
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    found = value if node.lineno < self.node.lineno else found
        return found

    def behind(self, node: ast.AST | None) -> Any:
        """What a plain name was assigned; any other node itself."""
        return self.assigned(node.id) if isinstance(node, ast.Name) else node

    def mask(self) -> Mask | None:
        """A `where` that throws some of the expression's values away: around it, or of the name it is assigned to."""
        inside: ast.AST = self.node
        for outer in self.around:
            if (found := _mask(outer, lambda branch, inside=inside: branch is inside)) is not None:
                return found
            if isinstance(outer, ast.stmt):
                break
            inside = outer
        return self._mask_of_names()

    def _mask_of_names(self) -> Mask | None:
        if not isinstance(self.statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            return None
        names = set(stored(self.statement))
        for node in own_nodes(self.function):
            if getattr(node, "lineno", 0) <= self.node.lineno:
                continue
            found = _mask(node, lambda branch, names=frozenset(names): bool(names & loaded(branch)))
            if found is not None and self._is_known_here(found.condition):
                return found
            if isinstance(node, ast.Assign) and names & loaded(node.value):
                names |= set(stored(node))
        return None

    def _is_known_here(self, condition: ast.expr) -> bool:
        """Whether the condition's names had their values before this line."""
        names = loaded(condition)
        later = {
            name
            for node in own_nodes(self.function)
            if isinstance(node, ast.Assign | ast.AugAssign) and node.lineno >= self.node.lineno
            for name in stored(node)
        }
        return not names & later


def spot_of(making: Making, namespace: Mapping[str, Any]) -> Spot | None:
    """The innermost user expression that an equation came from; None where its source is not known."""
    span = making.span
    tree = source.tree(span.file) if span is not None else None
    if span is None or tree is None:
        return None
    node = source.node_at(span) or smallest(tree, span.line, span.column, span.end_line, span.end_column)
    if not isinstance(node, ast.expr):
        return None
    return Spot(making, span.file, tree, node, Scope({}, _names(span.file, namespace)))


def _names(file: str, namespace: Mapping[str, Any]) -> Mapping[str, Any]:
    """The globals of the module that a file is, of the notebook where it is a cell."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == file:
            return vars(module)
    return namespace


def operation_of(node: ast.AST) -> str:
    """`sqrt`, `/`, `**`: what an expression does last."""
    match node:
        case ast.BinOp(op=op):
            return _SYMBOLS.get(type(op), "")
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return _SYNONYMS.get(name, name)
        case ast.UnaryOp():
            return "-"
    return ""


def is_call_of(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Call) and operation_of(node) in names


def infinity(node: ast.AST) -> str:
    """`inf` for `jnp.inf` and `float("inf")`, `-inf` for `float("-inf")`; empty for anything else."""
    match node:
        case ast.Attribute(attr="inf"):
            return "inf"
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(value))]):
            written = value.strip().lower()
            return written if written in ("inf", "-inf") else ""
    return ""


def _mask(node: ast.AST, holds: Any) -> Mask | None:
    match node:
        case ast.Call(func=ast.Attribute(attr="where") | ast.Name(id="where"), args=[condition, first, second]):
            if holds(first) or holds(second):
                return Mask(node, condition, holds(first))
    return None


_EXPONENT = re.compile(r"\b(\d+e-)0(\d)\b")


class Rewrite(NamedTuple):
    """Code for a place in the source."""

    old: ast.AST
    new: ast.AST
    why: str
    """What it does, in a sentence."""
    sure: bool = True
    until: ast.AST | None = None
    """The last statement, where several are replaced."""
    before: tuple[ast.AST, ...] = ()
    """Statements that go before `new`."""

    @property
    def code(self) -> str:
        return _EXPONENT.sub(r"\1\2", text(*self.before, self.new))


def jnp_of(spot: Spot) -> str:
    return alias(spot.scope, "jax.numpy")


def jax_of(spot: Spot) -> str:
    return alias(spot.scope, "jax")
