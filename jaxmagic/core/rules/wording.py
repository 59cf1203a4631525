"""Sentences and snippets that several rules share."""

import ast

from jaxmagic.core.failures.operands import is_tracer
from jaxmagic.core.failures.sites import Site
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.records import Evidence


def listed(names: tuple[str, ...] | list[str]) -> str:
    """`a`, `a` and `b`, `a`, `b` and `c`: each in back quotes."""
    quoted = [f"`{name}`" for name in names]
    return " and ".join(filter(None, [", ".join(quoted[:-1]), *quoted[-1:]]))


def parameters(site: Site) -> list[str]:
    """Names of the positional and keyword parameters of a frame's function."""
    code = site.frame.f_code
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def traced_parameters(site: Site) -> list[str]:
    return [name for name in parameters(site) if is_tracer(site.scope.locals.get(name))]


def why_traced(failing: Failing) -> str:
    """Why no concrete value exists, in the terms of the transformation at work."""
    under = failing.under
    names = failing.depends_on or tuple(traced_parameters(failing.site))
    origin = f" It depends on {listed(names)}." if names else ""
    if under == "vmap":
        return (
            f"Under vmap it stands for a whole batch, one value per example, so it has no single answer.{origin} "
            "There is no jit here, so `static_argnums` is no help."
        )
    if under.startswith("jit "):
        return f"While jit traces `{under[4:]}` only its shape and dtype are known, not its value.{origin}"
    if under in ("grad", "jvp", "jacobian"):
        return f"Under {under} it is a tracer that records derivatives, which code outside JAX can't follow.{origin}"
    where = f"a {under}" if under else "a transformation"
    return f"The function is being traced for {where}: only shape and dtype are known, not the value.{origin}"


def origins(failing: Failing, *nodes: ast.AST) -> tuple[Evidence, ...]:
    """Shapes of the nodes, and which parameters brought the tracers in."""
    definition = failing.site.definition
    span = failing.site.span_of(definition.args.args[0]) if definition and definition.args.args else None
    names = [name for name in traced_parameters(failing.site) if name in (failing.depends_on or (name,))]
    by = failing.under.partition(" ")[0] or "a transformation"
    brought = [Evidence(f"argument `{name}` of {failing.site.function} is traced by {by}", span) for name in names]
    return (*failing.evidence(*nodes), *brought)
