"""Functions with a custom_vjp that close over a variable, rewritten to take it as an argument."""

import ast
from typing import NamedTuple

from jaxmagic.core.rules.rewrite import copied, indented, text, with_decorators
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Span

Fix = tuple[str, Span | None]


class _Parts(NamedTuple):
    """What a custom derivative is made of."""

    function: ast.FunctionDef
    forward: ast.FunctionDef | ast.Lambda
    backward: ast.FunctionDef | ast.Lambda
    last: ast.stmt
    """The statement that puts them together."""

    @property
    def arguments(self) -> list[str]:
        return [arg.arg for arg in self.function.args.args]


def with_arguments(file: str, outer: ast.FunctionDef, function: ast.FunctionDef, names: list[str]) -> Fix:
    """The function under its name, calling one with the variables as further arguments, whose rules pass them on.

    The user's rule stays what it is for the arguments; the cotangents of the variables are JAX's own.
    """
    parts = _parts(outer, function)
    if parts is None:
        return "", None
    forward, backward = _forward(parts, names), _backward(parts, names)
    if not forward or not backward:
        return "", None
    name, given = function.name, ", ".join(parts.arguments)
    every = ", ".join([*parts.arguments, *names])
    plain = copied(function)
    plain.name, plain.decorator_list = f"plain_{name}", []
    plain.args.args += [ast.arg(each) for each in names]
    lines = [
        text(plain),
        forward,
        backward,
        f"with_rule = jax.custom_vjp(plain_{name})",
        "with_rule.defvjp(forward, backward)",
        f"def {name}({given}):\n    return with_rule({every})",
    ]
    span, end = with_decorators(file, function), span_of(file, parts.last)
    return "\n".join(lines), Span(file, span.line, span.column, end.end_line, end.end_column)


def _parts(outer: ast.FunctionDef, function: ast.FunctionDef) -> _Parts | None:
    """The pieces, where they stand together in the outer function and have no other between them."""
    if len(function.decorator_list) != 1 or not text(function.decorator_list[0]).endswith("custom_vjp"):
        return None
    defined = {each.name: each for each in outer.body if isinstance(each, ast.FunctionDef)}
    for statement in outer.body:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="defvjp"), args=[one, two])):
                if name != function.name or function not in outer.body:
                    continue
                rules = [defined.get(each.id) if isinstance(each, ast.Name) else each for each in (one, two)]
                between = outer.body[outer.body.index(function) : outer.body.index(statement)]
                forward, backward = rules
                if all(each is function or each in rules for each in between) and _is_rule(forward, backward):
                    return _Parts(function, forward, backward, statement)  # pyright: ignore[reportArgumentType]
    return None


def _is_rule(*rules: object) -> bool:
    return all(isinstance(each, ast.Lambda | ast.FunctionDef) for each in rules)


def _body(rule: ast.FunctionDef | ast.Lambda) -> tuple[list[ast.stmt], ast.expr | None]:
    """The statements of a rule, and what it returns at its end."""
    if isinstance(rule, ast.Lambda):
        return [], rule.body
    last = rule.body[-1]
    return rule.body[:-1], last.value if isinstance(last, ast.Return) else None


def _forward(parts: _Parts, names: list[str]) -> str:
    before, result = _body(parts.forward)
    if not isinstance(result, ast.Tuple) or len(result.elts) != 2:
        return ""
    own = [arg.arg for arg in parts.forward.args.args]
    widened = _Widened(parts.function.name, names)
    value, kept = (widened.visit(copied(each)) for each in result.elts)
    lines = [text(widened.visit(copied(each))) for each in before]
    every = ", ".join([*own, *names])
    lines.append(f"return {text(value)}, ({text(kept)}, ({every}))")
    return f"def forward({every}):\n" + indented("\n".join(lines))


def _backward(parts: _Parts, names: list[str]) -> str:
    before, result = _body(parts.backward)
    own = [arg.arg for arg in parts.backward.args.args]
    if not isinstance(result, ast.Tuple) or len(own) != 2:
        return ""
    listed, count = ", ".join(names), len(parts.arguments)
    lines = [
        f"{own[0]}, inputs = kept",
        f"*_, {listed} = inputs",
        *(text(copied(each)) for each in before),
        f"_, pull = jax.vjp(lambda {listed}: plain_{parts.function.name}(*inputs[:{count}], {listed}), {listed})",
        f"return ({', '.join(text(copied(each)) for each in result.elts)}, *pull({own[1]}))",
    ]
    return f"def backward(kept, {own[1]}):\n" + indented("\n".join(lines))


class _Widened(ast.NodeTransformer):
    """Calls of the function, with the further arguments, as calls of the one without a rule."""

    def __init__(self, name: str, names: list[str]) -> None:
        self.name, self.names = name, names

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == self.name:
            further = [ast.Name(each, ast.Load()) for each in self.names]
            return ast.Call(ast.Name(f"plain_{self.name}", ast.Load()), [*node.args, *further], node.keywords)
        return node
