"""Trees that are gone through side by side and have different structures."""

import ast
import re
from typing import Any

from jaxmagic.core.lines.containers import children
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import call, replaced, text
from jaxmagic.core.rules.wording import listed
from jaxmagic.core.source.nodes import name_called
from jaxmagic.records import Evidence, Span

_MAPS = ("map", "tree_map", "tree_multimap", "map_with_path")
_DEEPEST = 6
_MOST = 5


@on_error("tree-structure", "trees that are gone through together have different structures: tree.map, an optimizer")
def tree_structure(failing: Failing) -> Cause | None:
    """`jax.tree.map(f, a, b)` goes through its trees side by side, so each needs the keys, lengths and kinds of
    container of the first. JAX says where, and not which argument; here are the arguments, and what only one has.
    An optimizer's state has the structure of the parameters that it was made for.

    Sure: JAX compared the structures.
    """
    wanted = failing.kind in ("ValueError", "TypeError", "AttributeError") and failing.machinery
    if wanted and (pair := _loss_and_gradients(failing)) is not None:
        return pair
    said = failing.says(r"pytree structure error|Dict key mismatch|arity mismatch|^Expected (?:dict|list|tuple|None)")
    if not said or failing.kind != "ValueError" or not isinstance(failing.node, ast.Call) or failing.says(r"^vmap "):
        return None
    trees = _trees(failing, failing.node)
    differing = _differing(trees)
    keys = _keys(failing.message)
    optimizer = name_called(failing.node) == "update" and any(
        frame.f_globals.get("__name__", "").startswith("optax") for frame in failing.machinery
    )
    if differing is None and not keys and not optimizer:
        return _same_keys(failing, failing.node, trees)
    words = _words(*differing) if differing is not None else f"only one of them has {listed(keys)}"
    fix, replaces = _made_anew(failing, failing.node) if optimizer else ("", None)
    state = " The optimizer's state was made for other parameters: make it anew with `init`." if optimizer else ""
    return Cause(
        title=f"`{failing.text(failing.node)}`: the trees have different structures, {words}",
        explanation=f"They are gone through side by side and need the same keys, lengths and containers.{state}",
        evidence=tuple(
            Evidence(f"{failing.text(node)}: {_shape(value)}", failing.site.span_of(node)) for node, value in trees
        ),
        fix=fix,
        replaces=replaces,
    )


def _same_keys(failing: Failing, node: ast.Call, trees: list[tuple[ast.expr, Any]]) -> Cause | None:
    """Trees with the same keys: one has None where the other has an array, or one is a list and the other a tuple."""
    if name_called(node) not in _MAPS or len(trees) < 2:
        return None
    (first, reference), *others = trees
    for other, value in others:
        path = _none_at(reference, value, "", 0)
        kinds = type(reference).__name__, type(value).__name__
        if path is not None:
            name = failing.text(first if _part(reference, path) is None else other) + path
            return Cause(
                title=f"`{name}` is None, and the other tree has an array there",
                explanation="None is a tree without leaves, and no leaf: both trees need it in the same places. "
                "`is_leaf=lambda x: x is None` makes it one, which the function then gets.",
                evidence=(Evidence(f"{name} is None", failing.span),),
            )
        if {*kinds} == {"list", "tuple"}:
            made = call(kinds[0], other)
            return Cause(
                title=f"`{failing.text(first)}` is a {kinds[0]}, and `{failing.text(other)}` a {kinds[1]}",
                explanation="Trees that are gone through side by side need the same kinds of container.",
                evidence=(Evidence(f"{failing.text(other)} is a {kinds[1]}", failing.site.span_of(other)),),
                fix=text(replaced(node, other, made)),
                replaces=failing.span,
            )
    return None


def _none_at(one: Any, other: Any, path: str, depth: int) -> str | None:
    """Where only one of two trees has None."""
    if (one is None) != (other is None):
        return path
    parts = dict(children(one, lambda cls: False) or ()) if depth < _DEEPEST else {}
    others = dict(children(other, lambda cls: False) or ()) if parts else {}
    found = (_none_at(part, others[step], path + step, depth + 1) for step, part in parts.items() if step in others)
    return next((each for each in found if each is not None), None)


def _part(value: Any, path: str) -> Any:
    for step in re.findall(r"\[[^\]]*\]|\.\w+", path):
        value = dict(children(value, lambda cls: False) or ()).get(step)
    return value


def _loss_and_gradients(failing: Failing) -> Cause | None:
    """`grads = jax.value_and_grad(loss)(params)`, handed to an optimizer as if it were the gradients alone."""
    given = (
        [*failing.node.args, *(word.value for word in failing.node.keywords)]
        if isinstance(failing.node, ast.Call)
        else []
    )
    names = {part.id for part in given if isinstance(part, ast.Name) and _is_pair(failing.scope.get(part))}
    body = failing.site.definition or failing.site.tree
    for node in ast.walk(body) if names and body is not None else ():
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Call(func=made)) as value) if (
                name in names
            ):
                if text(made).endswith("value_and_grad"):
                    return Cause(
                        title=f"`{name}` is a pair: `value_and_grad` gives the value, and then the gradients",
                        explanation="Take the two apart; an optimizer is given the gradients alone.",
                        evidence=(Evidence(f"`{name}` is made here", failing.site.span_of(node)),),
                        fix=f"loss, {name} = {failing.text(value)}",
                        replaces=failing.site.span_of(node),
                    )
    return None


def _is_pair(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2


def _trees(failing: Failing, node: ast.Call) -> list[tuple[ast.expr, Any]]:
    given = node.args[1:] if name_called(node) in _MAPS else node.args
    pairs = [(arg, failing.value(arg)) for arg in given]
    return [(arg, value) for arg, value in pairs if children(value, lambda cls: True) is not None]


def _differing(trees: list[tuple[ast.expr, Any]]) -> tuple[str, str, list[str], list[str]] | None:
    """Two of the trees, and the paths that only one of them has."""
    if len(trees) < 2:
        return None
    (first, reference), *others = trees
    for other, value in others:
        one, two = _paths(reference, "", 0), _paths(value, "", 0)
        if one != two and {path.partition("]")[0] for path in one} & {path.partition("]")[0] for path in two}:
            return ast.unparse(first), ast.unparse(other), sorted(one - two), sorted(two - one)
    return None


def _paths(value: Any, path: str, depth: int) -> set[str]:
    parts = children(value, lambda cls: False) if depth < _DEEPEST else None
    if parts is None:
        return {path}
    return {each for step, part in parts for each in _paths(part, path + step, depth + 1)} or {path}


def _words(one: str, other: str, only_one: list[str], only_other: list[str]) -> str:
    told = [
        f"`{name}` has {listed([name + path for path in paths[:_MOST]])}, which `{lacking}` has not"
        for name, lacking, paths in ((one, other, only_one), (other, one, only_other))
        if paths
    ]
    return " and ".join(told)


def _keys(message: str) -> list[str]:
    """Keys that only one of the trees has, as JAX says them."""
    found = re.search(r"symmetric difference on key sets is\s+(.+)", message)
    if found:
        return re.findall(r"\['([^']+)'\]", found[1])
    found = re.search(r"expected keys: \[(.*?)\]; present keys: \[(.*?)\]", message)
    if found is None:
        return []
    expected, present = (set(re.findall(r"'([^']+)'", found[number])) for number in (1, 2))
    return sorted(expected ^ present)


def _shape(value: Any) -> str:
    paths = sorted(_paths(value, "", 0))
    more = f", … {len(paths) - _MOST} more" if len(paths) > _MOST else ""
    return f"{type(value).__name__} with {', '.join(paths[:_MOST])}{more}"


def _made_anew(failing: Failing, node: ast.Call) -> tuple[str, Span | None]:
    """The optimizer's state made for these gradients, above the statement."""
    statement = failing.site.statement
    if statement is None or len(node.args) < 2 or not isinstance(node.func, ast.Attribute):
        return "", None
    if len(node.args) > 2 and _paths(failing.value(node.args[0]), "", 0) != _paths(failing.value(node.args[2]), "", 0):
        return "", None  # the gradients are of others, whatever the state was made for
    made = call(f"{text(node.func.value)}.init", node.args[2] if len(node.args) > 2 else node.args[0])
    code = f"{failing.text(node.args[1])} = {text(made)}\n{failing.text(statement)}"
    return code, failing.site.span_of(statement)
