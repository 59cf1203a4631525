"""Where the names of a piece of code come from: itself, a function around it, its class, or the module."""

import ast
from collections.abc import Iterator

from jaxmagic.core.rules.ran import Ran
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import path_to

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def around(piece: Ran) -> list[ast.AST]:
    """The functions and classes that a piece is defined in, innermost first."""
    tree = source.tree(piece.file)
    path = path_to(tree, piece.node)[1:] if tree is not None else []
    return [node for node in path if isinstance(node, Function | ast.ClassDef)]


def binder(piece: Ran, name: str) -> Ran | None:
    """The function around a piece that binds a name; None for a name of its own, of the module or of Python."""
    if name in piece.local:
        return None
    for node in around(piece):
        if isinstance(node, Function):
            outer = Ran(piece.file, node, getattr(node, "name", "<lambda>"), ())
            if name in outer.local or name in _defined(outer):
                return outer
    return None


def _defined(piece: Ran) -> set[str]:
    """Names of the functions and classes defined right inside a piece."""
    found = set()
    waiting = list(ast.iter_child_nodes(piece.node))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return found


def class_of(piece: Ran) -> ast.ClassDef | None:
    """The class that a method is defined in."""
    outer = around(piece)
    return outer[0] if outer and isinstance(outer[0], ast.ClassDef) else None


def methods(owner: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    for node in owner.body:
        if isinstance(node, ast.FunctionDef):
            yield node


def attribute_values(owner: ast.ClassDef, name: str) -> list[ast.expr]:
    """What the methods of a class assign to `self.name`."""
    found = []
    for method in methods(owner):
        for node in ast.walk(method):
            match node:
                case ast.Assign(targets=targets, value=value) if any(_is_own(target, name) for target in targets):
                    found.append(value)
    return found


def _is_own(target: ast.expr, name: str) -> bool:
    match target:
        case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
            return attribute == name
    return False


def assigned(piece: Ran, name: str) -> list[ast.expr]:
    """What a piece assigns to a plain name of its own."""
    found = []
    for node in piece.own:
        match node:
            case ast.Assign(targets=targets, value=value):
                if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                    found.append(value)
    return found
