"""Settings that are passed through a transformation as if they were arrays: strings, functions, objects."""

import ast
import re
from collections.abc import Iterator
from typing import Any

from jaxmagic.core.lines.containers import children
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import function_of
from jaxmagic.core.rules.rewrite import copied, taking, text
from jaxmagic.core.source.nodes import name_called
from jaxmagic.records import Evidence

_REFUSED = re.compile(r"^Argument '.*?' of type '?<class '(?P<kind>[\w.]+)'>'? is not a valid JAX type", re.DOTALL)
_AT_PATH = re.compile(r"problematic value is of type <class '(?P<kind>[\w.]+)'> and was passed to the function at path")
_BY_ARRAYS = ("vmap", "grad", "value_and_grad", "jacfwd", "jacrev", "hessian", "checkpoint", "remat", "pmap")


@on_error("setting-not-array", "vmap, grad, checkpoint or eval_shape got a string or an object among its arguments")
def setting_not_array(failing: Failing) -> Cause | None:
    """The arguments of a transformed function are arrays, numbers and trees of them. `vmap` and `grad` have no static
    arguments: what is a setting is bound before, by a lambda or `functools.partial`; `jax.checkpoint` takes
    `static_argnums`.

    Sure: JAX looked at the argument.
    """
    node = failing.node
    match = _REFUSED.search(failing.message)
    if match is None and isinstance(node, ast.Call) and name_called(node) == "eval_shape":
        match = _AT_PATH.search(failing.message)
    if match is None or not isinstance(node, ast.Call) or match["kind"].endswith(("ndarray", "Struct", "range")):
        return None
    kind = match["kind"].rpartition(".")[2]
    found = next(((arg, path) for arg in node.args for path in _paths(failing.value(arg), kind, "", 0)), None)
    way, function, arguments = _transformed(failing, node)
    if found is None or not way or found[0] not in arguments:
        return None
    given, path = found
    at = arguments.index(given)
    names = function_of(failing.site, function)
    name = names.parameters[at] if names is not None and at < len(names.parameters) else f"{at}"
    fix = (
        ""
        if path or way == _marked(failing, function)
        else _bound(node, way, function, arguments, at, names.parameters if names is not None else [])
    )
    bound = (
        "Mark it with `static_argnums`."
        if way in ("checkpoint", "remat")
        else "Bind it before: by a lambda, or `partial`."
    )
    return Cause(
        title=f"argument `{name}{path}` is a {kind}, and {way} takes arrays and numbers",
        explanation=f"`{failing.text(given)}` holds a setting, and no data. {bound}"
        if not path
        else f"All leaves of `{failing.text(given)}` must be arrays or numbers: keep what is not apart from them.",
        evidence=(Evidence(f"{name}{path} is a {kind}", failing.site.span_of(given)),),
        fix=fix,
        replaces=failing.span,
    )


def _paths(value: Any, kind: str, path: str, depth: int) -> Iterator[str]:
    """Where a value of that kind stands in an argument."""
    if type(value).__name__ == kind:
        yield path
    elif depth < 5:
        for step, part in children(value, lambda cls: False) or ():
            yield from _paths(part, kind, path + step, depth + 1)


def _transformed(failing: Failing, node: ast.Call) -> tuple[str, ast.expr | None, list[ast.expr]]:
    """What transforms, which function, and what that one's arguments are."""
    if name_called(node) == "eval_shape" and node.args:
        return "eval_shape", node.args[0], node.args[1:]
    if isinstance(node.func, ast.Call) and name_called(node.func) in _BY_ARRAYS and node.func.args:
        inner = node.func.args[0]
        return _marked(failing, inner) or name_called(node.func), inner, node.args
    return _marked(failing, node.func), node.func, node.args


def _marked(failing: Failing, node: ast.expr | None) -> str:
    """The transformation that stands above a function as a decorator."""
    function = function_of(failing.site, node)
    marked = function.node.decorator_list if function is not None and isinstance(function.node, ast.FunctionDef) else []
    names = (getattr(part, "attr", getattr(part, "id", "")) for each in marked for part in ast.walk(each))
    return next((name for name in names if name in _BY_ARRAYS), "")


def _bound(
    node: ast.Call, way: str, function: ast.expr | None, arguments: list[ast.expr], at: int, names: list[str]
) -> str:
    """`jax.vmap(f)(x, "mean")` as `jax.vmap(lambda x: f(x, "mean"))(x)`."""
    maker = node if way == "eval_shape" else node.func
    plain = isinstance(maker, ast.Call) and not maker.keywords and not node.keywords
    if (
        not plain
        or function is None
        or len(names) < len(arguments)
        or (at == 0 and way != "eval_shape" and way != "vmap")
    ):
        return ""
    assert isinstance(maker, ast.Call)
    kept = [name for index, name in enumerate(names[: len(arguments)]) if index != at]
    others = [arg for index, arg in enumerate(arguments) if index != at]
    inner = [arguments[at] if index == at else ast.Name(names[index]) for index in range(len(arguments))]
    bound = taking(kept, ast.Call(function, inner, []))
    if way == "eval_shape":
        return text(copied(ast.Call(maker.func, [bound, *others], [])))
    return text(copied(ast.Call(ast.Call(maker.func, [bound, *maker.args[1:]], []), others, [])))
