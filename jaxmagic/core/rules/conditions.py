"""Python asked a traced array for True or False: conditions in sight, and those hidden in built-in functions."""

import ast
from dataclasses import dataclass

from jaxmagic.core.rules import branches, statics
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import alias, call, text
from jaxmagic.core.rules.wording import origins, why_traced
from jaxmagic.core.source.nodes import parts

_BUILTINS = {"min": "minimum", "max": "maximum", "sorted": "sort", "any": "any", "all": "all"}
_LOGICAL = {ast.And: "logical_and", ast.Or: "logical_or"}


@on_error("builtin-on-traced", "a built-in function compares traced arrays: min, max, sorted, any, all, index, …")
def builtin_on_traced(failing: Failing) -> Cause | None:
    """`min(a, b)` evaluates `b < a` as a bool, though no `if` stands in the source; so do `max`, `sorted`,
    `any`, `all`, `list.index`, `list.count` and `list.remove`. The functions of `jax.numpy` of the same meaning
    stay inside the program.

    Sure: the call itself raised.
    """
    node = failing.node
    if failing.kind != "TracerBoolConversionError" or not isinstance(node, ast.Call) or not failing.asked_by_python:
        return None
    match node.func:
        case ast.Name(id=name) if name in ("min", "max", "sorted", "any", "all", "filter", "bool"):
            pass
        case ast.Attribute(attr="index" | "count" | "remove" as name):
            pass
        case _:
            return None
    given = [*node.args, *(parts(node.func) if isinstance(node.func, ast.Attribute) else [])]
    traced = any(failing.traced(part) for part in given)
    compared = " and ".join(failing.shown(part) for part in given) if traced else "what it compares"
    return Cause(
        title=f"the built-in {name}() needs True or False of a traced array",
        explanation=f"`{name}` asks for the truth value of {compared}. {why_traced(failing)}",
        evidence=origins(failing, *parts(node)),
        fix=_builtin_fix(failing, node, name),
        replaces=failing.span,
    )


def _builtin_fix(failing: Failing, node: ast.Call, name: str) -> str:
    jnp = alias(failing.scope, "jax.numpy")
    match name, node.keywords, node.args:
        case "sorted", [ast.keyword(arg="reverse", value=ast.Constant(value=bool(backwards)))], [array]:
            down = {"descending": ast.Constant(True)} if backwards else {}
            return text(call(f"{jnp}.sort", _as_array(failing, array, jnp), **down))
        case "sorted", [ast.keyword(arg="key", value=ast.Lambda() as key)], [ast.Call(func=ast.Name(id="range"))]:
            match key.args.args, key.body:
                case [ast.arg(arg=at)], ast.Subscript(value=array, slice=ast.Name(id=by)) if at == by:
                    return text(call(f"{jnp}.argsort", array))
    if name not in _BUILTINS or node.keywords or not node.args:
        return ""
    if len(node.args) == 1:
        (given,) = node.args
        listed = isinstance(given, ast.Starred)
        array = call(f"{jnp}.stack", given.value) if listed else _as_array(failing, given, jnp)
        single = {"min": "min", "max": "max"}.get(name, _BUILTINS[name])
        return text(call(f"{jnp}.{single}", array))
    if name not in ("min", "max") or any(isinstance(given, ast.Starred) for given in node.args):
        return ""
    folded = node.args[0]
    for argument in node.args[1:]:
        folded = call(f"{jnp}.{_BUILTINS[name]}", folded, argument)
    return text(folded)


def _as_array(failing: Failing, node: ast.expr, jnp: str) -> ast.expr:
    """Lists of scalars have to be stacked; generator expressions become lists first."""
    if isinstance(node, ast.GeneratorExp):
        return call(f"{jnp}.stack", ast.ListComp(node.elt, node.generators))
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and failing.aval(node) is not None:
        return node
    return call(f"{jnp}.stack", node) if isinstance(node, ast.List | ast.ListComp | ast.Name) else node


@on_error("condition-on-traced", "if, while, assert, and, or, not, in or a comparison chain on a traced array")
def condition_on_traced(failing: Failing) -> Cause | None:
    """A Python condition needs one True or False while the function is traced, when arrays have no values yet:
    `if`, `while`, `assert`, a conditional expression, `and`, `or`, `not`, `in`, `a < b < c`, a comprehension's
    `if`. Choose with `jax.numpy.where`, `jax.lax.cond` or `jax.lax.while_loop`, which stay inside the program; or
    mark the argument static, if it is a setting rather than data.

    Sure: the condition itself raised.
    """
    if failing.kind != "TracerBoolConversionError" or not isinstance(failing.node, ast.expr):
        return None
    if not failing.asked_by_python and failing.machinery:
        return _inside_library(failing, failing.node)
    condition = _condition(failing)
    fix, replaces = statics.setting_fix(failing, condition.test)
    if not fix:
        fix, replaces = branches.rewritten(failing, condition.owner, condition.test, logical(failing, condition.test))
    return Cause(
        title=f"{condition.words} a traced array",
        explanation=f"{condition.asks} {failing.shown(condition.asked)} is True or False. {why_traced(failing)}",
        evidence=origins(failing, *parts(condition.test)),
        fix=fix,
        replaces=replaces,
    )


def _inside_library(failing: Failing, node: ast.expr) -> Cause:
    library = failing.machinery[-1].f_globals.get("__name__", "").partition(".")[0]
    for frame in reversed(failing.machinery):
        library = frame.f_globals.get("__name__", "").partition(".")[0]
        if library not in ("jax", "jaxlib"):
            break
    return Cause(
        title=f"`{failing.text(node)}` needs True or False of a traced array",
        explanation=f"An `if` in the code of `{library}` that it runs asks for it. {why_traced(failing)}",
        evidence=origins(failing, *parts(node)),
    )


@dataclass(frozen=True)
class _Condition:
    test: ast.expr
    """The whole condition, `and`s and `not`s included."""
    owner: ast.AST | None
    """What asks: an `If`, a `While`, …; the expression's own parent otherwise."""

    @property
    def asked(self) -> ast.expr:
        """Whose truth Python asked for: of `x or y` as a value, that of `x`."""
        value = isinstance(self.test, ast.BoolOp) and self.owner is None
        return self.test.values[0] if isinstance(self.test, ast.BoolOp) and value else self.test

    @property
    def words(self) -> str:
        return {
            ast.If: "an `if` on",
            ast.While: "a `while` on",
            ast.Assert: "an `assert` on",
            ast.IfExp: "a conditional expression on",
            ast.comprehension: "a comprehension's `if` on",
            ast.Match: "a `match` on",
        }.get(type(self.owner), _OPERATORS.get(_operator(self.test), "a truth value of"))

    @property
    def asks(self) -> str:
        keyword = {
            ast.If: "if",
            ast.While: "while",
            ast.Assert: "assert",
            ast.IfExp: "if … else",
            ast.Match: "match",
        }.get(type(self.owner))
        return f"Python's `{keyword}` asks whether" if keyword else "Python asks whether"


_OPERATORS = {
    ast.And: "`and` of",
    ast.Or: "`or` of",
    ast.Not: "`not` of",
    ast.In: "`in` with",
    ast.NotIn: "`not in` with",
    ast.Compare: "a chained comparison of",
}


def _operator(test: ast.expr) -> type:
    match test:
        case ast.BoolOp(op=op) | ast.UnaryOp(op=op):
            return type(op)
        case ast.Compare(ops=[op]):
            return type(op)
    return type(test)


def _condition(failing: Failing) -> _Condition:
    test = failing.node
    assert isinstance(test, ast.expr)
    for outer in failing.site.around:
        match outer:
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()) | ast.Compare():
                test = outer
            case ast.If(test=inner) | ast.While(test=inner) | ast.Assert(test=inner) | ast.IfExp(test=inner):
                return _Condition(test, outer if inner is test else None)
            case ast.comprehension(ifs=conditions) if test in conditions:
                return _Condition(test, outer)
            case ast.Match(subject=subject) if subject is test:
                return _Condition(test, outer)
            case _:
                return _Condition(test, None)
    return _Condition(test, None)


def logical(failing: Failing, test: ast.expr) -> ast.expr:
    """The condition as an array expression: `and` is `jnp.logical_and`, a chain is split, `in` is `jnp.isin`."""
    jnp = alias(failing.scope, "jax.numpy")
    match test:
        case ast.BoolOp(op=op, values=[first, *rest]):
            folded = logical(failing, first)
            for value in rest:
                folded = call(f"{jnp}.{_LOGICAL[type(op)]}", folded, logical(failing, value))
            return folded
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return call(f"{jnp}.logical_not", logical(failing, operand))
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[container]):
            found = call(f"{jnp}.isin", left, call(f"{jnp}.asarray", container))
            return found if isinstance(op, ast.In) else call(f"{jnp}.logical_not", found)
        case ast.Compare(left=left, ops=ops, comparators=comparators) if len(ops) > 1:
            starts = [left, *comparators]
            pairs = [ast.Compare(start, [op], [end]) for start, op, end in zip(starts, ops, comparators, strict=False)]
            return logical(failing, ast.BoolOp(ast.And(), list(pairs)))
    return test
