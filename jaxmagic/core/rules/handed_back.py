"""Parts of a parameter that a function hands back in its result as they were: `key` of `return params, key`."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jaxmagic.core.rules.ran import Ran
from jaxmagic.core.rules.scopes import assigned

_STEP = re.compile(r"\.\w+|\[[^\]]*\]")
_DEEPEST = 6
"""Names and containers that a result is followed through."""


@dataclass(frozen=True)
class Kept:
    """A parameter, or a part of one, and where in the result it stands."""

    place: str
    """`[1]`, `.key`, `[0]['key']`; empty for the result itself."""
    parameter: str
    rest: str
    """Which part of the parameter."""
    node: ast.expr
    """The expression in the function that hands it back."""
    but: tuple[str, ...] = ()
    """Parts of it that are replaced."""

    def holds(self, part: str) -> bool:
        """Whether a part of the parameter is among what is kept."""
        return _within(part, self.rest) and not any(_within(part, self.rest + each) for each in self.but)


def _within(part: str, whole: str) -> bool:
    return part == whole or (part.startswith(whole) and part[len(whole)] in ".[")


def steps(path: str) -> list[str]:
    return _STEP.findall(path)


def rooted(path: str) -> tuple[str, str]:
    """`self` and `.key` of `self.key`."""
    end = min((place for mark in ".[" if (place := path.find(mark)) > 0), default=len(path))
    return path[:end], path[end:]


def spelled(node: ast.AST, *, variable: bool = False) -> str:
    """`state.key`, `state['key']`, `state[1]`; with `variable` also `state[i]` and `state[-1]`; empty for others."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr=name):
            return f"{inner}.{name}" if (inner := spelled(owner, variable=variable)) else ""
        case ast.Subscript(value=owner, slice=index) if _is_known(index) or (
            variable and isinstance(index, ast.Constant | ast.Name | ast.UnaryOp)
        ):
            return f"{inner}[{ast.unparse(index)}]" if (inner := spelled(owner, variable=variable)) else ""
    return ""


def _is_known(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and isinstance(index.value, str | int)


def reached(node: ast.expr, path: str) -> str:
    """What a part of an expression is called: `[1]` of `params, key` is `key`."""
    for step in (left := steps(path)):
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if step[1:-1].isdigit() and int(step[1:-1]) < len(parts):
                node, left = parts[int(step[1:-1])], left[1:]
            case _:
                break
    name = spelled(node)
    return name + "".join(left) if name else ""


class Origins:
    """Which names of a function still are what a parameter, or a part of one, was."""

    def __init__(self, function: Ran) -> None:
        self._function = function
        assert not isinstance(function.node, ast.Module)
        self._parameters = {arg.arg for arg in ast.walk(function.node.args) if isinstance(arg, ast.arg)}
        self._changed = {
            spelled(node)
            for node in function.own
            if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store)
        }

    def of(self, path: str, depth: int = 0) -> tuple[str, str] | None:
        """The parameter and the part of it that a path is; None for what was computed, or assigned to."""
        root, rest = rooted(path)
        if depth > _DEEPEST or path in self._changed:
            return None
        writes = [node for node in self._function.own if isinstance(node, ast.stmt) and root in _bound(node)]
        if not writes:
            return (root, rest) if root in self._parameters else None
        if len(writes) > 1 or not isinstance(writes[0], ast.Assign) or len(writes[0].targets) != 1:
            return None
        target, value = writes[0].targets[0], writes[0].value
        kept = copied_but(value)
        if (
            kept is not None
            and spelled(target) == root == spelled(kept[0])
            and not any(_within(rest, each) for each in kept[1])
        ):
            return (root, rest) if root in self._parameters else None
        inner = _unpacked(target, root)
        name = spelled(value) if inner is not None else ""
        return self.of(f"{name}{inner}{rest}", depth + 1) if name else None


def _bound(statement: ast.stmt) -> list[str]:
    return (
        []
        if isinstance(statement, ast.FunctionDef | ast.ClassDef)
        else [node.id for node in _heads(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    )


def _heads(statement: ast.stmt) -> Iterator[ast.AST]:
    """A statement without the blocks in it."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt):
            yield from ast.walk(child)


def _unpacked(target: ast.expr, name: str) -> str | None:
    """Where a name stands in the target of an assignment."""
    match target:
        case ast.Name(id=name_of):
            return "" if name_of == name else None
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for place, part in enumerate(parts):
                inner = None if isinstance(part, ast.Starred) else _unpacked(part, name)
                if inner is not None:
                    return f"[{place}]{inner}"
    return None


def copied_but(node: ast.expr) -> tuple[ast.expr, tuple[str, ...]] | None:
    """What a call copies, and the parts that it replaces: `state._replace(w=w)`, `{**state, "w": w}`."""
    match node:
        case ast.Call(func=ast.Attribute(value=base, attr="_replace" | "replace"), args=[]) if node.keywords:
            pass
        case ast.Call(func=ast.Attribute(attr="replace") | ast.Name(id="replace"), args=[base]) if node.keywords:
            pass
        case ast.Dict(keys=[None, *names], values=[base, *_]):
            known = [f"[{each.value!r}]" for each in names if isinstance(each, ast.Constant)]
            return (base, tuple(known)) if len(known) == len(names) else None
        case _:
            return None
    named = [keyword.arg for keyword in node.keywords]
    return (base, tuple(f".{name}" for name in named)) if all(named) else None


def kept(function: Ran, namespace: Mapping[str, Any]) -> list[Kept]:
    """What the only `return` of a function hands back."""
    returns = [node for node in function.own if isinstance(node, ast.Return)]
    if len(returns) != 1 or returns[0].value is None:
        return []
    return list(_kept(function, Origins(function), namespace, returns[0].value, ""))


def _kept(
    function: Ran, origins: Origins, namespace: Mapping[str, Any], node: ast.expr, place: str, depth: int = 0
) -> Iterator[Kept]:
    name = spelled(node)
    origin = origins.of(name) if name else None
    copy = copied_but(node)
    if origin is not None:
        yield Kept(place, *origin, node)
    elif depth > _DEEPEST:
        return
    elif isinstance(node, ast.Name):
        values = assigned(function, node.id)
        for value in values if len(values) == 1 else ():
            yield from _kept(function, origins, namespace, value, place, depth + 1)
    elif copy is not None:
        base = spelled(copy[0])
        origin = origins.of(base) or ((base, "") if copy[0] and base else None)
        if origin is not None:
            yield Kept(place, *origin, node, copy[1])
    for step, part in _parts(node, namespace):
        yield from _kept(function, origins, namespace, part, place + step, depth + 1)


def _parts(node: ast.expr, namespace: Mapping[str, Any]) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            yield from ((f"[{place}]", part) for place, part in enumerate(parts))
        case ast.Dict(keys=names, values=parts):
            for key, part in zip(names, parts, strict=True):
                if isinstance(key, ast.Constant):
                    yield f"[{key.value!r}]", part
        case ast.Call(func=ast.Name(id=name), args=parts):
            yield from ((f".{each.arg}", each.value) for each in node.keywords if each.arg)
            made = namespace.get(name)
            fields = getattr(made, "_fields", None) or getattr(made, "__dataclass_fields__", ())
            if isinstance(made, type):
                yield from ((f".{field}", part) for field, part in zip(fields, parts, strict=False))


def stored_elsewhere(block: list[ast.stmt], but: ast.stmt) -> set[str]:
    """Names that a loop's body binds by other statements."""
    inside = (node for statement in block for node in ast.walk(statement) if isinstance(node, ast.stmt))
    return {name for node in inside if node is not but for name in _bound(node)}
