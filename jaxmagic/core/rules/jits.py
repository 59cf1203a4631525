"""The `jax.jit` that traces a function, found in the source, and the same with static arguments."""

import ast
from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxmagic.core.failures.operands import aval_of, is_array
from jaxmagic.core.failures.provenance import argument_given
from jaxmagic.core.failures.sites import Site
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import made_from
from jaxmagic.core.rules.rewrite import extended, replaced, text
from jaxmagic.core.rules.tracers_kept import tracers
from jaxmagic.core.rules.wording import reaching
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Span

Fix = tuple[str, Span | None]

_UNKNOWN = object()


def settings(failing: Failing, *nodes: ast.AST) -> list[str]:
    """Parameters of the jitted function that these expressions of the failing one are computed from.

    Empty where that can't be told, or where one of them got an array, which can't be static.
    """
    level = _level(failing)
    if level is None:
        return []
    names = dict.fromkeys(name for name in failing.depends_on if name.isidentifier())
    names.update(dict.fromkeys(_passed_on(failing, level, nodes)))
    if not names or (failing.depends_on and not all(name.isidentifier() for name in failing.depends_on)):
        return []
    return list(names) if all(_may_be_static(failing, level, name) for name in names) else []


def static_fix(failing: Failing, names: list[str]) -> Fix:
    """The `jax.jit` of the failing function with these parameters static; empty where it can't be found."""
    return next(_with_names(failing, names), ("", None)) if names else ("", None)


def _level(failing: Failing) -> int | None:
    """Which of the user's frames is that of the jitted function."""
    jitted = (any(name.startswith("jit ") for name in site.entered) for site in failing.sites)
    return next((level for level, found in enumerate(jitted) if found), None)


def _passed_on(failing: Failing, level: int, nodes: tuple[ast.AST, ...]) -> list[str]:
    """Names of the jitted function's parameters, from those of the innermost one outwards."""
    for site, caller in zip(failing.sites[:level], failing.sites[1 : level + 1], strict=True):
        names = _reached(site, nodes)
        given = [argument_given(site, caller, name) for name in names]
        if _hands_on(caller):
            return names
        if not given or any(node is None for node in given):
            return []
        nodes = tuple(node for node in given if node is not None)
    return _reached(failing.sites[level], nodes)


def _hands_on(site: Site) -> bool:
    """Whether it is a wrapper that calls the function with just what it got: JAX speaks of that one's parameters."""
    return isinstance(site.node, ast.Call) and any(isinstance(arg, ast.Starred) for arg in site.node.args)


def _reached(site: Site, nodes: tuple[ast.AST, ...]) -> list[str]:
    reached, held = reaching(site, *nodes), site.scope.locals
    return [name for name in site.parameters if name in reached and next(tracers(held.get(name)), None) is not None]


def _may_be_static(failing: Failing, level: int, name: str) -> bool:
    """Whether the caller passed something hashable; where that can't be seen, whether it came as a Python number."""
    site, callers = failing.sites[level], failing.sites[level + 1 :]
    given = argument_given(site, callers[0], name) if callers else None
    value = callers[0].scope.get(given, _UNKNOWN) if given is not None else _UNKNOWN
    if value is _UNKNOWN:
        held = (site.scope.locals[name] for site in reversed(failing.sites[: level + 1]) if name in site.scope.locals)
        aval = aval_of(next(held, None))
        return aval is None or (aval.shape == () and (aval.weak or aval.dtype == "bool"))
    return isinstance(value, np.generic) or (not is_array(value) and _hashable(value))


def _hashable(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_hashable(part) for part in value)
    return value is None or isinstance(value, int | float | str) or callable(value)


def _with_names(failing: Failing, names: list[str]) -> Iterator[Fix]:
    level = _level(failing)
    for site in reversed(failing.sites[: 0 if level is None else level + 1]):
        if isinstance(site.definition, ast.FunctionDef) and set(names) <= set(site.parameters):
            for decorator in site.definition.decorator_list:
                if is_jit(site, decorator):
                    fixed = with_statics(decorator, names, site.parameters)
                    yield "@" + text(fixed), with_at(site.span_of(decorator))
    callers = failing.sites if level is None else failing.sites[level + 1 : level + 2]
    for site in callers:
        order = failing.sites[level].parameters if level is not None else None
        for jitted in jit_calls(site):
            yield text(with_statics(jitted, names, order)), site.span_of(jitted)
        for file, jitted in made_by(failing, site.node.func if isinstance(site.node, ast.Call) else None):
            yield text(with_statics(jitted, names, order)), span_of(file, jitted)


def with_at(span: Span) -> Span:
    """A decorator with its `@`."""
    return Span(span.file, span.line, span.column - 1, span.end_line, span.end_column)


def is_jit(site: Site, node: ast.expr) -> bool:
    """Whether an expression is `jax.jit`, also with arguments or in a `partial`."""
    match node:
        case ast.Call(func=ast.Name(id="partial") | ast.Attribute(attr="partial"), args=[first, *_]):
            return is_jit(site, first)
        case ast.Call(func=function):
            return is_jit(site, function)
        case ast.Name(id="jit") | ast.Attribute(attr="jit", value=ast.Name(id="jax" | "nnx")):
            return True
    return False


def jit_calls(site: Site) -> list[ast.Call]:
    """`jax.jit(f)` inside the expression that called the traced function."""
    return _jits_in(site, site.node) if site.node is not None else []


def _jits_in(site: Site, node: ast.AST) -> list[ast.Call]:
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call) and part.args]
    return [part for part in calls if is_jit(site, part.func) and not isinstance(part.func, ast.Call)]


def made_by(failing: Failing, function: ast.expr | None) -> Iterator[tuple[str, ast.Call]]:
    """The `jax.jit(f, …)` that a called name or attribute was assigned from, in the newest file that has one."""
    for file, value in made_from(failing, function):
        yield from ((file, jitted) for jitted in _jits_in(failing.site, value))


def with_statics(node: ast.expr, names: list[str], order: list[str] | None = None) -> ast.expr:
    """A jit with further static arguments, by position where it has positions already: JAX doesn't join the two.

    Args:
        node: `jax.jit`, `jax.jit(f)`, `partial(jax.jit, …)`.
        names: The parameters to make static.
        order: All parameters of the function, where they are known.
    """
    value: ast.expr = ast.Constant(names[0]) if len(names) == 1 else ast.Tuple([ast.Constant(n) for n in names])
    if not isinstance(node, ast.Call):
        return ast.Call(node, [], [ast.keyword("static_argnames", value)])
    numbers = next((word for word in node.keywords if word.arg == "static_argnums"), None)
    existing = next((word for word in node.keywords if word.arg == "static_argnames"), None)
    if numbers is not None and existing is None and order is not None and set(names) <= set(order):
        return replaced(node, numbers.value, _joined(numbers.value, [order.index(name) for name in names]))
    if existing is None:
        return extended(node, static_argnames=value)
    return replaced(node, existing.value, _joined(existing.value, names))


def _joined(value: ast.expr, further: list[str] | list[int]) -> ast.Tuple:
    """One or several static arguments, and further ones."""
    listed = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    return ast.Tuple([*listed, *(ast.Constant(each) for each in further)])
