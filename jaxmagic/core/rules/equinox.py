"""Equinox modules: functions among their leaves, fields that can't be set, static fields that hold arrays."""

import ast
from collections.abc import Iterator
from typing import Any

from jaxmagic.core.failures.operands import aval_of
from jaxmagic.core.lines.attributes import attribute, class_attribute, module_of
from jaxmagic.core.lines.containers import children
from jaxmagic.core.rules.calls import Fix
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import function_of, made_from
from jaxmagic.core.rules.jits import with_at
from jaxmagic.core.rules.rewrite import Edit, alias, call, copied, merged, replaced, text
from jaxmagic.core.rules.wording import listed
from jaxmagic.core.source.nodes import name_called
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span

_FILTERED = ("jit", "grad", "value_and_grad", "vmap", "checkpoint", "jacfwd", "jacrev", "hessian", "eval_shape")
_DEEPEST = 6


@on_error("eqx-filtered", "an Equinox module with functions in it is given to a transformation that takes only arrays")
def eqx_filtered(failing: Failing) -> Cause | None:
    """An Equinox module is a tree whose leaves may be functions: an activation, say. `jax.jit`, `jax.grad` and
    optimizers take arrays only. Equinox's own `filter_jit`, `filter_grad` and their kin leave the rest alone, and
    `eqx.filter(model, eqx.is_array)` is the part with arrays.

    Sure: JAX refused a leaf, and the module that was handed over has one that is no array.
    """
    refused = failing.says(r"is not a valid JAX type|problematic value is of type|requires ndarray or scalar arguments")
    if refused is None or not isinstance(failing.node, ast.Call):
        return None
    given = [arg for arg in failing.node.args if is_module(failing.value(arg))]
    leaves = [(arg, failing.text(arg) + path) for arg in given for path in _others(failing.value(arg), 0)]
    if not leaves:
        return None
    optimizer = name_called(failing.node) == "init"
    fix, replaces = _arrays_of(failing, leaves[0][0]) if optimizer else _with_filters(failing)
    way = "The optimizer is made for the arrays: `eqx.filter(model, eqx.is_array)`."
    return Cause(
        title=f"{listed([name for _, name in leaves[:3]])} is no array"
        if len(leaves) == 1
        else f"{listed([name for _, name in leaves[:3]])} are no arrays",
        explanation="A module's functions and settings are leaves of it too, and only arrays are taken here. "
        + (
            way if optimizer else "Equinox's transformations (`eqx.filter_jit`, `eqx.filter_grad`, …) leave them alone."
        ),
        evidence=tuple(
            Evidence(f"{name} is a leaf of `{failing.text(arg)}`", failing.site.span_of(arg))
            for arg, name in leaves[:3]
        ),
        fix=fix,
        replaces=replaces,
    )


def is_module(value: Any) -> bool:
    return any(cls.__name__ == "Module" and module_of(cls).startswith("equinox") for cls in type(value).__mro__)


def _others(value: Any, depth: int) -> Iterator[str]:
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
            yield from (step + inner for inner in _others(part, depth + 1))


def _arrays_of(failing: Failing, module: ast.expr) -> Fix:
    eqx = alias(failing.scope, "equinox")
    filtered = call(f"{eqx}.filter", module, ast.parse(f"{eqx}.is_array", mode="eval").body)
    return text(replaced(failing.node or module, module, filtered)), failing.span


def _with_filters(failing: Failing) -> Fix:
    """JAX's transformations as Equinox's, where the function was transformed: in the call, above it, or before."""
    node = failing.node
    if not isinstance(node, ast.Call):
        return "", None
    function = function_of(failing.site, node.func)
    decorators = function.node.decorator_list if function and isinstance(function.node, ast.FunctionDef) else []
    places = [(failing.site.file, node.func), *made_from(failing, node.func)]
    if function is not None:
        places = [*places[:1], *((function.file, each) for each in decorators), *places[1:]]
    edits: list[Edit] = []
    for file, place in places:
        swaps, usable = _swaps(failing, place)
        if not usable:
            return "", None
        if swaps:
            decorated = any(place is each for each in decorators)
            span = span_of(file, place)
            edits.append((with_at(span) if decorated else span, "@" * decorated + text(copied(place, swaps))))
    return merged(edits) if edits else ("", None)


def _swaps(failing: Failing, place: ast.expr) -> tuple[dict[int, ast.AST], bool]:
    eqx, swaps = alias(failing.scope, "equinox"), {}
    for part in ast.walk(place):
        match part:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="jax"), attr=name), keywords=words) if name in _FILTERED:
                if any(word.arg not in ("has_aux", "in_axes", "out_axes") for word in words):
                    return {}, False
            case ast.Attribute(value=ast.Name(id="jax"), attr=name) if name in _FILTERED:
                swaps[id(part)] = ast.Attribute(ast.Name(eqx), f"filter_{name}")
    return swaps, True


@on_error("eqx-frozen", "a field of an Equinox module is set, which makes a new module instead")
def eqx_frozen(failing: Failing) -> Cause | None:
    """An Equinox module is as it was made: `__init__` sets the fields that the class declares, and from then on
    `eqx.tree_at` makes a new module with another value in one place.

    Sure: the assignment itself raised.
    """
    statement = failing.site.statement
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=owner, attr=name) as target], value=value):
            pass
        case _:
            return None
    if failing.kind != "FrozenInstanceError" or not is_module(failing.scope.get(owner)):
        return None
    fix, replaces = "", None
    making = (
        isinstance(owner, ast.Name)
        and owner.id == "self"
        and getattr(failing.site.definition, "name", "") == "__init__"
    )
    if making:
        way = f"`__init__` sets the fields that the class declares, and `{name}` is not among them."
        fix, replaces = _declared(failing, name, value)
    elif not isinstance(owner, ast.Name) or owner.id != "self":
        way = "`eqx.tree_at` makes a new module that has the new value."
        root = owner
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if isinstance(root, ast.Name):
            taken = ast.arguments([], [ast.arg(root.id)], None, [], [], None, [])
            made = call(f"{alias(failing.scope, 'equinox')}.tree_at", ast.Lambda(taken, copied(target)), root, value)
            fix, replaces = f"{root.id} = {text(made)}", failing.site.span_of(statement)
    else:
        way = "A module is as it was made: return what is computed, or a new module with `eqx.tree_at`."
    return Cause(
        title=f"`{failing.text(target)}` can't be set: an Equinox module is not changed",
        explanation=way,
        fix=fix,
        replaces=replaces,
    )


def _declared(failing: Failing, name: str, value: ast.expr) -> Fix:
    """The class with one field more."""
    owner = next((node for node in failing.site.around if isinstance(node, ast.ClassDef)), None)
    first = owner.body[0] if owner is not None else None
    if first is None or isinstance(first, ast.Expr):
        return "", None
    kind = (
        text(value.func)
        if isinstance(value, ast.Call) and text(value.func).rpartition(".")[2][:1].isupper()
        else "object"
    )
    span = failing.site.span_of(first)
    if getattr(first, "decorator_list", ()):
        return "", None
    begin = Span(span.file, span.line, span.column, span.line, span.column)
    return f"{name}: {kind}\n", begin


@on_error("static-field", "a static field of a module or dataclass holds an array")
def static_field(failing: Failing) -> Cause | None:
    """A static field is a part of the program: JAX compares it to find the compiled function again, and an array has no
    plain answer to that. Arrays belong in ordinary fields.

    Sure: JAX compared the fields; the one that holds an array is found in the arguments.
    """
    if not failing.says(r"metadata fields|Non-hashable|truth value of an array") or not isinstance(
        failing.node, ast.Call
    ):
        return None
    for arg in failing.node.args:
        value = failing.value(arg)
        kind = type(value) if value is not None else failing.scope.get(arg.func) if isinstance(arg, ast.Call) else None
        fields = class_attribute(kind, "__dataclass_fields__") if isinstance(kind, type) else {}
        for name, field in fields.items() if isinstance(fields, dict) else ():
            if field.metadata.get("static") and (value is None or aval_of(attribute(value, name)) is not None):
                fix, replaces = _not_static(failing, kind.__name__ if isinstance(kind, type) else "", name)
                if value is not None or "Array" in fix:
                    return Cause(
                        title=f"`{name}` of {getattr(kind, '__name__', '')} is a static field, and holds an array",
                        explanation="A static field is compared to find the compiled program again, which an array "
                        "does not allow. As an ordinary field it is data, and traced.",
                        evidence=(Evidence(f"handed over here: {failing.text(arg)}", failing.site.span_of(arg)),),
                        fix=fix,
                        replaces=replaces,
                    )
    return None


def _not_static(failing: Failing, owner: str, name: str) -> Fix:
    for file, node in failing.nodes():
        for part in node.body if isinstance(node, ast.ClassDef) and node.name == owner else ():
            match part:
                case ast.AnnAssign(target=ast.Name(id=field), value=ast.Call(args=[], keywords=[_])) if field == name:
                    return f"{name}: {text(part.annotation)}", span_of(file, part)
    return "", None
