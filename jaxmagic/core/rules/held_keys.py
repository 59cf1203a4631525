"""A random key that the user's code has at hand, for a fix that needs one."""

import ast

from jaxmagic.core.failures.operands import aval_of
from jaxmagic.core.failures.sites import Site
from jaxmagic.core.rules.rewrite import alias, call, expression
from jaxmagic.records import Aval


def key_for(site: Site, node: ast.expr) -> ast.expr:
    """A key that the function has, folded where it was used before; a new one where it has none."""
    random = f"{alias(site.scope, 'jax')}.random"
    name = held_key(site)
    if not name:
        return expression(f"{random}.key(0)")
    body = site.definition.body if isinstance(site.definition, ast.FunctionDef) else []
    before = [part for statement in body for part in ast.walk(statement) if isinstance(part, ast.Name)]
    used = sum(part.id == name and part.lineno < node.lineno for part in before)
    return call(f"{random}.fold_in", ast.Name(name), ast.Constant(used)) if used else ast.Name(name)


def held_key(site: Site) -> str:
    """The name of a key among the variables of the function; empty where it has none, or at the top level."""
    if site.definition is None:
        return ""
    held = ((name, aval_of(value)) for name, value in site.scope.locals.items() if not name.startswith("_"))
    found = [name for name, aval in held if is_key(aval)]
    return next((name for name in found if "drop" in name), next(iter(found), ""))


def is_key(aval: Aval | None) -> bool:
    """Whether it is one key, of either style."""
    if aval is None:
        return False
    return (aval.dtype.startswith("key<") and not aval.shape) or (aval.dtype == "uint32" and aval.shape == (2,))
