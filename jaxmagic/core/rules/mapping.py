"""vmap: axes that can't be mapped as asked."""

import ast
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from jaxmagic.core.failures.operands import aval_of
from jaxmagic.core.lines import values
from jaxmagic.core.lines.containers import children
from jaxmagic.core.rules.calls import argument
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import function_of, made_from
from jaxmagic.core.rules.rewrite import copied, expression, replaced, taking, text
from jaxmagic.core.source.nodes import name_called
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span

_AXIS = re.compile(r"had size (\d+)(?:, e\.g\.|:) axis (\d+) of (?:argument )?(\S+)(?: of type (\w+\[[\d,]*\]))?")


@on_error("in-axes", "vmap is asked to map arguments that have no such axis, or of different lengths")
def in_axes(failing: Failing) -> Cause | None:
    """`vmap` maps axis 0 of every argument unless `in_axes` says otherwise: all mapped axes must be equally long,
    and a number has none. An argument that is the same for every example gets `None`.

    Sure: vmap looked at the arguments. In the fix, which argument is shared is a guess from the shapes.
    """
    if failing.kind == "ValueError" and failing.says(r"^at vmap out_axes, got axis spec None"):
        return _unmapped(failing)
    if failing.kind != "ValueError" or not failing.says(r"^vmap "):
        return None
    if failing.says(r"inconsistent sizes"):
        return _sizes(failing)
    if failing.says(r"rank should be at least"):
        return _rank(failing)
    if failing.says(r"got len\(in_axes\)="):
        return _count(failing)
    return _tree(failing)


class _Mapped(NamedTuple):
    """The `jax.vmap(f, …)` that failed, and where it is written."""

    file: str
    node: ast.Call

    @property
    def axes(self) -> ast.expr | None:
        """What `in_axes` is given."""
        return argument(self.node, 1, "in_axes")


def _mapped(failing: Failing) -> _Mapped | None:
    """In the failing expression, or where the function that it calls was made: `batch = jax.vmap(predict)`."""
    called = failing.node.func if isinstance(failing.node, ast.Call) else None
    for file, value in [(failing.site.file, called), *made_from(failing, called)]:
        for node in ast.walk(value) if value is not None else ():
            if isinstance(node, ast.Call) and node.args and name_called(node) in ("vmap", "filter_vmap"):
                return _Mapped(file, node)
    return None


def _with_axes(failing: Failing, axes: list[Any]) -> tuple[str, Span | None]:
    """The failing call, or the vmap where it was made, with these `in_axes`."""
    mapped = _mapped(failing)
    if mapped is None or failing.node is None:
        return "", None
    node = mapped.node
    value = expression(repr(tuple(axes)))
    keywords = [word for word in node.keywords if word.arg != "in_axes"]
    changed = ast.Call(node.func, node.args[:1], [ast.keyword("in_axes", value), *keywords])
    if node in ast.walk(failing.node):
        return text(replaced(failing.node, node, changed)), failing.span
    return text(changed), span_of(mapped.file, node)


def _unmapped(failing: Failing) -> Cause:
    """`out_axes=None` for a result that differs from example to example."""
    mapped = _mapped(failing)
    words = mapped.node.keywords if mapped is not None else []
    axes = next((word.value for word in words if word.arg == "out_axes"), None)
    fix, replaces = "", None
    if mapped is not None and isinstance(axes, ast.Constant):
        kept = [word for word in words if word.arg != "out_axes"]
        fix = text(copied(ast.Call(mapped.node.func, mapped.node.args, kept)))
        replaces = span_of(mapped.file, mapped.node)
    return Cause(
        title="out_axes=None says that the result is the same for every example, and it is not",
        explanation="It depends on a mapped argument, so there is one for each example: out_axes is the axis along "
        "which they are stacked, 0 unless it says otherwise.",
        evidence=failing.evidence(*_arguments(failing)),
        fix=fix,
        replaces=replaces,
    )


def _shared_already(failing: Failing) -> set[int]:
    """Arguments whose axis is None as it stands."""
    mapped = _mapped(failing)
    axes = mapped.axes if mapped is not None else None
    listed = axes.elts if isinstance(axes, ast.Tuple | ast.List) else []
    return {at for at, axis in enumerate(listed) if isinstance(axis, ast.Constant) and axis.value is None}


def _arguments(failing: Failing) -> list[ast.expr]:
    return failing.node.args if isinstance(failing.node, ast.Call) else []


def _leading(failing: Failing, node: ast.expr) -> set[int | str]:
    """Sizes of axis 0 of all arrays in an argument; -1 for one without axes."""
    value = failing.value(node)
    leaves, _ = values.leaves(value, 20)
    if isinstance(value, int | float | bool):
        return {-1}
    avals = [leaf.aval for leaf in leaves] or [aval for aval in [failing.aval(node)] if aval is not None]
    return {aval.shape[0] if aval.shape else -1 for aval in avals}


def _sizes(failing: Failing) -> Cause:
    found = [(size, axis, _spelled(failing, name), kind) for size, axis, name, kind in _AXIS.findall(failing.message)]
    listed = ", ".join(f"`{name}` has {size} along axis {axis}" for size, axis, name, _ in found)
    arguments = _arguments(failing)
    already = _shared_already(failing)
    sizes = [set() if at in already else _leading(failing, node) for at, node in enumerate(arguments)]
    shared = _shared(sizes)
    fix, replaces = "", None
    if shared is not None and len(arguments) > 1:
        none = {*already, shared}
        fix, replaces = _with_axes(failing, [None if at in none else 0 for at in range(len(arguments))])
    same = (
        f" If `{failing.text(arguments[shared or 0])}` is the same for every example, map it with None." if fix else ""
    )
    return Cause(
        title=f"vmap: {listed}",
        explanation=f"All mapped axes must be equally long: one function call is made for each index.{same}",
        evidence=failing.evidence(*arguments)
        or tuple(Evidence(f"axis {axis} of `{name}` {kind} has size {size}") for size, axis, name, kind in found),
        fix=fix,
        replaces=replaces,
    )


def _spelled(failing: Failing, name: str) -> str:
    """`m.weight` where Equinox speaks of `_dynamic_args[0].weight`."""
    inner = re.match(r"_dynamic_args\[(\d+)\]", name)
    arguments = _arguments(failing)
    known = inner is not None and int(inner[1]) < len(arguments)
    return failing.text(arguments[int(inner[1])]) + name[inner.end() :] if inner is not None and known else name


def _shared(sizes: list[set[int | str]]) -> int | None:
    """The argument that isn't a batch: the one with inner differences, or the first that differs from the last."""
    uneven = [index for index, found in enumerate(sizes) if len(found) > 1]
    if uneven:
        return uneven[0]
    return next((index for index, found in enumerate(sizes) if found and found != sizes[-1]), None)


def _rank(failing: Failing) -> Cause:
    match = failing.says(r"along axis (\d+),.*?is only (\d+) \(its shape is (.*?)\)$")
    arguments = _arguments(failing)
    already = _shared_already(failing)
    inside = {at: _flat(failing, node) for at, node in enumerate(arguments) if at not in already}
    flat = {at: paths for at, paths in inside.items() if paths}
    words = [word for word in getattr(failing.node, "keywords", ()) if word.arg and _flat(failing, word.value)]
    fix, replaces = "", failing.span
    if flat and (len(arguments) > len(flat) or any(paths != [""] for paths in flat.values())):
        axes = [None if at in already else _axes(failing, node, flat.get(at)) for at, node in enumerate(arguments)]
        fix, replaces = _with_axes(failing, axes)
    elif words:
        fix = _closed_over(failing)
    shown = flat if flat or words else {at: _flat(failing, node) for at, node in enumerate(arguments)}
    named = [f"`{failing.text(arguments[at])}{path}`" for at, paths in shown.items() for path in paths]
    named += [f"`{word.arg}`" for word in words] if not named else []
    axis, shape = (match[1], match[3]) if match else ("0", "()")
    keyword = " Keyword arguments are always mapped along axis 0." if words and not flat else ""
    return Cause(
        title=f"vmap is to map axis {axis} of {' and '.join(named) or 'an argument'}, whose shape is {shape}",
        explanation="Every argument is mapped along axis 0 unless `in_axes` says otherwise; what is the same for "
        f"every example gets None.{keyword}",
        evidence=failing.evidence(*arguments),
        fix=fix,
        replaces=replaces,
    )


def _flat(failing: Failing, node: ast.expr) -> list[str]:
    """Paths of the numbers, and arrays without axes, in an argument."""
    return list(_numbers(failing.value(node), "", 0))


def _numbers(value: Any, path: str, depth: int) -> Iterator[str]:
    aval = aval_of(value)
    if isinstance(value, int | float | bool) or (aval is not None and not aval.shape):
        yield path
    elif aval is None and depth < _DEEPEST:
        for step, part in children(value, lambda cls: False) or ():
            yield from _numbers(part, path + step, depth + 1)


_DEEPEST = 4


def _axes(failing: Failing, node: ast.expr, flat: list[str] | None) -> Any:
    """The axis of an argument: None for a number, a dict of axes for a dict with numbers in it."""
    value = failing.value(node)
    if not flat or flat == [""]:
        return None if flat else 0
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {key: None if f"[{key!r}]" in flat else 0 for key in value}
    return None


def _closed_over(failing: Failing) -> str:
    """`jax.vmap(f)(x, scale=2.0)` as `jax.vmap(lambda x: f(x, scale=2.0))(x)`."""
    mapped, node = _mapped(failing), failing.node
    if mapped is None or not isinstance(node, ast.Call) or mapped.node is not node.func:
        return ""
    function = function_of(failing.site, mapped.node.args[0])
    names = function.parameters[: len(node.args)] if function is not None else []
    if len(names) < len(node.args):
        return ""
    inner = ast.Call(mapped.node.args[0], [ast.Name(name) for name in names], node.keywords)
    outer = ast.Call(mapped.node.func, [taking(names, inner), *mapped.node.args[1:]], mapped.node.keywords)
    return text(ast.Call(outer, node.args, []))


def _count(failing: Failing) -> Cause:
    match = failing.says(r"len\(in_axes\)=(\d+), len\(args\)=(\d+)")
    arguments = _arguments(failing)
    given, wanted = (match[1], match[2]) if match else ("?", "?")
    sizes = [_leading(failing, node) for node in arguments]
    axes: list[int | None] = [None if -1 in size or index == _shared(sizes) else 0 for index, size in enumerate(sizes)]
    fix, replaces = _with_axes(failing, axes) if arguments else ("", None)
    return Cause(
        title=f"in_axes has {given} entries, but the function was called with {wanted} arguments",
        explanation="`in_axes` has one entry for each positional argument; None leaves an argument as it is.",
        evidence=failing.evidence(*arguments),
        fix=fix,
        replaces=replaces,
    )


def _tree(failing: Failing) -> Cause:
    if failing.says("must have at least one non-None value in in_axes"):
        return Cause(
            title="in_axes maps no argument",
            explanation="vmap learns how many examples there are from a mapped axis: give one argument an axis, or "
            "say `axis_size`.",
            evidence=failing.evidence(*_arguments(failing)),
        )
    match = failing.says(r"pytree structure error: (.*?) at key path\s+(.*?)\n")
    count = failing.says(
        r"of length (\d+), but the full pytree has a subtree of (?:the same type but |type \w+ )of length (\d+)"
    )
    axes = "out_axes" if failing.says("out_axes") else "in_axes"
    place = match[2].removeprefix(f"vmap {axes}").strip() if match else ""
    what = f"{match[1]}{f' at `{place}`' if place else ''}" if match else " ".join(failing.message.split()[:30])
    older = failing.says(r"got specification \((.*?)\) for value tree PyTreeDef\(\(([*, ]*)\)\)")
    counts = (older[1].count(",") + 1, older[2].count("*")) if older and "(" not in older[1] else None
    if (count and not place) or counts:
        given, there = counts or (count[1], count[2])  # pyright: ignore[reportOptionalSubscript]
        whole = "the function returns" if axes == "out_axes" else "the function takes"
        what = f"it has {given} entries, {whole} {there}"
    return Cause(
        title=f"{axes} is not a prefix of what it describes: {what}",
        explanation=f"An entry of `{axes}` is one axis for a whole argument, or a tree of the argument's own structure "
        "(dicts with the same keys).",
        evidence=failing.evidence(*_arguments(failing)),
    )
