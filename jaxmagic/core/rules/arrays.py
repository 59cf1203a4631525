"""Operands that are arrays, as rules on shapes show them."""

import ast

from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.loops import loop_evidence
from jaxmagic.core.source.nodes import parts
from jaxmagic.records import Aval, Evidence


def arrays_in(failing: Failing) -> list[tuple[ast.expr, Aval]]:
    """Operands of the failing expression that are arrays."""
    pairs = [(part, failing.aval(part)) for part in parts(failing.node)]
    return [(part, aval) for part, aval in pairs if aval is not None]


def shape_evidence(failing: Failing, nodes: list[ast.expr]) -> tuple[Evidence, ...]:
    return (*failing.evidence(*nodes), *loop_evidence(failing, nodes))
