"""Half of an Equinox model, as `eqx.partition` and `eqx.filter` leave it, used as if it were the whole."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jaxmagic.core.failures.sites import Site
from jaxmagic.core.lines.attributes import MISSING, module_of
from jaxmagic.core.lines.containers import children
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.equinox import is_module
from jaxmagic.core.rules.rewrite import alias, call, replaced, text
from jaxmagic.core.rules.wording import listed
from jaxmagic.core.source.nodes import name_called
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence

_DEEPEST = 8
_SHOWN = 3


@dataclass(frozen=True)
class _Half:
    """One of the values that a statement took a model apart into."""

    file: str
    made: ast.Assign
    name: ast.expr
    partner: ast.expr
    """What holds the rest: the other half, or the model that was filtered."""
    first: bool
    """Whether it comes before its partner in `eqx.combine`."""


@dataclass(frozen=True)
class _Use:
    """An expression of the user's that is such a half, where it is called or looked into."""

    site: Site
    node: ast.expr
    half: _Half
    missing: list[str]
    """Paths at which the half has None, and the partner has something."""


@on_error("eqx-partitioned", "half of an Equinox model, left by `eqx.partition` or `eqx.filter`, is used as the whole")
def eqx_partitioned(failing: Failing) -> Cause | None:
    """`eqx.partition` gives two models of the same class: each has None where the other has a leaf. Neither computes
    anything by itself, and what fails is a None deep inside of a layer. `eqx.combine` puts the two together again,
    inside of the function that is differentiated or compiled.

    Sure: an operation got None, and the model that was used has None where its other half does not.
    """
    if failing.kind not in ("TypeError", "AttributeError", "ValueError") or "None" not in failing.message:
        return None
    used = _used(failing)
    if used is None:
        return None
    half, site = used.half, used.site
    eqx, name = alias(site.scope, "equinox"), site.text(used.node)
    fix = ""
    if isinstance(site.node, ast.expr) and _reaches(site, half):
        both = (used.node, half.partner) if half.first else (half.partner, used.node)
        fix = text(replaced(site.node, used.node, call(f"{eqx}.combine", *both)))
    partner, more = text(half.partner), len(used.missing) - _SHOWN
    parts = listed([name + path for path in used.missing[:_SHOWN]])
    parts = ", ".join(f"`{name}{path}`" for path in used.missing[:_SHOWN]) + f" and {more} more" if more > 0 else parts
    return Cause(
        title=f"`{name}` is only a part of the model: {parts} {'is' if len(used.missing) == 1 else 'are'} None",
        explanation=f"The rest is in `{partner}`. `{eqx}.combine` makes one model of the two again, and that one "
        "can be called.",
        span=site.span,
        evidence=(Evidence("the model is taken apart here", span_of(half.file, half.made)),),
        fix=fix,
        replaces=site.span,
    )


def _used(failing: Failing) -> _Use | None:
    """The half that the failing code was called through: every user frame inside of it is one of a module's method."""
    halves = list(_halves(failing)) if _looks_into_none(failing) else []
    for site in failing.sites if halves else ():
        for node in _called(site.node):
            for half in halves if is_module(site.scope.get(node)) else ():
                if missing := _missing(failing, site, node, half):
                    return _Use(site, node, half, missing)
        if not is_module(_owner(site)):
            return None
    return None


def _looks_into_none(failing: Failing) -> bool:
    """Whether a layer's own code failed, or an attribute that is None in the user's; not `model(x) * mask`."""
    read = [node for node in ast.walk(failing.node or ast.Pass()) if isinstance(node, ast.Attribute)]
    return bool(failing.machinery) or any(failing.scope.get(node, MISSING) is None for node in read)


def _called(node: ast.AST | None) -> Iterator[ast.expr]:
    """What an expression calls, or reads attributes of, outermost first; `self` is what the method was called on."""
    waiting: list[ast.AST] = [node] if node is not None else []
    while waiting:
        part = waiting.pop(0)
        match part:
            case ast.Call(func=function, args=args):
                inner = isinstance(function, ast.Call)
                waiting += [function, *(function.args if inner else ()), *(arg for arg in args if _computes(arg))]
                continue
            case ast.Name() | ast.Attribute() | ast.Subscript() if not _is_self(part):
                yield part
        waiting += ast.iter_child_nodes(part)


def _computes(node: ast.expr) -> bool:
    return not isinstance(node, ast.Name | ast.Lambda)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _owner(site: Site) -> Any:
    """The object whose method a frame runs."""
    return site.scope.locals.get(site.parameters[0]) if site.parameters else None


def _halves(failing: Failing) -> Iterator[_Half]:
    for file, node in failing.nodes():
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=[one, other])], value=ast.Call() as made):
                if name_called(made) == "partition" and _of_equinox(failing, made):
                    yield _Half(file, node, one, other, True)
                    yield _Half(file, node, other, one, False)
            case ast.Assign(targets=[one], value=ast.Call(args=[model, *_]) as made):
                if name_called(made) == "filter" and _of_equinox(failing, made):
                    yield _Half(file, node, one, model, True)


def _of_equinox(failing: Failing, made: ast.Call) -> bool:
    found = (site.scope.get(made.func) for site in failing.sites)
    function = next((each for each in found if each is not None), None)
    return str(getattr(function, "__module__", "")).startswith("equinox")


def _missing(failing: Failing, site: Site, node: ast.expr, half: _Half) -> list[str]:
    """What is None in a value that looks like the half, and is something in its partner."""
    value = site.scope.get(node)
    for around in failing.sites:
        one, other = around.scope.get(half.name), around.scope.get(half.partner)
        if type(one) is type(value) is type(other) and _nones(one) == _nones(value):
            return [path for path in sorted(_nones(value)) if path not in _nones(other)]
    return []


def _nones(value: Any, path: str = "", depth: int = 0) -> set[str]:
    """Paths at which a model has None."""
    if value is None:
        return {path}
    parts = children(value, _never) if depth < _DEEPEST and not module_of(type(value)).startswith("jax") else None
    return {found for step, part in parts or () for found in _nones(part, path + step, depth + 1)}


def _never(cls: type) -> bool:
    return False


def _reaches(site: Site, half: _Half) -> bool:
    """Whether the code of a frame can name the partner: it holds it already, or stands in the function that does."""
    if site.scope.get(half.partner) is not None:
        return True
    around = [node for node in site.around if isinstance(node, ast.FunctionDef | ast.Lambda)]
    return site.file == half.file and any(part is half.made for node in around for part in ast.walk(node))
