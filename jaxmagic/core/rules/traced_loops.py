"""Python loops that a traced value would have to end, rewritten as loops inside the program."""

import ast

from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import alias, indented, straight, text, tupled, whole
from jaxmagic.core.source.nodes import is_read_first, loaded, stored
from jaxmagic.records import Span

Fix = tuple[str, Span | None]


def while_loop(failing: Failing, node: ast.While, condition: ast.expr) -> Fix:
    """`while` on a traced condition as `jax.lax.while_loop`."""
    names = _carried(failing, node, loaded(condition))
    if not names or node.orelse or not straight(node.body):
        return "", None
    state = tupled(names)
    body = indented(text(*node.body, ast.parse(f"return {state}").body[0]))
    loop = f"{alias(failing.scope, 'jax.lax')}.while_loop"
    if len(names) == 1:
        code = f"def step({state}):\n{body}\n{state} = {loop}(lambda {state}: {text(condition)}, step, {state})"
    else:
        unpack = indented(f"{state} = state")
        code = (
            f"def running(state):\n{unpack}\n    return {text(condition)}\n"
            f"def step(state):\n{unpack}\n{body}\n"
            f"{state} = {loop}(running, step, ({state}))"
        )
    return code, whole(failing.site, node)


def fori_loop(failing: Failing) -> Fix:
    """`for i in range(n)` of traced length as `jax.lax.fori_loop`, where the failing expression is its range."""
    node = next((outer for outer in failing.site.around if isinstance(outer, ast.For)), None)
    match node:
        case ast.For(target=ast.Name(id=index), iter=ast.Call(func=ast.Name(id="range"), args=bounds), orelse=[]):
            names = _carried(failing, node, set())
        case _:
            return "", None
    if not names or node.iter is not failing.node or len(bounds) > 2 or not straight(node.body):
        return "", None
    if index in _read_after(failing, node):
        return "", None
    start, stop = (ast.Constant(0), *bounds) if len(bounds) == 1 else bounds
    state = tupled(names)
    taken, unpack = (state, "") if len(names) == 1 else ("state", indented(f"{state} = state") + "\n")
    body = indented(text(*node.body, ast.parse(f"return {state}").body[0]))
    first = state if len(names) == 1 else f"({state})"
    loop = f"{alias(failing.scope, 'jax.lax')}.fori_loop({text(start)}, {text(stop)}, step, {first})"
    return f"def step({index}, {taken}):\n{unpack}{body}\n{state} = {loop}", whole(failing.site, node)


def _carried(failing: Failing, loop: ast.While | ast.For, asked: set[str]) -> list[str]:
    """Names that a pass hands on to the next one or to what follows; none where one of them had no value before."""
    body = loop.body
    written = stored(*body)
    before = _written_before(failing, loop)
    first = [name for name in written if name in asked or is_read_first(name, body)]
    if any(name not in before for name in [*first, *(name for name in written if name in _read_after(failing, loop))]):
        return []
    return [name for name in written if name in before]


def _written_before(failing: Failing, loop: ast.stmt) -> set[str]:
    definition = failing.site.definition
    if not isinstance(definition, ast.FunctionDef):
        return set(failing.scope.locals)
    above = [part for part in ast.walk(definition) if isinstance(part, ast.stmt) and part.lineno < loop.lineno]
    plain = [part for part in above if not hasattr(part, "body")]
    return {*failing.site.parameters, *stored(*plain)}


def _read_after(failing: Failing, loop: ast.stmt) -> set[str]:
    """Names that the function reads below the loop."""
    body = failing.site.definition or failing.site.tree
    end = loop.end_lineno or loop.lineno
    below = [part for part in ast.walk(body) if isinstance(part, ast.stmt) and part.lineno > end] if body else []
    return {name for part in below for name in loaded(part)}
