"""The code that ran in a cell, as syntax: which functions, under which transformations, and what their names mean."""

import ast
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import ModuleType

from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import own_nodes
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Call, Span

_COMPILED = ("jit", "scan", "while", "fori_loop", "cond", "switch", "pmap", "shard_map")


@dataclass(frozen=True, eq=False)
class Ran:
    """A function (or the cell itself) that ran."""

    file: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
    name: str
    calls: tuple[Call, ...]

    @property
    def compiled(self) -> bool:
        """Whether its Python code ran once for a program that may run often."""
        words = [transform for call in self.calls if call.traced for transform in call.transforms]
        return any(word.startswith(_COMPILED) for word in words)

    @property
    def body(self) -> list[ast.stmt]:
        return [] if isinstance(self.node, ast.Lambda) else self.node.body

    @cached_property
    def own(self) -> tuple[ast.AST, ...]:
        """Its nodes in source order, without those of functions and classes defined inside."""
        return tuple(own_nodes(self.node))

    @cached_property
    def shared(self) -> set[str]:
        """Names that it declares global or nonlocal."""
        return {name for node in self.own if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}

    @cached_property
    def local(self) -> set[str]:
        """Names that it binds itself."""
        if isinstance(self.node, ast.Module):
            return set()
        bound = {node.id for node in self.own if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        arguments = [arg.arg for arg in ast.walk(self.node.args) if isinstance(arg, ast.arg)]
        return bound.union(arguments) - self.shared

    def span_of(self, node: ast.AST) -> Span:
        return span_of(self.file, node)

    def text(self, node: ast.AST) -> str:
        return source.text_of(self.span_of(node))


def ran(observed: Observed) -> tuple[Ran, ...]:
    """Every user function that ran, and the cell's own lines."""
    return _pieces(observed.calls, observed.modules)


@lru_cache(maxsize=1)
def _pieces(calls_made: tuple[Call, ...], modules: tuple[str, ...]) -> tuple[Ran, ...]:
    found: dict[Span, list[Call]] = {}
    for call in calls_made:
        found.setdefault(call.span, []).append(call)
    pieces = []
    for span, calls in found.items():
        node = source.tree(span.file) if calls[0].function == "<module>" else source.node_at(span)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module):
            pieces.append(Ran(span.file, node, calls[0].function, tuple(calls)))
    known = {piece.file for piece in pieces if isinstance(piece.node, ast.Module)}
    trees = {file: source.tree(file) for file in modules if file not in known}
    return *pieces, *(Ran(file, tree, "<module>", ()) for file, tree in trees.items() if tree is not None)


def dotted(observed: Observed, piece: Ran, node: ast.AST) -> str:
    """What an expression names, by its imports: `np.random.normal` is `numpy.random.normal`; empty for a local."""
    match node:
        case ast.Attribute(value=owner, attr=name):
            inner = dotted(observed, piece, owner)
            return f"{inner}.{name}" if inner else ""
        case ast.Name(id=name) if name not in piece.local:
            return _meaning(observed, piece.file, name)
    return ""


def _meaning(observed: Observed, file: str, name: str) -> str:
    imported = imports(file).get(name)
    if imported is not None:
        return imported
    value = observed.namespace.get(name)
    if isinstance(value, ModuleType):
        return value.__name__
    module = getattr(value, "__module__", None) if callable(value) else type(value).__module__
    known = module if isinstance(module, str) else ""
    if known.partition(".")[0] in ("numpy", "random", "time", "jax") and value is not None:
        return f"{known}.{getattr(value, '__name__', type(value).__name__)}"
    return ""


def imports(file: str) -> dict[str, str]:
    """Names that a file's imports bind, and what they stand for."""
    tree = source.tree(file)
    return {} if tree is None else _imports(tree)


@lru_cache(maxsize=64)
def _imports(tree: ast.Module) -> dict[str, str]:
    found = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for each in names:
                    found[each.asname or each.name.partition(".")[0]] = (
                        each.name if each.asname else each.name.split(".")[0]
                    )
            case ast.ImportFrom(module=str(module), names=names):
                found |= {each.asname or each.name: f"{module}.{each.name}" for each in names}
    return found
