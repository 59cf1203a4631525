"""Sentences and snippets that several rules share."""

import ast
from collections.abc import Iterator, Sequence

from jaxmagic.core.failures.operands import STATIC_FIELDS
from jaxmagic.core.failures.sites import Site
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.tracers_kept import tracers
from jaxmagic.core.source.nodes import stored
from jaxmagic.core.source.syntax import parameter_span
from jaxmagic.records import Evidence


def listed(names: tuple[str, ...] | list[str]) -> str:
    """`a`, `a` and `b`, `a`, `b` and `c`: each in back quotes."""
    quoted = [f"`{name}`" for name in names]
    return " and ".join(filter(None, [", ".join(quoted[:-1]), *quoted[-1:]]))


def traced_parameters(failing: Failing, *nodes: ast.AST) -> list[str]:
    """Parameters of the failing function that hold tracers and reach these expressions (the failing one)."""
    site = failing.site
    reached = reaching(site, *(nodes or [node for node in [failing.node] if node is not None]))
    held = site.scope.locals
    return [name for name in site.parameters if name in reached and next(tracers(held.get(name)), None) is not None]


def reaching(site: Site, *nodes: ast.AST) -> set[str]:
    """Names that expressions are computed from, followed back through the function's assignments."""
    names: set[str] = set()
    waiting = [name for node in nodes for name in _read(node)]
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += _read_for(site, name)
    return names


def _read(node: ast.AST) -> Iterator[str]:
    """Names whose values are read; of `x.shape` and `len(x)` only what is known anyway."""
    match node:
        case ast.Attribute(attr=name) if name in STATIC_FIELDS:
            return
        case ast.Call(func=ast.Name(id="len" | "isinstance" | "type")):
            return
        case ast.Name(id=name, ctx=ast.Load()):
            yield name
    for child in ast.iter_child_nodes(node):
        yield from _read(child)


def _read_for(site: Site, name: str) -> list[str]:
    """Names that are read where a name is assigned."""
    body = site.definition.body if isinstance(site.definition, ast.FunctionDef) else []
    found = []
    for node in (part for statement in body for part in ast.walk(statement)):
        match node:
            case ast.Assign(targets=targets, value=value) if name in stored(*targets):
                found += _read(value)
            case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                found += _read(value) if name in stored(target) else ()
            case ast.For(target=target, iter=value) if name in stored(target):
                found += _read(value)
    return found


def why_traced(failing: Failing, *nodes: ast.AST) -> str:
    """Why no concrete value exists, in the terms of the transformation at work.

    Args:
        failing: The error.
        nodes: What has no value, if that is only a part of the failing expression.
    """
    under = failing.under
    names = failing.depends_on or tuple(traced_parameters(failing, *nodes))
    origin = f" It depends on {listed(names)}." if names else ""
    if under == "vmap":
        alone = not any(each.startswith("jit ") for each in failing.transforms)
        return f"Under vmap it stands for a whole batch, one value per example, so it has no single answer.{origin}" + (
            " There is no jit here, so `static_argnums` is no help." if alone else ""
        )
    if under.startswith("jit "):
        name = "the lambda" if under == "jit <lambda>" else f"`{under[4:]}`"
        return f"While jit traces {name} only its shape and dtype are known, not its value.{origin}"
    if under in ("grad", "jvp", "vjp", "jacobian"):
        return f"Under {under} it is a tracer that records derivatives, which code outside JAX can't follow.{origin}"
    where = f"a {under}" if under else "a transformation"
    return f"The function is being traced for {where}: only shape and dtype are known, not the value.{origin}"


def origins(failing: Failing, *nodes: ast.AST, because: Sequence[ast.AST] = ()) -> tuple[Evidence, ...]:
    """Shapes of the nodes, and which parameters brought the tracers in (those of some of the nodes only)."""
    names = [
        name for name in traced_parameters(failing, *(because or nodes)) if name in (failing.depends_on or (name,))
    ]
    by = failing.under.partition(" ")[0] or "a transformation"
    code = failing.site.frame.f_code
    brought = [
        Evidence(f"argument `{name}` of {failing.site.function} is traced by {by}", parameter_span(code, name))
        for name in names
    ]
    return (*failing.evidence(*nodes), *brought)
