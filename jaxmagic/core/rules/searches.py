"""A Python loop that ends early on a traced condition, rewritten as a loop whose finished lanes stand still."""

import ast

from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import alias, indented, text, whole
from jaxmagic.core.source.nodes import loaded, stored
from jaxmagic.records import Span


def rewritten(failing: Failing, node: ast.If, condition: ast.expr) -> tuple[str, Span | None]:
    """`for i in range(n): …; if done: return i` and the `return` after it, as one `fori_loop` that counts.

    The loop goes on to its end, as a compiled loop must for a batch; once a lane is done, its variables are kept as
    they are and its result no longer changes.

    Args:
        failing: The error.
        node: The `if` that returns.
        condition: Its test, as an array expression.

    Returns:
        The code and what it stands in for; empty where the loop has another form.
    """
    around = failing.site.around
    loop = next((outer for outer in around if isinstance(outer, ast.For)), None)
    after = _after(around, loop)
    match loop, node, after:
        case (
            ast.For(target=ast.Name(id=index), iter=ast.Call(func=ast.Name(id="range"), args=[count]), orelse=[]),
            ast.If(body=[ast.Return(value=ast.expr() as found)], orelse=[]),
            ast.Return(value=ast.expr() as missed),
        ) if loop.body[-1] is node and _plain(loop.body[:-1]):
            steps = loop.body[:-1]
        case _:
            return "", None
    carried = [
        name for name in stored(*steps) if name in failing.scope.locals and _needed(name, steps, condition, found)
    ]
    state = ", ".join([*carried, "done", "result"])
    jnp, lax = alias(failing.scope, "jax.numpy"), alias(failing.scope, "jax.lax")
    kept = [f"{name} = {jnp}.where(done, old_{name}, {name})" for name in carried]
    lines = [
        f"{state} = state",
        *(f"old_{name} = {name}" for name in carried),
        *(text(step) for step in steps),
        *kept,
        f"hit = {jnp}.logical_and({jnp}.logical_not(done), {text(condition)})",
        f"result = {jnp}.where(hit, {text(found)}, result)",
        f"return {', '.join([*carried, 'done | hit', 'result'])}",
    ]
    start = ", ".join([*carried, "False", text(missed)])
    code = (
        f"def step({index}, state):\n{indented(chr(10).join(lines))}\n"
        f"*_, result = {lax}.fori_loop(0, {text(count)}, step, ({start}))\nreturn result"
    )
    return code, whole(failing.site, loop, after)


def _after(around: tuple[ast.AST, ...], loop: ast.For | None) -> ast.stmt | None:
    """The statement that follows the loop."""
    for outer in around:
        block = getattr(outer, "body", None)
        if isinstance(block, list) and loop in block[:-1]:
            return block[block.index(loop) + 1]
    return None


def _plain(steps: list[ast.stmt]) -> bool:
    """Only assignments to plain names."""
    return all(
        (isinstance(step, ast.AugAssign) and isinstance(step.target, ast.Name))
        or (isinstance(step, ast.Assign) and all(isinstance(target, ast.Name) for target in step.targets))
        for step in steps
    )


def _needed(name: str, steps: list[ast.stmt], condition: ast.expr, found: ast.expr) -> bool:
    """Whether a pass reads what the pass before it left: only then it has to be carried."""
    for step in steps:
        if name in loaded(step) or (isinstance(step, ast.AugAssign) and name in stored(step)):
            return True
        if name in stored(step):
            return False
    return name in loaded(condition) | loaded(found)
