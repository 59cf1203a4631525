"""Operands that are arrays, as rules on shapes show them."""

import ast

from jaxmagic.core.failures.operands import aval_of
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.loops import loop_evidence
from jaxmagic.core.source.nodes import parts
from jaxmagic.records import Aval, Evidence


def arrays_in(failing: Failing) -> list[tuple[ast.expr, Aval]]:
    """Operands of the failing expression that are arrays, those in a list that it was given among them."""
    pairs = [(part, failing.aval(part)) for part in parts(failing.node)]
    found = [(part, aval) for part, aval in pairs if aval is not None]
    return found or [pair for part, _ in pairs for pair in _elements(failing, part)]


def _elements(failing: Failing, node: ast.expr) -> list[tuple[ast.expr, Aval]]:
    """`rows[0]`, `rows[1]`, … of a list by name."""
    held = failing.value(node) if isinstance(node, ast.Name | ast.Attribute) else None
    found: list[tuple[ast.expr, Aval]] = []
    for at, aval in enumerate(map(aval_of, held[:_MOST]) if isinstance(held, list | tuple) else ()):
        element = ast.copy_location(ast.Subscript(node, ast.Constant(at), ast.Load()), node)
        element.made_up = True  # pyright: ignore[reportAttributeAccessIssue] - its source is that of the list
        found += [(element, aval)] if aval is not None else []
    return found


_MOST = 12


def shape_evidence(failing: Failing, nodes: list[ast.expr]) -> tuple[Evidence, ...]:
    return (*failing.evidence(*nodes), *loop_evidence(failing, nodes))
