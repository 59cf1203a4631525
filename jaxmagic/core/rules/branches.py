"""Conditions on traced arrays, rewritten as choices that stay inside the program."""

import ast
import copy

from jaxmagic.core.rules import searches
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import alias, call, indented, text, tupled, whole
from jaxmagic.core.source.nodes import stored
from jaxmagic.records import Span

Fix = tuple[str, Span | None]
"""Code, and the span it stands in for."""


def rewritten(failing: Failing, owner: ast.AST | None, test: ast.expr, condition: ast.expr) -> Fix:
    """The user's own statement or expression, choosing with `where`, `cond` or `while_loop`; empty where no
    rewriting is certain to mean the same.

    Args:
        failing: The error.
        owner: What asked for the truth value.
        test: The condition as it stands.
        condition: The condition as an array expression.
    """
    match owner:
        case ast.IfExp(body=body, orelse=orelse):
            return text(_where(failing, condition, body, orelse)), failing.site.span_of(owner)
        case ast.If():
            return _if(failing, owner, condition)
        case ast.While():
            return _while(failing, owner, condition)
        case ast.Assert(msg=message):
            return _assert(failing, owner, condition, message)
        case None if condition is not test:
            return text(condition), failing.site.span_of(test)
    return "", None


def _where(failing: Failing, condition: ast.expr, yes: ast.expr, no: ast.expr) -> ast.expr:
    return call(f"{alias(failing.scope, 'jax.numpy')}.where", condition, yes, no)


def _if(failing: Failing, node: ast.If, condition: ast.expr) -> Fix:
    fix = searches.rewritten(failing, node, condition)
    if fix[0]:
        return fix
    following = _following(failing, node)
    match node.body, node.orelse, following:
        case [ast.Return(value=ast.expr() as yes)], [ast.Return(value=ast.expr() as no)], _:
            return text(ast.Return(_where(failing, condition, yes, no))), whole(failing.site, node)
        case [ast.Return(value=ast.expr() as yes)], [], ast.Return(value=ast.expr() as no):
            return text(ast.Return(_where(failing, condition, yes, no))), whole(failing.site, node, following)
    yes, no = _assigned(node.body), _assigned(node.orelse)
    if yes is not None and no is not None and len(yes.keys() | no.keys()) == 1:
        (name,) = yes.keys() | no.keys()
        same = ast.Name(name, ast.Load())
        choice = _where(failing, condition, yes.get(name, same), no.get(name, same))
        return text(ast.Assign([ast.Name(name, ast.Store())], choice, lineno=0)), whole(failing.site, node)
    return _cond(failing, node, condition)


def _following(failing: Failing, node: ast.stmt) -> ast.stmt | None:
    """The statement after `node` in its block."""
    for outer in failing.site.around:
        for block in (getattr(outer, "body", None), getattr(outer, "orelse", None)):
            if isinstance(block, list) and node in block[:-1]:
                return block[block.index(node) + 1]
    return None


def _assigned(block: list[ast.stmt]) -> dict[str, ast.expr] | None:
    """Name → expression of a block that is at most one assignment; None for any other block."""
    match block:
        case [] | [ast.Pass()]:
            return {}
        case [ast.Assign(targets=[ast.Name(id=name)], value=value)]:
            return {name: value}
        case [ast.AugAssign(target=ast.Name(id=name), op=op, value=value)]:
            return {name: ast.BinOp(ast.Name(name, ast.Load()), op, value)}
    return None


def _cond(failing: Failing, node: ast.If, condition: ast.expr) -> Fix:
    """Branches of several assignments become two functions of the names they change."""
    if not (_straight(node.body) and _straight(node.orelse)):
        return "", None
    names = stored(*node.body, *node.orelse)
    if not names or any(name not in failing.scope.locals for name in names):
        return "", None
    state = tupled(names)
    branches = [
        f"def {title}({state}):\n" + indented(text(*block, ast.parse(f"return {state}").body[0]))
        for title, block in (("when_true", node.body), ("when_false", node.orelse))
    ]
    cond = f"{alias(failing.scope, 'jax.lax')}.cond"
    chosen = f"{state} = {cond}({text(condition)}, when_true, when_false, {state})"
    return "\n".join([*branches, chosen]), whole(failing.site, node)


def _straight(block: list[ast.stmt]) -> bool:
    """Only assignments to plain names, so that the block is a function of what it reads."""
    for statement in block:
        match statement:
            case ast.Assign(targets=[ast.Name() | ast.Tuple()]) | ast.AugAssign(target=ast.Name()) | ast.Pass():
                continue
        return False
    return True


def _while(failing: Failing, node: ast.While, condition: ast.expr) -> Fix:
    names = stored(*node.body)
    if node.orelse or not names or not _straight(node.body):
        return "", None
    if any(name not in failing.scope.locals for name in names):
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


def _assert(failing: Failing, node: ast.Assert, condition: ast.expr, message: ast.expr | None) -> Fix:
    """`checkify` carries the check inside the program; `throw` raises outside."""
    jnp = alias(failing.scope, "jax.numpy")
    said = message if isinstance(message, ast.Constant) else ast.Constant(text(copy.deepcopy(node.test)))
    check = call("checkify.check", call(f"{jnp}.all", condition), said)
    lines = ["from jax.experimental import checkify", text(check)]
    name = failing.site.function.rpartition(".")[2]
    lines.append(f"# and call it as: error, result = checkify.checkify({name})(…); error.throw()")
    return "\n".join(lines), whole(failing.site, node)
