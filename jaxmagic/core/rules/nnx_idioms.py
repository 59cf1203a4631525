"""Flax NNX modules used as those of Linen, or of other libraries, are: `init`, `apply`, `setup`, keys for `Rngs`."""

import ast
from typing import Any

from jaxmagic.core.failures.operands import aval_of
from jaxmagic.core.lines.attributes import class_attribute, module_of
from jaxmagic.core.rules.calls import Fix
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import alias, call, copied, expression, replaced, text
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence

_OF_LINEN = ("init", "apply", "params", "variables", "init_with_output", "bind")
_FLAGS = ("rngs", "mutable", "method")
_MODES = {"train": True, "training": True, "is_training": True, "deterministic": False, "use_running_average": False}
"""Keywords of Linen's for what a module does, and whether it learns where they are true."""


@on_error("nnx-idiom", "a Flax NNX module is used as one of Linen's: init, apply, setup, a key where Rngs are taken")
def nnx_idiom(failing: Failing) -> Cause | None:
    """An NNX module holds its parameters from the start, made in `__init__`: it is called as it is, there is no `init`
    or `apply`, and `setup` is a method like any other. It draws from `nnx.Rngs`, which give a key for each call, and
    `model.train()` or `model.eval()` say which of the two is meant.

    Sure: the attribute is not there, or the operation refused what it got, and the object is one of NNX's.
    """
    node = failing.node
    if failing.kind == "AttributeError":
        if (cause := _no_rngs(failing)) is not None:
            return cause
        return _attribute(failing, node) if isinstance(node, ast.Attribute) else None
    if failing.kind == "TypeError" and isinstance(node, ast.Call):
        if flag := failing.says(rf"got an unexpected keyword argument '({'|'.join(_MODES)})'"):
            return _mode(failing, node, flag[1])
        return _rngs_for_key(failing, node) or _not_called(failing, node)
    if failing.kind == "NotImplementedError" and failing.says(r"^In-place operations are no longer supported"):
        return _in_place(failing)
    return None


def is_nnx(value: Any) -> bool:
    """Whether it is a module of NNX's."""
    return any(cls.__name__ == "Module" and module_of(cls).startswith("flax.nnx") for cls in type(value).__mro__)


def _attribute(failing: Failing, node: ast.Attribute) -> Cause | None:
    owner, named = failing.scope.get(node.value), failing.text(node.value)
    if not is_nnx(owner) or not failing.says(rf"has no attribute '{node.attr}'"):
        return None
    setup = class_attribute(type(owner), "setup")
    if named == "self" and hasattr(setup, "__code__"):
        return _setup(failing, node, type(owner).__name__)
    if node.attr not in _OF_LINEN:
        return None
    fix, replaces = _without_linen(failing, node)
    return Cause(
        title=f"`{named}` is an NNX module, which has no `{node.attr}`: it holds its parameters itself",
        explanation=f"`{named}(…)` calls it, `nnx.state({named}, nnx.Param)` are its parameters.",
        evidence=(Evidence(f"{named} is a {type(owner).__name__}, of flax.nnx", failing.site.span_of(node.value)),),
        fix=fix,
        replaces=replaces,
    )


def _without_linen(failing: Failing, node: ast.Attribute) -> Fix:
    nnx = alias(failing.scope, "flax.nnx")
    state = call(f"{nnx}.state", node.value)
    around = next((each for each in failing.site.around if isinstance(each, ast.Call) and each.func is node), None)
    if node.attr in ("params", "variables"):
        parameters = ast.Call(state.func, [*state.args, expression(f"{nnx}.Param")], [])
        return text(parameters if node.attr == "params" else state), failing.span
    if around is None or node.attr not in ("init", "apply"):
        return "", None
    if node.attr == "init":
        return text(state), failing.site.span_of(around)
    kept = [word for word in around.keywords if word.arg not in _FLAGS]
    return text(copied(ast.Call(node.value, around.args[1:], kept))), failing.site.span_of(around)


def _setup(failing: Failing, node: ast.Attribute, owner: str) -> Cause:
    fix, replaces = "", None
    for file, part in failing.nodes():
        if isinstance(part, ast.ClassDef) and part.name == owner and replaces is None:
            methods = {each.name: each for each in part.body if isinstance(each, ast.FunctionDef)}
            if "setup" in methods and "__init__" not in methods:
                made = methods["setup"]
                span = span_of(file, made)
                begin = span.column + len("def ")
                replaces = type(span)(file, span.line, begin, span.line, begin + len("setup"))
                fix = "__init__"
    return Cause(
        title=f"`{failing.text(node)}` is not there: NNX does not call `setup`",
        explanation="An NNX module makes its layers in `__init__`, which runs when it is made.",
        fix=fix,
        replaces=replaces,
    )


def _no_rngs(failing: Failing) -> Cause | None:
    """`nnx.Linear(3, 4, rngs=jax.random.key(0))`, or a number."""
    node = failing.node
    frame = next((each for each in failing.machinery if "rngs" in each.f_locals), None)
    if not isinstance(node, ast.Call) or frame is None or not frame.f_globals["__name__"].startswith("flax.nnx"):
        return None
    word = next((each for each in node.keywords if each.arg == "rngs"), None)
    given = frame.f_locals["rngs"]
    if word is None or not (type(given) is int or aval_of(given) is not None):
        return None
    made = call(f"{alias(failing.scope, 'flax.nnx')}.Rngs", word.value)
    what = "a number" if type(given) is int else "a key"
    return Cause(
        title=f"`rngs={failing.text(word.value)}` is {what}, and NNX draws from `nnx.Rngs`",
        explanation="`nnx.Rngs` make a new key for each layer that asks for one, of the number or key that they get.",
        fix=text(replaced(node, word.value, made)),
        replaces=failing.span,
    )


def _mode(failing: Failing, node: ast.Call, flag: str) -> Cause | None:
    """`model(x, train=True)` of a model that takes no such argument."""
    if not is_nnx(failing.scope.get(node.func)):
        return None
    name, statement, fix = failing.text(node.func), failing.site.statement, ""
    word = next((each for each in node.keywords if each.arg == flag), None)
    if word is not None and isinstance(word.value, ast.Constant) and isinstance(statement, ast.Assign | ast.Expr):
        mode = "train" if bool(word.value.value) == _MODES[flag] else "eval"
        kept = ast.Call(node.func, node.args, [each for each in node.keywords if each is not word])
        fix = f"{name}.{mode}()\n{text(replaced(statement, node, copied(kept)))}"
    return Cause(
        title=f"`{name}` takes no `{flag}`",
        explanation=f"An NNX module remembers what it is to do: `{name}.train()` and `{name}.eval()` tell dropout and "
        "running averages of all layers in it.",
        fix=fix,
        replaces=failing.site.span_of(statement) if statement is not None else None,
    )


def _rngs_for_key(failing: Failing, node: ast.Call) -> Cause | None:
    """`jax.random.normal(rngs, (3,))`."""
    function = failing.scope.get(node.func)
    for part in node.args if str(getattr(function, "__module__", "")).startswith("jax") else ():
        if type(failing.scope.get(part)).__name__ == "Rngs":
            drawn = ast.Call(ast.Attribute(part, "params"), [], [])
            return Cause(
                title=f"`{failing.text(part)}` gives keys, and is none itself",
                explanation=f"`{failing.text(part)}.params()` is the next key of the stream for parameters, "
                "`.dropout()` of the one for dropout.",
                fix=text(replaced(node, part, drawn)),
                replaces=failing.span,
            )
    return None


def _not_called(failing: Failing, node: ast.Call) -> Cause | None:
    """A module without `__call__`, called all the same: it has a `forward`."""
    if not failing.says(r"^'(\w+)' object is not callable$") or failing.machinery:
        return None
    made = node.func if isinstance(node.func, ast.Call) else None
    kind = failing.scope.get(made.func) if made is not None else type(failing.scope.get(node.func))
    name = failing.message.split("'")[1]
    forward = class_attribute(kind, "forward") if isinstance(kind, type) and kind.__name__ == name else None
    if not isinstance(kind, type) or not _is_layer_class(kind) or not hasattr(forward, "__code__"):
        return None
    return Cause(
        title=f"`{failing.text(node.func)}` can't be called: its class has `forward`, and no `__call__`",
        explanation="Only PyTorch's modules call `forward` when they are called. Name it `__call__`, or call it.",
        fix=text(copied(ast.Call(ast.Attribute(node.func, "forward"), node.args, node.keywords))),
        replaces=failing.span,
    )


def _is_layer_class(kind: type) -> bool:
    return any(cls.__name__ == "Module" and module_of(cls).startswith(("flax", "equinox")) for cls in kind.__mro__)


def _in_place(failing: Failing) -> Cause | None:
    statement = failing.site.statement
    if not isinstance(statement, ast.AugAssign):
        return None
    inside = ast.Subscript(statement.target, ast.Constant(...), ast.Store())
    return Cause(
        title=f"`{failing.text(statement.target)}` is a variable of NNX's, whose value is changed with `[...]`",
        explanation="Without it the variable itself would be replaced.",
        fix=text(copied(ast.AugAssign(inside, statement.op, statement.value))),
        replaces=failing.site.span_of(statement),
    )
