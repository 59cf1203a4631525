"""Equinox modules with functions among their leaves, given to transformations of JAX's, which take arrays only."""

import ast
import re
from collections.abc import Iterator
from typing import Any

import jax

from jaxmagic.core.failures.operands import aval_of
from jaxmagic.core.failures.sites import Site
from jaxmagic.core.lines.attributes import class_attribute
from jaxmagic.core.lines.containers import children
from jaxmagic.core.rules.calls import Fix
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.equinox import is_module
from jaxmagic.core.rules.filtered_loops import LOOPS, by_closure, with_arrays_carried
from jaxmagic.core.rules.functions import Function, function_of, made_from
from jaxmagic.core.rules.jits import with_at
from jaxmagic.core.rules.rewrite import Edit, alias, call, copied, expression, merged, replaced, text
from jaxmagic.core.rules.wording import listed
from jaxmagic.core.source.nodes import name_called
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence

_FILTERED = ("jit", "grad", "value_and_grad", "vmap", "checkpoint", "jacfwd", "jacrev", "hessian", "eval_shape")
_KEPT = ("has_aux", "in_axes", "out_axes")
_NEEDLESS = ("donate_argnums", "donate_argnames", "static_argnums", "static_argnames")
"""Keywords of `jax.jit` that Equinox's goes without: what is no array is static there."""

_REFUSED = re.compile(
    r"is not a valid JAX type|problematic value is of type|requires ndarray or scalar arguments|"
    r"Cannot interpret value of type|Cannot determine dtype of|is not a valid JAX array type"
)
_RETURNED = re.compile(
    r"Output from batched function .* is not a valid JAX type|"
    r"returned a value of type <class '[\w.]+'>(?: at output component \S+)?,? which is not a valid JAX type",
    re.DOTALL,
)
_MAPS = ("map", "tree_map")
_LEAVES = ("leaves", "tree_leaves")
_OF_ARRAYS = (*_LEAVES, "ravel_pytree", "global_norm")
"""Functions of a tree that are well served with its arrays alone."""

_REDUCED = (*_LEAVES, "reduce", "tree_reduce", "sum", "all")
_DEEPEST = 6
_MAKERS = ("tree_at", "combine", "apply_updates", "filter", "inference_mode")


@on_error("eqx-filtered", "an Equinox module with functions in it is given to a transformation that takes only arrays")
def eqx_filtered(failing: Failing) -> Cause | None:
    """An Equinox module is a tree whose leaves may be functions: an activation, say. `jax.jit`, `jax.grad`, loops,
    `jax.tree.map` with arithmetic, and optimizers take arrays only. Equinox's own `filter_jit`, `filter_grad` and
    their kin leave the rest alone; `eqx.filter(model, eqx.is_array)` is the part with arrays, and `eqx.partition`
    gives both.

    Sure: JAX refused a leaf, and the module that was handed over has one that is no array.
    """
    if not isinstance(failing.node, ast.expr):
        return None
    if _RETURNED.search(failing.message) and isinstance(failing.node, ast.Call):
        return _returned(failing, failing.node)
    node = failing.node
    if isinstance(node, ast.Call) and (_REFUSED.search(failing.message) or name_called(node) == "apply_updates"):
        leaves = list(_others_given(failing, failing.site, node))
        return _given(failing, failing.site, node, leaves) if leaves else _over_leaves(failing)
    return _over_leaves(failing) if failing.kind == "TypeError" else None


def _over_leaves(failing: Failing) -> Cause | None:
    """A function that `tree.map` called, or a loop over `tree.leaves`, and a leaf that is a function."""
    if not any(_is_function(each) for each in _handed(failing.site)):
        return None
    for site in failing.sites[:2]:
        loops = (node.iter for node in site.around if isinstance(node, ast.For))
        for node in (part for each in (site.statement, *loops) for part in ast.walk(each or ast.Pass())):
            if isinstance(node, ast.Call) and name_called(node) in (*_MAPS, *_LEAVES):
                leaves = list(_others_given(failing, site, node))
                if leaves:
                    return _given(failing, site, node, leaves)
    return None


def _handed(site: Site) -> Iterator[Any]:
    """What the function was called with, and what the names of the failing expression hold."""
    names = {node.id for node in ast.walk(site.node or ast.Pass()) if isinstance(node, ast.Name)}
    for name in (*site.parameters, *names):
        value = site.scope.locals.get(name)
        yield from value if type(value) is tuple else (value,)


def _is_function(value: Any) -> bool:
    return callable(value) and aval_of(value) is None and not isinstance(value, type) and not is_module(value)


def _given(failing: Failing, site: Site, node: ast.Call, leaves: list[tuple[ast.expr, str]]) -> Cause:
    (fix, replaces), way = _fixed(failing, site, node, leaves[0][0])
    leaves = list({name: (arg, name) for arg, name in leaves}.values())
    names = listed([name for _, name in leaves[:3]])
    return Cause(
        title=f"{names} is no array" if len(leaves) == 1 else f"{names} are no arrays",
        explanation=f"A module's functions and settings are leaves of it too, and only arrays are taken here. {way}",
        span=site.span_of(node),
        evidence=tuple(
            Evidence(f"{name} is a leaf of `{site.text(arg)}`", site.span_of(arg)) for arg, name in leaves[:3]
        ),
        fix=fix,
        replaces=replaces,
    )


def _fixed(failing: Failing, site: Site, node: ast.Call, given: ast.expr) -> tuple[Fix, str]:
    """The call with arrays alone, and how that is done."""
    name, eqx = name_called(node), alias(site.scope, "equinox")
    if name == "device_put":
        way = f"`{eqx}.filter_shard` moves the arrays, and leaves the rest alone."
        return (text(replaced(node, node.func, expression(f"{eqx}.filter_shard"))), site.span_of(node)), way
    if name in _OF_ARRAYS:
        return _arrays_of(site, node, given), f"`{eqx}.filter(model, {eqx}.is_array)` is the part with arrays."
    if name == "init":
        return _arrays_of(site, node, given), "The optimizer is made for the arrays: `eqx.filter(model, eqx.is_array)`."
    if name == "apply_updates":
        way = f"`{eqx}.apply_updates` leaves the rest alone."
        return (text(replaced(node, node.func, expression(f"{eqx}.apply_updates"))), site.span), way
    if name in _MAPS:
        return _mapped(site, node), "Change the arrays alone, and leave the other leaves as they are."
    if _is_of_lax(site, node) and name in ("cond", "switch"):
        return by_closure(site, node), "A branch can use the module as it is: it need not be handed over."
    if _is_of_lax(site, node):
        way = f"Carry the arrays: `{eqx}.partition` before the loop, `{eqx}.combine` inside."
        return with_arrays_carried(site, node, given), way
    return _with_filters(
        failing, site, node
    ), "Equinox's transformations (`eqx.filter_jit`, `eqx.filter_grad`, …) leave them alone."


def _is_of_lax(site: Site, node: ast.Call) -> bool:
    name = name_called(node)
    return name in (*LOOPS, "cond", "switch") and site.scope.get(node.func) is getattr(jax.lax, name)


def _others_given(failing: Failing, site: Site, node: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    """Arguments, and the leaves of modules in them that are no arrays."""
    for arg in (*node.args, *(word.value for word in node.keywords)):
        for part in _shown_parts(arg):
            value = failing.value(part) if part is arg and site is failing.site else site.scope.get(part)
            for path, module in _modules(value, "", 0):
                yield from ((part, site.text(part) + path + inner) for inner in other_leaves(module))


def _shown_parts(node: ast.expr) -> Iterator[ast.expr]:
    """An argument, or what a display of a tuple, list or dict shows of it."""
    match node:
        case ast.Tuple(elts=shown) | ast.List(elts=shown) | ast.Dict(values=shown):
            for part in shown:
                yield from _shown_parts(part)
        case ast.Starred(value=part):
            yield part
        case ast.Lambda():
            return
        case _:
            yield node


def _modules(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if is_module(value):
        yield path, value
    elif isinstance(value, tuple | list | dict) and depth < _DEEPEST:
        for step, part in children(value, lambda cls: False) or ():
            yield from _modules(part, path + step, depth + 1)


def other_leaves(value: Any, depth: int = 0) -> Iterator[str]:
    """Paths of the leaves that are no arrays or numbers; static fields are none."""
    parts = children(value, lambda cls: False) if depth < _DEEPEST else None
    fields = class_attribute(type(value), "__dataclass_fields__") if is_module(value) else {}
    for step, part in parts or ():
        field = fields.get(step.lstrip(".")) if isinstance(fields, dict) else None
        if field is not None and field.metadata.get("static"):
            continue
        if callable(part) and children(part, lambda cls: False) is None and aval_of(part) is None:
            yield step
        else:
            yield from (step + inner for inner in other_leaves(part, depth + 1))


def _returned(failing: Failing, node: ast.Call) -> Cause | None:
    """A transformed function that returns a module, functions and all."""
    inner = node.func.args[:1] if isinstance(node.func, ast.Call) else []
    function = function_of(failing.site, inner[0] if inner else node.func)
    made = next((each for each in _results(failing, function) if _makes_module(failing, each)), None)
    if function is None or made is None:
        return None
    fix, replaces = _with_filters(failing, failing.site, node)
    return Cause(
        title=f"`{function.text(made)}` is a module with functions in it, and only arrays can be returned",
        explanation="A module's functions and settings are leaves of it too. Equinox's transformations "
        "(`eqx.filter_jit`, `eqx.filter_vmap`, …) hand them over beside the arrays.",
        evidence=(Evidence("the result is made here", function.span_of(made)),),
        fix=fix,
        replaces=replaces,
    )


def _results(failing: Failing, function: Function | None) -> Iterator[ast.expr]:
    for value in function.returned() if function is not None else ():
        for part in _shown_parts(value):
            made = function.assigned(part.id) if function is not None and isinstance(part, ast.Name) else part
            yield made if made is not None else part


def _makes_module(failing: Failing, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    made = failing.scope.get(node.func)
    library = str(getattr(made, "__module__", "")).startswith("equinox")
    return (library and name_called(node) in _MAKERS) or (isinstance(made, type) and _is_module_class(made))


def _is_module_class(kind: type) -> bool:
    return any(cls.__name__ == "Module" and cls.__module__.startswith("equinox") for cls in kind.__mro__)


def _arrays_of(site: Site, node: ast.Call, module: ast.expr) -> Fix:
    return text(replaced(node, module, _filtered(site, module))), site.span_of(node)


def _filtered(site: Site, module: ast.expr) -> ast.Call:
    eqx = alias(site.scope, "equinox")
    return call(f"{eqx}.filter", module, expression(f"{eqx}.is_array"))


def _mapped(site: Site, node: ast.Call) -> Fix:
    """`jax.tree.map(lambda a: a * 2, model)` with a lambda that leaves alone what is no array.

    Where numbers are made of the leaves, or where it is no such lambda, only the arrays are gone through.
    """
    around = [each for each in site.around if isinstance(each, ast.Call) and any(node is arg for arg in each.args)]
    match node.args[0]:
        case ast.Lambda(args=ast.arguments(args=[ast.arg(name), *_], vararg=None)) as function:
            if not any(name_called(each) in _REDUCED for each in around):
                test = call(f"{alias(site.scope, 'equinox')}.is_array", ast.Name(name))
                body = ast.IfExp(test, function.body, ast.Name(name))
                return text(replaced(node, function.body, body)), site.span_of(node)
    swaps: dict[int, ast.AST] = {}
    for arg in node.args[1:]:
        if isinstance(arg, ast.Starred):
            each = ast.comprehension(ast.Name("each"), arg.value, [], 0)
            swaps[id(arg)] = ast.Starred(ast.ListComp(_filtered(site, ast.Name("each")), [each]))
        elif is_module(site.scope.get(arg)):
            swaps[id(arg)] = _filtered(site, arg)
    whole = len(swaps) == len(node.args) - 1
    return (text(copied(node, swaps)), site.span_of(node)) if whole else ("", None)


def _with_filters(failing: Failing, site: Site, node: ast.Call) -> Fix:
    """JAX's transformations as Equinox's, where the function was transformed: in the call, above it, or before."""
    function = function_of(site, node.func)
    decorators = function.node.decorator_list if function and isinstance(function.node, ast.FunctionDef) else []
    places = [(site.file, node.func), *made_from(failing, node.func)]
    if function is not None:
        places = [*places[:1], *((function.file, each) for each in decorators), *places[1:]]
    edits: list[Edit] = []
    for file, place in places:
        swaps, usable = _swaps(site, place)
        if not usable:
            return "", None
        if swaps:
            decorated = any(place is each for each in decorators)
            span = span_of(file, place)
            edits.append((with_at(span) if decorated else span, "@" * decorated + text(copied(place, swaps))))
    return merged(edits) if edits else ("", None)


def _swaps(site: Site, place: ast.expr) -> tuple[dict[int, ast.AST], bool]:
    eqx, swaps = alias(site.scope, "equinox"), {}
    for part in ast.walk(place):
        match part:
            case ast.Call(func=function, keywords=words):
                made = [each for each in (function, *part.args[:1]) if _is_filtered(each)]
                kept = [word for word in words if not (made and _is_needless(word))]
                if made and any(word.arg not in _KEPT for word in kept):
                    return {}, False
                if len(kept) < len(words):
                    swaps[id(words)] = kept
                    swaps[id(part)] = _call_with(part, kept, eqx)
            case ast.Attribute(attr=name) if _is_filtered(part):
                swaps[id(part)] = ast.Attribute(ast.Name(eqx), f"filter_{name}")
    return swaps, True


def _call_with(node: ast.Call, keywords: list[ast.keyword], eqx: str) -> ast.expr:
    """A call with fewer keywords; a `partial` with none left is what it binds."""
    swaps: dict[int, ast.AST] = {
        id(each): ast.Attribute(ast.Name(eqx), f"filter_{each.attr}")
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and _is_filtered(each)
    }
    if name_called(node) == "partial" and not keywords and len(node.args) == 1:
        return copied(node.args[0], swaps)
    return ast.Call(copied(node.func, swaps), copied(node.args, swaps), copied(keywords, swaps))


def _is_filtered(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="jax"), attr=name):
            return name in _FILTERED
    return False


def _is_needless(word: ast.keyword) -> bool:
    first = word.arg == "argnums" and isinstance(word.value, ast.Constant) and word.value.value == 0
    return word.arg in _NEEDLESS or first
