"""Results and arrays that are unpacked into another number of names than they have values."""

import ast
from typing import Any

import jax

from jaxmagic.core.rules.calls import Fix
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import function_of
from jaxmagic.core.rules.rewrite import alias, copied, expression, replaced, text
from jaxmagic.core.source.nodes import name_called, parts
from jaxmagic.records import Evidence

_TRANSFORMS = ("jit", "vmap", "filter_jit", "filter_vmap", "checkpoint")
_VALUE_AND_GRAD = ("value_and_grad", "filter_value_and_grad")
_GRAD = ("grad", "filter_grad")


@on_error("values-unpacked", "a result is unpacked into another number of names than it has values")
def values_unpacked(failing: Failing) -> Cause | None:
    """`graph, state = nnx.split(model)` gives a part more for each filter after the first; `value_and_grad` with
    `has_aux` gives `(value, aux), gradients`, and `scan`, `optimizer.update` and `eqx.partition` two values; `grad`
    gives one gradient unless `argnums` names several. Python says how many names there are, and not what was given.

    Sure: the unpacking raised, and what the call gives is known: from the library, or from the function's `return`.
    """
    scalar = failing.says(r"^iteration over a 0-d array")
    counted = failing.says(r"values to unpack \(expected \d+") and not failing.machinery
    if failing.kind not in ("ValueError", "TypeError") or not (scalar or counted):
        return None
    match failing.site.statement:
        case ast.Assign(targets=[ast.Tuple(elts=names) as target], value=ast.Call() as node):
            pass
        case _:
            return None
    if any(isinstance(name, ast.Starred) for name in names):
        return None
    if failing.node is not node:
        return _without_auxiliary(failing, target, node) if scalar else _with_auxiliary(failing, target, node)
    if scalar:
        return None
    found = _given(failing, node)
    return _told(failing, node, target, *found) if found is not None and found[0] != len(names) else None


def _given(failing: Failing, node: ast.Call) -> tuple[int, str, tuple[Evidence, ...]] | None:
    """How many values a call gives, what they are, and what shows it."""
    name, owner = name_called(node), node.func
    made = owner if isinstance(owner, ast.Call) else None
    module = str(getattr(failing.scope.get(node.func), "__module__", ""))
    if name == "split" and module.startswith("flax"):
        filters = len(node.args) - 1
        each = f", and {max(filters, 1)} states, one for each filter" if filters > 1 else " and one state"
        return 1 + max(filters, 1), f"the graph{each}", ()
    if name == "partition" and module.startswith("equinox"):
        return 2, "what fits the filter, and the rest", ()
    if name == "update" and module.startswith("optax"):
        return 2, "the updates and the new state", ()
    if name in ("scan", "jvp", "linearize", "vjp") and module.startswith("jax"):
        more = name == "vjp" and _says_aux(node)
        what = {"scan": "the carry and the stacked outputs", "jvp": "the value and its tangent"}
        return 2 + more, what.get(name, "the value and a function") + (" and the auxiliary output" if more else ""), ()
    if made is not None and name_called(made) in _VALUE_AND_GRAD:
        aux = "the pair of the value and the auxiliary output" if _says_aux(made) else "the value"
        return 2, f"{aux}, and the gradients", ()
    if made is not None and name_called(made) in _GRAD and not _says_aux(made):
        several = next((word for word in made.keywords if word.arg == "argnums"), None)
        return None if several is not None or len(made.args) != 1 else (1, "one gradient, of the first argument", ())
    value = failing.scope.get(node)
    if isinstance(value, tuple):
        return len(value), f"{len(value)} values", ()
    return _returned(failing, made.args[0] if made and name_called(made) in _TRANSFORMS and made.args else node.func)


def _says_aux(made: ast.Call) -> bool:
    return any(
        word.arg == "has_aux" and isinstance(word.value, ast.Constant) and word.value.value is True
        for word in made.keywords
    )


def _returned(failing: Failing, node: ast.expr) -> tuple[int, str, tuple[Evidence, ...]] | None:
    """What a function of the user's returns, where each `return` shows as many values."""
    function = function_of(failing.site, node)
    marked = [] if function is None or isinstance(function.node, ast.Lambda) else function.node.decorator_list
    plain = all(any(text(each).endswith(name) for name in _TRANSFORMS) for each in marked)
    shown = function.returned() if function is not None and plain else []
    sizes = {_shown_size(each) for each in shown}
    if len(sizes) != 1 or function is None or (size := sizes.pop()) is None:
        return None
    return size, f"{size} values", (Evidence(f"`{function.name}` returns {size}", function.span_of(shown[0])),)


def _shown_size(node: ast.expr) -> int | None:
    if not isinstance(node, ast.Tuple) or any(isinstance(part, ast.Starred) for part in node.elts):
        return None
    return len(node.elts)


def _told(failing: Failing, node: ast.Call, target: ast.Tuple, count: int, what: str, shows: Any) -> Cause:
    fix, replaces = _fixed(failing, node, target, count)
    shown = what if what.endswith("values") else f"{count} value{'s' * (count > 1)}: {what}"
    return Cause(
        title=f"`{failing.text(node)}` gives {shown}; it is unpacked into {len(target.elts)} names",
        explanation="Python wants one name for each value.",
        evidence=(Evidence(f"{len(target.elts)} names", failing.site.span_of(target)), *shows),
        fix=fix,
        replaces=replaces,
    )


def _fixed(failing: Failing, node: ast.Call, target: ast.Tuple, count: int) -> Fix:
    names, statement = target.elts, failing.site.statement
    made = node.func if isinstance(node.func, ast.Call) else None
    if made is not None and name_called(made) in _VALUE_AND_GRAD and _says_aux(made) and len(names) > 2:
        pair = ast.Tuple([names[0], *names[1:-1]] if len(names) == 3 else [names[0], ast.Tuple(names[1:-1])])
        return text(ast.Tuple([pair, names[-1]])).removeprefix("(").removesuffix(")"), failing.site.span_of(target)
    if made is not None and name_called(made) == "grad" and count == 1 and 1 < len(names) <= len(node.args):
        numbers = ast.Tuple([ast.Constant(at) for at in range(len(names))])
        several = ast.Call(made.func, made.args, [*made.keywords, ast.keyword("argnums", numbers)])
        return text(replaced(node, made, several)), failing.span
    if name_called(node) == "split" and len(node.args) == 1 and len(names) == 3:
        param = expression(f"{alias(failing.scope, 'flax.nnx')}.Param")
        return text(copied(ast.Call(node.func, [*node.args, param, ast.Constant(...)], node.keywords))), failing.span
    if statement is None or count <= len(names):
        return "", None
    if name_called(node) == "split" and _merged_alone(failing, names):
        return text(copied(ast.Call(node.func, node.args[:1], node.keywords))), failing.span
    added = ["rest" if name_called(node) == "split" and at == count - 1 else "_" for at in range(len(names), count)]
    return ", ".join([*map(failing.text, names), *added]), failing.site.span_of(target)


def _merged_alone(failing: Failing, names: list[ast.expr]) -> bool:
    """Whether the graph and the one state make the model again: then the state is to be all of it."""
    calls = (node for _, node in failing.nodes() if isinstance(node, ast.Call) and name_called(node) == "merge")
    return len(names) == 2 and any([*map(ast.unparse, node.args)] == [*map(ast.unparse, names)] for node in calls)


def _without_auxiliary(failing: Failing, target: ast.Tuple, node: ast.Call) -> Cause | None:
    """`(loss, aux), grads = jax.value_and_grad(f)(…)`, without `has_aux`."""
    made, pair = node.func, target.elts[0]
    if not (isinstance(made, ast.Call) and name_called(made) in _VALUE_AND_GRAD and not _says_aux(made)):
        return None
    if not isinstance(pair, ast.Tuple) or failing.node is not pair:
        return None
    return Cause(
        title=f"`{failing.text(pair)}` takes a pair apart, and the value comes alone",
        explanation="Without `has_aux=True`, and a function that returns a pair, there is no auxiliary output.",
        evidence=(Evidence("given by this call", failing.site.span_of(node)),),
        fix=failing.text(pair.elts[0]),
        replaces=failing.span,
    )


def _with_auxiliary(failing: Failing, target: ast.Tuple, node: ast.Call) -> Cause | None:
    """`(loss, a, b), grads = jax.value_and_grad(f, has_aux=True)(…)`: the auxiliary output is one value."""
    made, pair = node.func, failing.node
    if not (isinstance(made, ast.Call) and name_called(made) in _VALUE_AND_GRAD and _says_aux(made)):
        return None
    if not isinstance(pair, ast.Tuple) or pair is not target.elts[0] or len(pair.elts) < 3:
        return None
    function = function_of(failing.site, next(iter(made.args), None))
    shown = (
        [each.elts[1] for each in function.returned() if isinstance(each, ast.Tuple) and len(each.elts) == 2]
        if function is not None
        else []
    )
    apart = bool(shown) and all(_shown_size(each) == len(pair.elts) - 1 for each in shown)
    nested = ast.Tuple([pair.elts[0], ast.Tuple(pair.elts[1:])])
    return Cause(
        title=f"`{failing.text(pair)}` takes a pair apart: the value, and all of the auxiliary output as one",
        explanation="With `has_aux` the function returns a pair, and `value_and_grad` gives it beside the gradients.",
        evidence=(Evidence("given by this call", failing.site.span_of(node)),),
        fix=text(copied(nested)) if apart else "",
        replaces=failing.span,
    )


@on_error("array-taken-apart", "an array without axes is iterated, or one is unpacked into another number of names")
def array_taken_apart(failing: Failing) -> Cause | None:
    """Python goes through the first axis of an array: `for row in x`, `list(x)`, `a, b = x`. A scalar has no axis to
    go through, and `a, b = x` needs just two rows.

    Sure: the iteration itself raised.
    """
    if any(not frame.f_globals.get("__name__", "").startswith("jax") for frame in failing.machinery):
        return None  # a library took it apart
    scalar = failing.says(r"iteration over a 0-d array|len\(\) of unsized object")
    count = failing.says(r"(?:too many|not enough) values to unpack \(expected (?:at least )?(\d+)")
    node = failing.node
    inside = [] if count and isinstance(node, ast.Call) else parts(node)
    candidates = [node, *inside] if isinstance(node, ast.expr) else inside
    array = next(filter(failing.aval, candidates), None)
    aval = failing.aval(array) if array is not None else None
    rank = len(aval.shape) if aval is not None else 0
    if array is None or aval is None or not (scalar or count) or bool(scalar) == bool(rank):
        return None
    batch = " Under vmap it is one example: the mapped axis is not there." if "vmap" in failing.transforms else ""
    looped = isinstance(failing.site.statement, ast.For) and failing.site.statement.iter is array
    if count and looped and aval.shape[1:]:
        title = (
            f"each row of {failing.shown(array)} has {aval.shape[1]} elements, but is unpacked into {count[1]} names"
        )
    elif count:
        title = f"{failing.shown(array)} has {aval.shape[0]} rows, but is unpacked into {count[1]} names"
    else:
        title = f"{failing.shown(array)} is a scalar: it has no axis to go through"
    fix = _split_into(failing, array, int(count[1])) if count and not looped else ""
    return Cause(
        title=title,
        explanation=f"Python takes an array apart along its first axis.{batch}",
        span=failing.site.span_of(array),
        evidence=failing.evidence(array),
        fix=fix,
        replaces=failing.site.span_of(array),
    )


def _split_into(failing: Failing, array: ast.AST, count: int) -> str:
    """`jax.random.split(key)` for three names as `jax.random.split(key, 3)`."""
    if not isinstance(array, ast.Call) or failing.scope.get(array.func) is not jax.random.split:
        return ""
    words = [word for word in array.keywords if word.arg != "num"]
    return text(copied(ast.Call(array.func, [*array.args[:1], ast.Constant(count)], words)))
