"""Which pass of a Python loop failed, and which element of a container an operand is."""

import ast
from typing import Any

from jaxmagic.core.failures.sites import path_of
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.source.nodes import stored
from jaxmagic.records import Evidence


def loop_evidence(failing: Failing, nodes: list[ast.expr]) -> list[Evidence]:
    """`w` is `params[1][0]`, in pass 2 of the loop: by the identity of the objects in the frame."""
    loops = [node for node in failing.site.around if isinstance(node, ast.For)]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    found = []
    for loop in loops:
        paths = [(node, path, step) for node in names for path, step in element(failing, loop, node)]
        for node, path, step in paths:
            words = "" if step is None else f", in pass {step + 1} of the loop"
            found.append(Evidence(f"`{node.id}` is `{path}`{words}", failing.site.span_of(loop)))
        passes = [step for _, _, step in paths if step]
        found += [_carried(failing, loop, node, passes[0]) for node in names if passes and _is_carried(loop, node)]
    return found


def element(failing: Failing, loop: ast.For, node: ast.Name) -> list[tuple[str, int | None]]:
    """Which element of what the loop goes through a variable is, and in which pass, from 0."""
    value = failing.scope.locals.get(node.id)
    found = []
    for name, container in _walked(failing, loop.iter) if value is not None else ():
        path = path_of(value, container, name)
        if path is not None and path != name:
            found.append((path, _index(path, name)))
    return found


def elements(failing: Failing, node: ast.expr) -> list[str]:
    """The paths of a variable in the containers that the loops around it go through: `params[1][0]`."""
    loops = [each for each in failing.site.around if isinstance(each, ast.For)]
    return [path for loop in loops if isinstance(node, ast.Name) for path, _ in element(failing, loop, node)]


def _is_carried(loop: ast.For, node: ast.Name) -> bool:
    return node.id in stored(*loop.body)


def _carried(failing: Failing, loop: ast.For, node: ast.Name, step: int) -> Evidence:
    """The statement of the pass before that gave a variable the value it has."""
    write = [each for each in loop.body if node.id in stored(each)][-1]
    told = f"`{node.id}` ({failing.aval(node)}) was written by line {write.lineno} in pass {step}"
    return Evidence(told, failing.site.span_of(write))


def _walked(failing: Failing, node: ast.expr) -> list[tuple[str, Any]]:
    """The containers that a loop goes through, looked for inside `zip` and `enumerate`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("zip", "enumerate"):
        return [pair for arg in node.args for pair in _walked(failing, arg)]
    value = failing.scope.get(node)
    return [] if value is None else [(failing.text(node), value)]


def _index(path: str, name: str) -> int | None:
    number = path[len(name) :].partition("]")[0].lstrip("[")
    return int(number) if number.isdigit() else None
