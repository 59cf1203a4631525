"""Conditions on traced arrays, rewritten as choices that stay inside the program."""

import ast

from jaxmagic.core.rules import searches, traced_loops
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import alias, call, copied, indented, straight, text, tupled, whole
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
            return traced_loops.while_loop(failing, owner, condition)
        case ast.Assert(msg=message):
            return _assert(failing, owner, condition, message)
        case ast.comprehension():
            return _masked_sum(failing, owner)
        case None if isinstance(test, ast.BoolOp) and (fix := _value(failing, test))[0]:
            return fix
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
    if not (straight(node.body) and straight(node.orelse)):
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


def _assert(failing: Failing, node: ast.Assert, condition: ast.expr, message: ast.expr | None) -> Fix:
    """`checkify` carries the check inside the program, where the caller asks for it."""
    jnp = alias(failing.scope, "jax.numpy")
    said = message if isinstance(message, ast.Constant) else ast.Constant(text(copied(node.test)))
    check = call("checkify.debug_check", call(f"{jnp}.all", condition), said)
    traced = next((site.function for site in failing.sites if site.entered), failing.site.function).rpartition(".")[2]
    lines = [
        "from jax.experimental import checkify",
        text(check),
        f"# it is looked at by: error, result = checkify.checkify({traced})(…); error.throw()",
    ]
    return "\n".join(lines), whole(failing.site, node)


def _value(failing: Failing, test: ast.BoolOp) -> Fix:
    """`x or y` as a value: a default for None, or the choice that Python makes by the truth of `x`."""
    first, *rest = test.values
    if failing.aval(first) is not None and str(getattr(failing.aval(first), "dtype", "")) == "bool":
        return "", None
    if len(rest) != 1 or not isinstance(first, ast.Name | ast.Attribute):
        return "", None
    either = isinstance(test.op, ast.Or)
    if isinstance(first, ast.Name) and _may_be_none(failing, first.id):
        known = text(first)
        other = text(rest[0])
        code = f"{known} if {known} is not None else {other}" if either else f"{other} if {known} is not None else None"
        return f"({code})", failing.site.span_of(test)
    yes, no = (first, rest[0]) if either else (rest[0], first)
    return text(_where(failing, first, yes, no)), failing.site.span_of(test)


def _may_be_none(failing: Failing, name: str) -> bool:
    """Whether a parameter's default is None."""
    definition = failing.site.definition
    if definition is None:
        return False
    ordered = [*definition.args.posonlyargs, *definition.args.args]
    defaults = definition.args.defaults
    pairs = [
        *zip(ordered[len(ordered) - len(defaults) :], defaults, strict=True),
        *zip(definition.args.kwonlyargs, definition.args.kw_defaults, strict=True),
    ]
    return any(
        arg.arg == name and isinstance(default, ast.Constant) and default.value is None for arg, default in pairs
    )


def _masked_sum(failing: Failing, clause: ast.comprehension) -> Fix:
    """`sum(x for x in xs if x > 0)`: what is left out counts as 0."""
    for outer in failing.site.around:
        match outer:
            case ast.Call(func=ast.Name(id="sum") as function, args=[ast.GeneratorExp() | ast.ListComp() as made]):
                if made.generators[-1] is not clause or len(clause.ifs) != 1:
                    break
                chosen = _where(failing, clause.ifs[0], made.elt, ast.Constant(0))
                last = ast.comprehension(clause.target, clause.iter, [], clause.is_async)
                every = ast.GeneratorExp(chosen, [*made.generators[:-1], last])
                return text(ast.Call(function, [every], [])), failing.site.span_of(outer)
    return "", None
