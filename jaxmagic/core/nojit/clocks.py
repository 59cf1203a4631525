"""Variables that are never the same twice, with jit or without: from a clock, the system's randomness, an `id`."""

import ast
from collections.abc import Iterator

from jaxmagic.core.source.nodes import name_called

VERDICT = "never the same twice"

_MODULES = ("time", "datetime", "uuid", "secrets", "tempfile")
_FUNCTIONS = (
    "time",
    "perf_counter",
    "monotonic",
    "process_time",
    "now",
    "utcnow",
    "today",
    "uuid4",
    "urandom",
    "getpid",
    "id",
)


_SEEDED = ("default_rng", "RandomState", "Random", "SystemRandom")
"""Generators that begin anywhere if they are given no seed."""


def unrepeatable(tree: ast.AST) -> frozenset[str]:
    """Names that a cell assigns from such a call, or from an expression with such a name in it."""
    found: set[str] = set()
    before = -1
    while len(found) > before:  # until nothing new follows from what was found
        before = len(found)
        for targets, value in _assignments(tree):
            if any(_reads_clock(node, found) for node in ast.walk(value)):
                found.update(targets)
    return frozenset(found)


def _assignments(tree: ast.AST) -> Iterator[tuple[list[str], ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield [name for target in node.targets for name in _names(target)], node.value
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
            yield list(_names(node.target)), node.value


def _names(target: ast.expr) -> Iterator[str]:
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _reads_clock(node: ast.AST, known: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in known
    if not isinstance(node, ast.Call):
        return False
    function, name = node.func, name_called(node)
    if name in _SEEDED:
        return not node.args and not node.keywords
    if isinstance(function, ast.Name):
        return function.id in _FUNCTIONS
    return (
        isinstance(function, ast.Attribute)
        and function.attr in _FUNCTIONS
        and isinstance(function.value, ast.Name | ast.Attribute)
        and ast.unparse(function.value).split(".")[0] in (*_MODULES, "os")
    )
