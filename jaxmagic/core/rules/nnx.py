"""Flax NNX: state from outside of a transformation, calls that lack what they need, layers in plain lists."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jaxmagic.core.failures.sites import Site
from jaxmagic.core.lines.attributes import module_of
from jaxmagic.core.rules.calls import Fix
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.jits import with_at
from jaxmagic.core.rules.rewrite import (
    Edit,
    alias,
    call,
    copied,
    expression,
    extended,
    merged,
    replaced,
    text,
    with_parameters,
)
from jaxmagic.core.rules.stores import root_name
from jaxmagic.core.rules.wording import listed
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import loaded, name_called
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence


@on_error("state-from-outside", "an NNX variable from outside is changed inside a transformed function")
def state_from_outside(failing: Failing) -> Cause | None:
    """Flax NNX passes the state of the modules that a transformed function takes as arguments in and out again. A
    module that it finds as a global or in a closure belongs to the outside, and changing it is refused: a running
    average, a count of random numbers, a parameter, an attribute.

    Sure: Flax refused the change.
    """
    if failing.kind != "TraceContextError" and not failing.says(r"different trace level"):
        return None
    outside = _owner(failing)
    if outside is None:
        return None
    site, root = outside.site, outside.root
    fix, replaces = "", None
    if isinstance(site.definition, ast.FunctionDef):
        fix, replaces = _taken(site, site.definition, root)
    name = getattr(site.definition, "name", "") or "the lambda"
    changed = outside.spelled if outside.spelled != root else failing.text(failing.node or ast.Pass())
    return Cause(
        title=f"`{changed}` belongs to `{root}`, which lives outside the transformed function",
        explanation=f"NNX carries the state of a function's arguments in and out; `{root}` came in by closure. Take it "
        f"as an argument of `{name}` and call it with `{root}` as the first: the new state is then passed on."
        + (" The function is transformed by NNX then, not by JAX itself." if fix and "nnx.jit" in fix else ""),
        evidence=(
            Evidence(f"`{root}` is not an argument of {site.function}", site.span),
            *([Evidence("changed here", failing.span)] if site is not failing.site else []),
        ),
        fix=fix,
        replaces=replaces,
    )


@dataclass(frozen=True)
class _Outside:
    """Where a function reads the object whose state was to be changed."""

    site: Site
    root: str
    spelled: str


def _owner(failing: Failing) -> _Outside | None:
    """The first function, from the change outwards, that has the object from outside and not from its caller."""
    for site in failing.sites:
        target = _changed(site) if site is failing.site else None
        target = target or _used(site)
        root = root_name(target) if target is not None else ""
        if target is None or not root:
            return None
        if root not in site.parameters:
            return _Outside(site, root, site.text(target))
        if site.entered:
            return None
    return None


def _changed(site: Site) -> ast.expr | None:
    match site.statement:
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() as target]) | ast.AugAssign(target=target):
            while isinstance(target, ast.Subscript):
                target = target.value
            return target
    return None


def _used(site: Site) -> ast.expr | None:
    """The NNX object in a call: the one that is called, or handed over."""
    node = site.node
    called: list[ast.expr] = [node.func, *node.args] if isinstance(node, ast.Call) else []
    for part in called:
        inner = part.value if isinstance(part, ast.Attribute) and not _is_nnx(site.scope.get(part)) else part
        if _is_nnx(site.scope.get(inner)):
            return inner
    return None


def _is_nnx(value: Any) -> bool:
    return any(module_of(cls).startswith("flax.nnx") for cls in type(value).__mro__)


def _taken(site: Site, definition: ast.FunctionDef, root: str) -> Fix:
    """The function with the module, and all others that it reads, as its first arguments, and its calls with them."""
    uses = [node for node in ast.walk(site.tree or definition) if isinstance(node, ast.Name)]
    uses = [node for node in uses if node.id == definition.name and isinstance(node.ctx, ast.Load)]
    calls = [node for node in ast.walk(site.tree or definition) if isinstance(node, ast.Call) and node.func in uses]
    if not calls or len(calls) < len(uses):
        return "", None
    read = [name for name in site.scope.globals if name in loaded(definition) and name not in site.parameters]
    names = [root, *(name for name in read if name != root and _is_nnx(site.scope.globals[name]))]
    header, place = with_parameters(site.file, definition, names, in_front=True)
    edits: list[Edit] = [(place, header), *_transformed(site, definition)]
    for node in calls:
        changed = ast.Call(node.func, [*map(ast.Name, names), *node.args], node.keywords)
        edits.append((site.span_of(node), text(changed)))
    return merged(edits)


def _transformed(site: Site, definition: ast.FunctionDef) -> Iterator[Edit]:
    """`@jax.jit` as `@nnx.jit`: JAX's own takes a module apart and forgets its changes."""
    for decorator in definition.decorator_list:
        match decorator:
            case ast.Attribute(value=ast.Name(id="jax"), attr="jit") | ast.Name(id="jit"):
                yield with_at(span_of(site.file, decorator)), f"@{_nnx(site)}.jit"


def _nnx(site: Site) -> str:
    return alias(site.scope, "flax.nnx")


@on_error("nnx-missing", "an NNX call is not given what it needs: rngs, wrt, the model, all the parts of a split")
def nnx_missing(failing: Failing) -> Cause | None:
    """NNX layers draw their parameters from `rngs`, an optimizer is told what it trains (`wrt`) and which model it
    updates, `split` must sort all of the state, and `merge` needs all of the parts.

    Sure: Flax refused the call. What is added is taken from the names at hand.
    """
    node = failing.node
    if not isinstance(node, ast.Call) or failing.kind not in ("TypeError", "ValueError"):
        return None
    if failing.says(r"^[\w.<>]+\.__init__\(\) missing 1 required [\w-]+ argument: 'rngs'$"):
        return _rngs(failing, node)
    if failing.says(r"no `rngs` argument was provided to Dropout"):
        return _dropout(failing, node)
    if failing.says(r"Missing required argument `wrt`"):
        param = expression(f"{_nnx(failing.site)}.Param")
        return Cause(
            title=f"`{failing.text(node)}` does not say what is trained",
            explanation="`wrt` names the kind of variables that the optimizer updates: `nnx.Param` for all parameters.",
            fix=text(extended(node, wrt=param)),
            replaces=failing.span,
        )
    if failing.says(r"Missing required argument `grads`"):
        return _update(failing, node)
    if failing.says(r"Non-exhaustive filters"):
        return _split(failing, node)
    whole = failing.says(r"^Expected a GraphDef|^merge\(\) missing 1 required positional argument: 'state'$")
    if whole and name_called(node) == "merge" and len(node.args) == 1 and type(failing.value(node.args[0])) is tuple:
        return _merge_of_pair(failing, node)
    if failing.says(r"Incorrect number of leaves, expected (\d+)") and name_called(node) == "merge":
        return _merge(failing, node)
    return None


def _rngs(failing: Failing, node: ast.Call) -> Cause:
    held = [name for name, value in failing.scope.locals.items() if type(value).__name__ == "Rngs"]
    value = ast.Name(held[0]) if held else expression(f"{_nnx(failing.site)}.Rngs(0)")
    return Cause(
        title=f"`{failing.text(node)}` needs `rngs`, to draw its parameters from",
        explanation="An NNX layer has its parameters from the start: `rngs=nnx.Rngs(seed)` gives it the keys, and the "
        "`__init__` of a module hands its own `rngs` on.",
        fix=text(extended(node, rngs=value)),
        replaces=failing.span,
    )


def _dropout(failing: Failing, node: ast.Call) -> Cause:
    """The `nnx.Dropout(rate)` that an attribute was made from, with the `rngs` of the `__init__` around it."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    fix, replaces = "", None
    for file in reversed(failing.files):
        for made, around in _made(file, name):
            if replaces is None and not any(word.arg == "rngs" for word in made.keywords):
                known = "rngs" in [arg.arg for arg in (*around.args.args, *around.args.kwonlyargs)] if around else False
                value = ast.Name("rngs") if known else expression(f"{_nnx(failing.site)}.Rngs(0)")
                fix = text(ast.Call(made.func, made.args, [*made.keywords, ast.keyword("rngs", value)]))
                replaces = span_of(file, made)
    return Cause(
        title=f"`{failing.text(node.func)}` draws what it drops, and has no `rngs` to draw from",
        explanation="Make the layer with `rngs`, or switch it off in evaluation: `model.eval()`, `deterministic=True`.",
        evidence=(Evidence("made here", replaces),) if replaces is not None else (),
        fix=fix,
        replaces=replaces,
    )


def _made(file: str, name: str) -> Iterator[tuple[ast.Call, ast.FunctionDef | None]]:
    """Calls of a `Dropout` that are assigned to a name or an attribute, with the function around them."""
    tree = source.tree(file) or ast.Module([], [])
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=target) | ast.Name(id=target)], value=ast.Call() as made):
                if target == name and name_called(made) == "Dropout":
                    around = [each for each in functions if any(part is node for part in ast.walk(each))]
                    yield made, next(reversed(around), None)


def _update(failing: Failing, node: ast.Call) -> Cause:
    names = (*failing.scope.locals.items(), *failing.scope.globals.items())
    models = dict.fromkeys(
        name
        for name, value in names
        if any(cls.__name__ == "Module" and module_of(cls).startswith("flax.nnx") for cls in type(value).__mro__)
        and not any(cls.__name__ == "Optimizer" for cls in type(value).__mro__)
        and not name.startswith("_")
    )
    model = next(iter(models), "") if len(models) == 1 or failing.site.definition is not None else ""
    return Cause(
        title=f"`{failing.text(node)}` is given no model to update",
        explanation="Since Flax 0.11 an optimizer does not hold the model: `update(model, grads)`.",
        fix=text(ast.Call(node.func, [ast.Name(model), *node.args], node.keywords)) if model else "",
        replaces=failing.span,
    )


def _split(failing: Failing, node: ast.Call) -> Cause:
    left = failing.says(r"\)?, (\w+)\(")
    statement, rest = failing.site.statement, copied(node)
    rest.args.append(ast.Constant(...))
    fix, replaces = text(rest), failing.span
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=value) if value is node:
            if len(names) == len(node.args):
                taken = ", ".join([*map(failing.text, names), "rest"])
                fix, replaces = f"{taken} = {text(rest)}", failing.site.span_of(statement)
    kind = f"`{left[1]}`" if left else "some"
    return Cause(
        title=f"`{failing.text(node)}` sorts only a part of the state: {kind} variables are left over",
        explanation="Each variable goes to the first filter that fits; `...` takes all others, as one more part, which "
        "`merge` needs as well.",
        fix=fix,
        replaces=replaces,
    )


def _merge(failing: Failing, node: ast.Call) -> Cause:
    count = failing.says(r"expected (\d+) leaves, but got (\d+)")
    given = {failing.text(arg) for arg in node.args}
    others = _split_with(failing, given)
    fix = text(ast.Call(node.func, [*node.args, *map(ast.Name, others)], node.keywords)) if others else ""
    numbers = f": it has {count[1]} variables, and {count[2]} are given" if count else ""
    return Cause(
        title=f"`{failing.text(node)}` lacks a part of the state{numbers}",
        explanation=f"`split` gave {listed(others)} besides; `merge` needs all of the parts."
        if others
        else "`merge` needs all of the parts that `split` gave.",
        fix=fix,
        replaces=failing.span,
    )


def _merge_of_pair(failing: Failing, node: ast.Call) -> Cause:
    """`nnx.merge(parts)` of all that `split` gave."""
    return Cause(
        title=f"`{failing.text(node.args[0])}` is a tuple, and `merge` takes its parts one by one",
        explanation="`split` gives the graph and then the states; a star hands them over as arguments.",
        fix=text(copied(ast.Call(node.func, [ast.Starred(node.args[0])], node.keywords))),
        replaces=failing.span,
    )


def _split_with(failing: Failing, given: set[str]) -> list[str]:
    """Names that the same `split` gave beside those that are given."""
    for _, node in failing.nodes():
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call() as made) if name_called(made) == "split":
                parts = [name.id for name in names if isinstance(name, ast.Name)]
                if len(parts) == len(names) and parts[0] in given:
                    return [name for name in parts if name not in given]
    return []


@on_error("nnx-list", "layers or arrays in a plain list or dict of an NNX module")
def nnx_list(failing: Failing) -> Cause | None:
    """What a module holds is either state or a setting. A plain list or dict is a setting: with layers or arrays in it
    NNX asks for `nnx.List` or `nnx.Dict`.

    Sure: Flax refused the attribute.
    """
    found = failing.says(r"Found (?:data|Arrays?|\w+) (?:on|in) value of type '?<class '(list|dict|tuple)'>")
    match failing.site.statement:
        case ast.Assign(targets=[ast.Attribute() as target], value=value) if found:
            pass
        case _:
            return None
    assert found is not None
    kind = {"list": "List", "dict": "Dict", "tuple": "List"}[found[1]]
    made = call(f"{_nnx(failing.site)}.{kind}", value)
    return Cause(
        title=f"`{failing.text(target)}` is a plain {found[1]} that holds layers or arrays",
        explanation=f"NNX takes a plain {found[1]} for a setting. `nnx.{kind}` is one whose elements are state.",
        fix=text(replaced(failing.site.statement or target, value, made)),
        replaces=failing.site.span_of(failing.site.statement or target),
    )
