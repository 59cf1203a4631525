"""Optax's optimizers: what `update` is not given, or in another order, and results that are not taken apart."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from jaxmagic.core.failures.operands import aval_of
from jaxmagic.core.lines.attributes import class_attribute, module_of
from jaxmagic.core.lines.containers import children
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import made_from
from jaxmagic.core.rules.rewrite import copied, extended, replaced, taking, text
from jaxmagic.core.rules.wording import listed
from jaxmagic.core.source.nodes import loaded, name_called
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence

_GRADIENTS = ("grad", "value_and_grad", "filter_grad", "filter_value_and_grad", "value_and_grad_from_state")
_PAIRS = ("value_and_grad", "filter_value_and_grad", "value_and_grad_from_state")
_APPLY = ("apply_updates", "incremental_update")


@on_error(
    "optax-update", "`update` of an Optax optimizer lacks an argument, has them in another order, or gives a pair"
)
def optax_update(failing: Failing) -> Cause | None:
    """`updates, state = optimizer.update(gradients, state, params)`: gradients first, then the state, and the
    parameters for optimizers that look at them, weight decay for one. Line searches want the value and the function
    as well. The result is a pair.

    Sure: Optax raised, and the arguments are looked at: which is the state, what the call of the gradient was given.
    """
    node = failing.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or name_called(node) == "chain":
        return _not_made(failing)
    if name_called(node) in _APPLY and (cause := _pair(failing, node)) is not None:
        return cause
    if name_called(node) != "update" or not _is_optimizer(failing.scope.get(node.func.value)):
        return None
    if failing.kind == "ValueError" and failing.says(r"requires the current value of parameters"):
        return _without_params(failing, node)
    if failing.kind == "TypeError" and (wanted := failing.says(r"missing \d required keyword-only arguments?: (.+)$")):
        return _without_value(failing, node, re.findall(r"'(\w+)'", wanted[1]))
    if failing.kind == "TypeError" and failing.says(r"missing 1 required positional argument: 'state'"):
        return _without_state(failing, node)
    return _out_of_order(failing, node) or _loss_for_gradients(failing, node)


def _is_optimizer(value: Any) -> bool:
    return type(value).__name__.startswith("GradientTransformation") and module_of(type(value)).startswith("optax")


def is_state(value: Any, depth: int = 0) -> bool:
    """Whether it is the state of an optimizer of Optax's."""
    if not isinstance(value, tuple) or _is_optimizer(value):
        return False
    named = class_attribute(type(value), "_fields")
    if type(named) is tuple and module_of(type(value)).startswith("optax"):
        return True
    return depth < 3 and any(is_state(part, depth + 1) for part in tuple.__iter__(value))


@dataclass(frozen=True)
class _Gradient:
    """`grads = jax.grad(loss)(params, x)`: where the gradients come from."""

    function: ast.expr
    given: ast.Call
    value: ast.expr | None
    """The name of the value, where `value_and_grad` gave it."""
    gradients: ast.expr
    pairs: bool

    @property
    def called(self) -> ast.Call:
        """The value anew."""
        return ast.Call(self.function, self.given.args, [])


def _gradient(failing: Failing) -> _Gradient | None:
    """The last gradient that was taken before the failing line, in the same function."""
    found, body = None, failing.site.definition or failing.site.tree
    for node in ast.walk(body) if body is not None else ():
        match node:
            case ast.Assign(targets=[target], value=ast.Call(func=ast.Call(args=[function, *_]) as made) as given):
                if name_called(made) in _GRADIENTS and node.lineno <= failing.span.line:
                    pairs = name_called(made) in _PAIRS
                    names = target.elts if isinstance(target, ast.Tuple) and pairs else [target]
                    value = names[0] if len(names) == 2 and isinstance(names[0], ast.Name) else None
                    found = _Gradient(function, given, value, names[-1], pairs)
    return found


def _calls(failing: Failing, *names: str) -> Iterator[ast.Call]:
    body = failing.site.definition or failing.site.tree
    for node in ast.walk(body) if body is not None else ():
        if isinstance(node, ast.Call) and name_called(node) in names and node.args:
            yield node


def _parameters(failing: Failing) -> ast.expr | None:
    """What is trained: what the updates are applied to, what the gradient was taken at, what the state was made for."""
    gradient = _gradient(failing)
    applied = [node.args[0] for node in _calls(failing, *_APPLY)]
    taken = gradient.given.args[:1] if gradient is not None else []
    made = [node.args[0] for node in _calls(failing, "init")]
    known = {*failing.scope.locals, *failing.scope.globals}
    return next((each for each in (*applied, *taken, *made) if loaded(each) and loaded(each) <= known), None)


def _without_params(failing: Failing, node: ast.Call) -> Cause:
    params = _parameters(failing)
    fix = ""
    if params is not None and len(node.args) == 2:
        fix = text(copied(ast.Call(node.func, [*node.args, params], node.keywords)))
    return Cause(
        title=f"`{failing.text(node)}` is not given the parameters, which this optimizer looks at",
        explanation="Weight decay, and whatever else depends on the parameters' own values, takes them as the third "
        "argument of `update`.",
        fix=fix,
        replaces=failing.span,
    )


def _without_value(failing: Failing, node: ast.Call, wanted: list[str]) -> Cause | None:
    gradient = _gradient(failing)
    ways: dict[str, ast.AST] = {}
    if gradient is not None and gradient.given.args:
        rest = [ast.Name("p"), *gradient.given.args[1:]]
        alone = len(gradient.given.args) == 1
        ways = {
            "value": gradient.value or gradient.called,
            "grad": gradient.gradients,
            "value_fn": gradient.function if alone else taking(["p"], ast.Call(gradient.function, rest, [])),
        }
    known = {name: copied(ways[name]) for name in wanted if name in ways}
    if not set(wanted) & {"value", "grad", "value_fn"}:
        return None
    return Cause(
        title=f"`{failing.text(node)}` is not given {listed(wanted)}, which this optimizer needs",
        explanation="A line search, or a schedule that watches the loss, looks at the value besides the gradient.",
        fix=text(copied(extended(node, **known))) if len(known) == len(wanted) else "",
        replaces=failing.span,
    )


def _without_state(failing: Failing, node: ast.Call) -> Cause:
    names = {**failing.scope.globals, **failing.scope.locals}
    states = [name for name, value in names.items() if not name.startswith("_") and is_state(value)]
    added = [ast.Name(states[0])] if len(states) == 1 else []
    return Cause(
        title=f"`{failing.text(node)}` is given no state",
        explanation="`update` takes the gradients and the state that `init`, or the last `update`, returned.",
        fix=text(copied(ast.Call(node.func, [*node.args, *added], node.keywords))) if added else "",
        replaces=failing.span,
    )


def _out_of_order(failing: Failing, node: ast.Call) -> Cause | None:
    """The state in another place than the second."""
    states = [arg for arg in node.args if is_state(failing.scope.get(arg))]
    others = [arg for arg in node.args if arg not in states]
    if len(states) != 1 or node.args.index(states[0]) == 1 or not others:
        return None
    gradient = _gradient(failing)
    named = ast.unparse(gradient.gradients) if gradient is not None else ""
    first = [arg for arg in others if ast.unparse(arg) == named]
    order = [*(first or others[:1]), *states, *(arg for arg in others if arg not in (first or others[:1]))]
    sure = len(others) == 1 or bool(first)
    return Cause(
        title=f"`{failing.text(states[0])}` is the optimizer's state, and stands where "
        f"`update` takes {'the gradients' if node.args.index(states[0]) == 0 else 'the parameters'}",
        explanation="The order is `update(gradients, state, params)`.",
        evidence=(Evidence("the state", failing.site.span_of(states[0])),),
        fix=text(copied(ast.Call(node.func, order, node.keywords))) if sure else "",
        replaces=failing.span,
    )


def _loss_for_gradients(failing: Failing, node: ast.Call) -> Cause | None:
    """The value of the loss, or the gradient of one parameter, for the gradients of all."""
    if len(node.args) < 2 or not is_state(failing.value(node.args[1])):
        return None
    first, gradient = node.args[0], _gradient(failing)
    aval = failing.aval(first)
    trees = [tree for tree in _trees(failing.value(node.args[1])) if isinstance(tree, dict | list | tuple)]
    if aval is None or not trees:
        return None
    whole = gradient.gradients if gradient is not None else None
    outer = first
    while isinstance(outer, ast.Subscript | ast.Attribute):
        outer = outer.value
    taken = whole if whole is not None and gradient is not None and _is_value(gradient, first) else outer
    fix = text(replaced(node, first, taken)) if taken is not first and _is_like(failing, taken, trees[0]) else ""
    what = "the value of the loss" if gradient is not None and _is_value(gradient, first) else "one array"
    return Cause(
        title=f"`{failing.text(first)}` ({aval}) is {what}, and the state was made for a {type(trees[0]).__name__}",
        explanation="The gradients have the structure of the parameters that `init` got.",
        evidence=(Evidence(f"{failing.text(first)}: {aval}", failing.site.span_of(first)),),
        fix=fix,
        replaces=failing.span,
    )


def _is_value(gradient: _Gradient, node: ast.expr) -> bool:
    return gradient.value is not None and ast.unparse(gradient.value) == ast.unparse(node)


def _is_like(failing: Failing, node: ast.expr, tree: Any) -> bool:
    value = failing.scope.get(node)
    return type(value) is type(tree) and _steps(value) == _steps(tree)


def _steps(value: Any) -> list[str]:
    return [step for step, _ in children(value, lambda cls: False) or ()]


def _trees(state: Any, depth: int = 0) -> Iterator[Any]:
    """What a state holds for each parameter: `mu`, `nu`, `trace`."""
    for part in tuple.__iter__(state) if isinstance(state, tuple) and depth < 4 else ():
        if is_state(part):
            yield from _trees(part, depth + 1)
        elif aval_of(part) is None and part is not None:
            yield part


def _pair(failing: Failing, node: ast.Call) -> Cause | None:
    """`updates = optimizer.update(…)`, and then applied."""
    for arg in node.args:
        value = failing.scope.get(arg)
        if not (type(value) is tuple and len(value) == 2 and is_state(value[1]) and isinstance(arg, ast.Name)):
            continue
        for made in ast.walk(failing.site.definition or failing.site.tree or ast.Pass()):
            match made:
                case ast.Assign(targets=[ast.Name(id=arg.id) as target], value=ast.Call(args=[_, state, *_]) as update):
                    if name_called(update) == "update":
                        return Cause(
                            title=f"`{arg.id}` is a pair: `update` gives the updates, and then the new state",
                            explanation="Take the two apart, and hand the new state to the next step.",
                            evidence=(Evidence(f"`{arg.id}` is made here", failing.site.span_of(made)),),
                            fix=f"{arg.id}, {failing.text(state)}",
                            replaces=failing.site.span_of(target),
                        )
    return None


def _not_made(failing: Failing) -> Cause | None:
    """`opt = optax.adam`, without a learning rate."""
    match failing.node:
        case ast.Attribute(value=owner, attr="init" | "update" as attribute):
            pass
        case ast.Call(func=ast.Attribute(attr="chain"), args=parts) as chain:
            plain = (part for part in parts if isinstance(failing.scope.get(part), FunctionType))
            owner, attribute = next(plain, chain.func), "init"
        case _:
            return None
    made = failing.scope.get(owner)
    name = getattr(made, "__name__", "")
    if failing.kind != "AttributeError" or not str(getattr(made, "__module__", "")).startswith("optax"):
        return None
    if not isinstance(name, str) or not failing.says(rf"^'function' object has no attribute '{attribute}'"):
        return None
    file, written = next(made_from(failing, owner), (failing.site.file, owner))
    return Cause(
        title=f"`{failing.text(owner)}` is the function `optax.{name}`, and no optimizer: it was not called",
        explanation="Called with a learning rate it returns the optimizer.",
        fix=text(ast.Call(copied(written), [ast.Constant(0.001)], [])),
        replaces=span_of(file, written),
    )
