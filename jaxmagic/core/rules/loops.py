"""Which pass of a Python loop failed, and which element of a container an operand is."""

import ast
from typing import Any

from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.sites import path_of
from jaxmagic.records import Evidence


def loop_evidence(failing: Failing, nodes: list[ast.expr]) -> list[Evidence]:
    """`w` is `params[1][0]`, in pass 2 of the loop: by the identity of the objects in the frame."""
    loops = [node for node in failing.site.around if isinstance(node, ast.For)]
    found = []
    for loop in loops:
        for node in (node for node in nodes if isinstance(node, ast.Name)):
            value = failing.scope.locals.get(node.id)
            for name, container in _walked(failing, loop.iter):
                path = None if value is None else path_of(value, container, name)
                if path is not None and path != name:
                    step = _index(path, name)
                    words = "" if step is None else f", in pass {step + 1} of the loop"
                    found.append(Evidence(f"`{node.id}` is `{path}`{words}", failing.site.span_of(loop)))
    return found


def _walked(failing: Failing, node: ast.expr) -> list[tuple[str, Any]]:
    """The containers that a loop goes through, looked for inside `zip` and `enumerate`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("zip", "enumerate"):
        return [pair for arg in node.args for pair in _walked(failing, arg)]
    value = failing.scope.get(node)
    return [] if value is None else [(failing.text(node), value)]


def _index(path: str, name: str) -> int | None:
    number = path[len(name) :].partition("]")[0].lstrip("[")
    return int(number) if number.isdigit() else None
