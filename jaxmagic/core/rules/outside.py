"""What a function reads that is not its own, as it is written (`lr`, `cfg.lr`, `config["gain"]`), and its value."""

import ast
import builtins
import sys
from collections.abc import Collection, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmagic.core.lines.attributes import MISSING, attribute, class_attribute, inherits
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.jits import with_at, with_statics
from jaxmagic.core.rules.ran import Ran, imports
from jaxmagic.core.rules.rewrite import Edit, merged, text, with_parameters
from jaxmagic.core.rules.stores import root_name, spelled_jit
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import loaded, path_to, stored
from jaxmagic.core.source.policy import Policy
from jaxmagic.records import Span

Fix = tuple[str, Span | None]
_TESTS = ast.If | ast.While | ast.IfExp | ast.Assert
_policy = Policy()


class Outer(NamedTuple):
    """An expression that reads what is not the function's own."""

    piece: Ran
    """The function that it stands in."""
    node: ast.expr

    @property
    def text(self) -> str:
        return text(self.node)

    @property
    def span(self) -> Span:
        return self.piece.span_of(self.node)


def read_at(observed: Observed, piece: Ran, lines: Collection[int], own: Collection[str] = ()) -> Iterator[Outer]:
    """What is read on lines of a function, or by what they depend on: an assignment before, the test of an `if`.

    Args:
        observed: The cell.
        piece: The function.
        lines: Where an operation stands.
        own: Parameters that hold something from outside all the same.
    """
    seen = set()
    for node in _deciding(piece, lines):
        for part in _chains(node):
            root = root_name(part)
            if _is_outside(observed, piece, part, root, own) and text(part) not in seen:
                seen.add(text(part))
                yield Outer(piece, part)


def _deciding(piece: Ran, lines: Collection[int]) -> list[ast.AST]:
    """The expressions on some lines, those that gave their variables, and the tests that they stand under."""
    found: list[ast.AST] = []
    wanted: list[ast.AST] = [node for node in piece.own if isinstance(node, ast.stmt) and _is_on(node, lines)]
    wanted = wanted or ([piece.node.body] if isinstance(piece.node, ast.Lambda) else [])
    while wanted:
        node = wanted.pop()
        if any(node is known for known in found):
            continue
        found.append(node)
        names = loaded(node)
        for other in piece.own:
            match other:
                case ast.Assign() | ast.AugAssign() | ast.AnnAssign() if set(stored(other)) & names:
                    wanted.append(other)
                case ast.For(target=target, iter=iterable) if set(stored(target)) & names:
                    wanted.append(iterable)
        for outer in path_to(piece.node, node)[1:]:
            match outer:
                case ast.If(test=test) | ast.While(test=test) | ast.For(iter=test):
                    wanted.append(test)
        wanted += _left_before(piece, node)
    return sorted(found, key=lambda node: getattr(node, "lineno", 0))


def _left_before(piece: Ran, node: ast.AST) -> list[ast.AST]:
    """Tests above a line by which the function may have returned before it."""
    line = getattr(node, "lineno", 0)
    tests = [each for each in piece.own if isinstance(each, ast.If) and each.lineno < line]
    return [each.test for each in tests if any(isinstance(part, ast.Return) for part in ast.walk(each))]


def _is_on(node: ast.stmt, lines: Collection[int]) -> bool:
    end = max((part.lineno for part in _header(node)), default=node.lineno)
    return any(node.lineno <= line <= end for line in lines)


def _header(node: ast.stmt) -> Iterator[Any]:
    """Nodes of a statement that belong to none of the statements inside."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt):
            yield from (part for part in ast.walk(child) if hasattr(part, "lineno"))


def _chains(node: ast.AST) -> Iterator[ast.expr]:
    """The longest names with attributes and constant keys in an expression, or in the header of a statement."""
    if _is_chain(node):
        yield node  # type: ignore[misc]
        return
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt) and isinstance(getattr(child, "ctx", None), ast.Load | None):
            yield from _chains(child)


def _is_chain(node: ast.AST) -> bool:
    match node:
        case ast.Name(ctx=ast.Load()):
            return True
        case (
            ast.Attribute(value=owner, ctx=ast.Load())
            | ast.Subscript(value=owner, slice=ast.Constant(), ctx=ast.Load())
        ):
            return _is_chain(owner)
    return False


def _is_outside(observed: Observed, piece: Ran, node: ast.expr, root: str, own: Collection[str]) -> bool:
    if root in vars(builtins) and root not in observed.namespace:
        return False
    if root in piece.local:
        return root in own or (root == "self" and not isinstance(node, ast.Name))
    held = variable(observed, piece, root)
    if inherits(type(held), ModuleType):
        return not isinstance(node, ast.Name) and _is_users(held)
    return root not in imports(piece.file) or held is MISSING or _policy.is_user(_file_of(held))


def _is_users(module: ModuleType) -> bool:
    file = attribute(module, "__file__")
    return not isinstance(file, str) or _policy.is_user(file)


def _file_of(value: Any) -> str:
    return getattr(getattr(value, "__code__", None), "co_filename", "<unknown>")


def variable(observed: Observed, piece: Ran, name: str) -> Any:
    """A variable of the module that a function stands in, or `MISSING`."""
    for module in list(sys.modules.values()):
        if attribute(module, "__file__") == piece.file:
            return attribute(module, name)
    return observed.namespace.get(name, MISSING)


def value_of(observed: Observed, piece: Ran, node: ast.expr) -> Any:
    """What an expression is now, or `MISSING`; no code of an object's class runs."""
    match node:
        case ast.Name(id=name) if name not in piece.local:
            return variable(observed, piece, name)
        case ast.Attribute(value=inner, attr=name):
            owner = value_of(observed, piece, inner)
            if inherits(type(owner), type):
                return class_attribute(owner, name)
            held = attribute(owner, name)
            return held if held is not MISSING or owner is MISSING else class_attribute(type(owner), name)
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            owner = value_of(observed, piece, inner)
            if type(owner) is dict:
                return owner.get(key, MISSING)
            if type(owner) in (list, tuple) and type(key) is int and -len(owner) <= key < len(owner):
                return owner[key]
    return MISSING


def shown(value: Any) -> str:
    """A plain number or text; empty for anything else."""
    if type(value) in (int, float, bool, str):
        return repr(value)
    return str(value) if inherits(type(value), np.generic) else ""


def as_argument(observed: Observed, read: Outer) -> Fix:
    """The function with what it reads as a parameter, static where JAX can't trace it; empty where that takes more."""
    piece, node = read.piece, read.piece.node
    name = _parameter(read.node)
    root = root_name(read.node)
    parameter = root != "self" and root in piece.local
    if not isinstance(node, ast.FunctionDef) or not name or parameter or name in _taken(piece, read.node):
        return "", None
    value = value_of(observed, piece, read.node)
    static = value is not MISSING and (not _is_traceable(value) or _decides(piece, read.text))
    if static and not (value is None or isinstance(value, bool | int | float | str)):
        return "", None
    header, place = with_parameters(piece.file, node, [name])
    edits: list[Edit] = [(place, header)]
    if static:
        decorator = next((each for each in node.decorator_list if spelled_jit(each)), None)
        if decorator is None:
            return "", None
        order = [arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)]
        edits.append((with_at(piece.span_of(decorator)), "@" + text(with_statics(decorator, [name], [*order, name]))))
    if not isinstance(read.node, ast.Name):
        edits += _renamed(piece, read.text, name)
    return merged(edits) if len(edits) > 1 else (header, place)


def _parameter(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))) if name.isidentifier():
            return name
    return ""


def _taken(piece: Ran, node: ast.expr) -> set[str]:
    """Names that the function uses for something else."""
    return set() if isinstance(node, ast.Name) else piece.local | loaded(piece.node)


def _renamed(piece: Ran, spelled: str, name: str) -> list[Edit]:
    """Every place where it is read, up to the end of the last statement that does, so that this is shown whole."""
    nodes = [node for node in ast.walk(piece.node) if isinstance(node, ast.expr) and _is_chain(node)]
    spans = sorted((piece.span_of(node) for node in nodes if text(node) == spelled), key=_begin)
    last = spans[-1]
    ends = [node for node in piece.own if isinstance(node, ast.stmt) and _begin(piece.span_of(node)) <= _begin(last)]
    end = piece.span_of(max(ends, key=lambda node: _begin(piece.span_of(node))))
    if (end.end_line, end.end_column) <= (last.end_line, last.end_column) or end.end_line != last.end_line:
        return [(span, name) for span in spans]
    rest = Span(last.file, last.end_line, last.end_column, end.end_line, end.end_column)
    longer = Span(last.file, last.line, last.column, end.end_line, end.end_column)
    return [*((span, name) for span in spans[:-1]), (longer, name + source.text_of(rest))]


def _begin(span: Span) -> tuple[int, int]:
    return span.line, span.column


def _decides(piece: Ran, spelled: str) -> bool:
    """Whether it is asked for by an `if`, so that it can't be traced."""
    tests = [node.test for node in ast.walk(piece.node) if isinstance(node, _TESTS)]
    return any(text(part) == spelled for test in tests for part in ast.walk(test) if isinstance(part, ast.expr))


def _is_traceable(value: Any) -> bool:
    leaves = jax.tree.leaves(value)
    return bool(leaves) and all(
        type(leaf) in (float, complex) or isinstance(leaf, np.ndarray | np.generic | jax.Array) for leaf in leaves
    )


def whole(piece: Ran, node: ast.expr | None) -> ast.expr:
    """The longest name with attributes and keys around a name that is read: `config["gain"]` of `config`."""
    around = [each for each in path_to(piece.node, node) if _is_chain(each)] if node is not None else []
    return around[-1] if around else node  # type: ignore[return-value]
