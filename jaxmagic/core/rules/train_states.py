"""Flax's `TrainState` and other frozen structures: fields that are set, lacking or too many; gradients by position."""

import ast
from typing import Any

from jaxmagic.core.lines.attributes import module_of
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import call, copied, extended, text
from jaxmagic.core.source.nodes import name_called
from jaxmagic.records import Evidence


@on_error("flax-struct", "a Flax TrainState, struct or FrozenDict is set in place, or made with fields it doesn't have")
def flax_struct(failing: Failing) -> Cause | None:
    """`TrainState` and every `flax.struct.dataclass` are frozen: `state.replace(params=…)` is a new one. Further
    fields, `batch_stats` for one, are declared in a subclass; `apply_gradients` takes `grads` by name.

    Sure: the assignment or the call raised.
    """
    if failing.kind == "FrozenInstanceError" and failing.says(r"^cannot assign to field"):
        return _replaced(failing)
    if failing.kind == "ValueError" and failing.message.startswith("FrozenDict is immutable"):
        return _unfrozen(failing)
    node = failing.node
    if failing.kind != "TypeError" or not isinstance(node, ast.Call):
        return None
    if (more := failing.says(r"^TrainState\.__init__\(\) got an unexpected keyword argument '(\w+)'")) is not None:
        return _subclass(failing, node, more[1])
    if failing.says(r"^TrainState\.create\(\) missing 1 required keyword-only argument: 'tx'"):
        return Cause(
            title=f"`{failing.text(node.func)}` is given no optimizer, `tx`",
            explanation="A `TrainState` holds the parameters, the function and the optimizer.",
            fix=text(_with(node, "tx", call("optax.adam", ast.Constant(0.001)))) if _has_optax(failing) else "",
            replaces=failing.span,
        )
    if failing.says(r"\bapply_gradients\(\) takes 1 positional argument but 2 were given") and len(node.args) == 1:
        return Cause(
            title=f"`{failing.text(node.func)}` takes the gradients by name",
            explanation="Its only argument by position is the state itself.",
            fix=text(copied(ast.Call(node.func, [], [ast.keyword("grads", node.args[0]), *node.keywords]))),
            replaces=failing.span,
        )
    return None


def _with(node: ast.Call, name: str, value: ast.expr) -> ast.Call:
    return copied(extended(node, **{name: value}))


def _has_optax(failing: Failing) -> bool:
    return "optax" in failing.scope.globals


def is_struct(value: Any) -> bool:
    """Whether it is a frozen structure of Flax's, which has `replace`."""
    return any(module_of(cls).startswith("flax") for cls in type(value).__mro__) or hasattr(
        type(value), "_flax_dataclass"
    )


def _replaced(failing: Failing) -> Cause | None:
    """`state.params = new` as `state = state.replace(params=new)`."""
    match failing.site.statement:
        case ast.Assign(targets=[ast.Attribute(value=owner, attr=name) as target], value=value) as statement:
            pass
        case ast.AugAssign(target=ast.Attribute(value=owner, attr=name) as target, op=op, value=more) as statement:
            value = ast.BinOp(copied(target), op, copied(more))
        case _:
            return None
    if not is_struct(failing.scope.get(owner)):
        return None
    inside = isinstance(owner, ast.Name) and owner.id == "self"
    made = call(f"{text(copied(owner))}.replace", **{name: value})
    return Cause(
        title=f"`{failing.text(target)}` can't be set: a structure of Flax's is not changed",
        explanation="`replace` makes a new one with another value; the old one stays as it is."
        + (" A method returns it." if inside else ""),
        fix=f"{text(copied(owner))} = {text(made)}" if not inside else f"return {text(made)}",
        replaces=failing.site.span_of(statement),
    )


def _unfrozen(failing: Failing) -> Cause | None:
    statement = failing.site.statement
    match statement:
        case ast.Assign(targets=[ast.Subscript() as target]):
            root: ast.expr = target
        case _:
            return None
    while isinstance(root, ast.Subscript):
        root = root.value
    classes = type(failing.scope.get(root)).__mro__
    if not any(cls.__name__ == "FrozenDict" and module_of(cls).startswith("flax") for cls in classes):
        return None
    name = text(copied(root))
    return Cause(
        title=f"`{name}` is a FrozenDict, which is not changed",
        explanation="`unfreeze` makes a dict of it, which can be.",
        evidence=(Evidence("set here", failing.site.span_of(target)),),
        fix=f"{name} = {name}.unfreeze()\n{failing.text(statement)}",
        replaces=failing.site.span_of(statement),
    )


def _subclass(failing: Failing, node: ast.Call, name: str) -> Cause:
    """`TrainState.create(…, batch_stats=…)` of a subclass that has the field."""
    statement = failing.site.statement
    owner = node.func.value if isinstance(node.func, ast.Attribute) and name_called(node) == "create" else None
    fix = ""
    if owner is not None and statement is not None:
        made = ast.Attribute(ast.Name("State"), "create")
        changed = copied(statement, {id(node.func): made})
        fix = f"class State({text(copied(owner))}):\n    {name}: dict\n\n\n{text(changed)}"
    return Cause(
        title=f"`TrainState` has no field `{name}`",
        explanation="Further fields are declared in a subclass of it.",
        fix=fix,
        replaces=failing.site.span_of(statement) if statement is not None else None,
    )
