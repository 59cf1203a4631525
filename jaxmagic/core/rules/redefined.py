"""Jitted functions that still run an older definition: what they were made of has been defined anew since."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.functions_called import JITTED, function_of
from jaxmagic.core.rules.ran import Ran
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import is_definition, loaded, path_to
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Compiled, Span


class Redefined(NamedTuple):
    """A call of a jitted function that has the definition of before."""

    name: str
    """What was defined anew."""
    jitted: str
    """The name by which the old one is called."""
    call: Span
    new: Ran
    made: ast.stmt | None
    """`g = jax.jit(f)`."""
    made_in: str

    @property
    def statement(self) -> Span | None:
        """Of the cell, the statement that the call stands in; None where it stands in a function."""
        outer = source.statement_at(self.call.file, self.call.line)
        tree, node = source.tree(self.call.file), source.node_at(self.call)
        path = path_to(tree, node) if tree is not None and node is not None else []
        inside = any(is_definition(each) or isinstance(each, ast.Lambda) for each in path)
        top = path[-2] if len(path) > 1 and not inside else None
        return span_of(self.call.file, top) if top is not None and outer is not None else None


def redefinitions(observed: Observed) -> Iterator[Redefined]:
    """At most one for each function."""
    for one in observed.compiled:
        if one.kind == "jit" and not one.library and one.parent is None and one.span is not None:
            old = _at_top(one.span)
            new = function_of(observed.namespace.get(old.name), old.name) if old is not None else None
            if old is not None and new is not None and _differs(old, new):
                yield from _of(observed, one, old, new)


def _at_top(span: Span) -> ast.FunctionDef | None:
    """A function that a cell defines, not one that another function or a class does."""
    tree = source.tree(span.file) if span.file.startswith("<") else None
    node = source.node_at(span) if tree is not None else None
    return node if tree is not None and isinstance(node, ast.FunctionDef) and node in tree.body else None


def _differs(old: ast.FunctionDef, new: Ran) -> bool:
    return isinstance(new.node, ast.FunctionDef) and new.node.name == old.name and ast.dump(new.node) != ast.dump(old)


def _of(observed: Observed, one: Compiled, old: ast.FunctionDef, new: Ran) -> Iterator[Redefined]:
    jitted = {name: value for name, value in list(observed.namespace.items()) if type(value) is JITTED}
    behind = {name: function.node for name, value in jitted.items() if (function := function_of(value, name))}
    if new.node in behind.values():
        return  # both are kept
    for call, name in _calls(observed, one):
        if behind.get(name) is old and (call.file != new.file or call.line > new.node.lineno):  # pyright: ignore[reportAttributeAccessIssue]
            made, file = _made(observed, name, old.name)
            yield Redefined(old.name, name, call, new, made, file)
            return


def _calls(observed: Observed, one: Compiled) -> Iterator[tuple[Span, str]]:
    """Calls by a name: those that traced, and those of the cell."""
    spans = [trace.span for trace in one.traces if trace.span is not None]
    nodes = [(span.file, source.node_at(span)) for span in spans]
    trees = [(file, source.tree(file)) for file in observed.modules]
    nodes += [(file, node) for file, tree in trees if tree is not None for node in ast.walk(tree)]
    for file, node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name)):
                yield span_of(file, node), name


def _made(observed: Observed, jitted: str, name: str) -> tuple[ast.stmt | None, str]:
    """The newest statement that made the jitted function of what has the other name."""
    cells = [(file, tree) for file in observed.modules if (tree := source.tree(file)) is not None]
    for file, tree in (*cells, *reversed(observed.earlier)):
        for statement in reversed(tree.body):
            match statement:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == jitted:
                    return (statement, file) if name in loaded(value) else (None, "")
    return None, ""
