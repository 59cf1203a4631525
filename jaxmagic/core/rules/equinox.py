"""Equinox modules: fields that can't be set, static fields that hold arrays."""

import ast
from typing import Any

from jaxmagic.core.failures.operands import aval_of
from jaxmagic.core.lines.attributes import attribute, class_attribute, module_of
from jaxmagic.core.rules.calls import Fix
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import alias, call, copied, taking, text
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span


def is_module(value: Any) -> bool:
    """Whether it is an Equinox module."""
    return any(cls.__name__ == "Module" and module_of(cls).startswith("equinox") for cls in type(value).__mro__)


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
            made = call(f"{alias(failing.scope, 'equinox')}.tree_at", taking([root.id], copied(target)), root, value)
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
