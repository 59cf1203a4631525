"""vmap: axes that can't be mapped as asked."""

import ast
import re

from jaxmagic.core.lines import values
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import replaced, text
from jaxmagic.records import Evidence

_AXIS = re.compile(r"had size (\d+)(?:, e\.g\.|:) axis (\d+) of (?:argument )?(\S+)(?: of type (\w+\[[\d,]*\]))?")


@on_error("in-axes", "vmap is asked to map arguments that have no such axis, or of different lengths")
def in_axes(failing: Failing) -> Cause | None:
    """`vmap` maps axis 0 of every argument unless `in_axes` says otherwise: all mapped axes must be equally long,
    and a number has none. An argument that is the same for every example gets `None`.

    Sure: vmap looked at the arguments. In the fix, which argument is shared is a guess from the shapes.
    """
    if failing.kind != "ValueError" or not failing.says(r"^vmap "):
        return None
    if failing.says(r"inconsistent sizes"):
        return _sizes(failing)
    if failing.says(r"rank should be at least"):
        return _rank(failing)
    if failing.says(r"got len\(in_axes\)="):
        return _count(failing)
    return _tree(failing)


def _mapped(failing: Failing) -> ast.Call | None:
    """The call of `jax.vmap(f)` inside the failing expression, where it is written there."""
    node = failing.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Call):
        name = node.func.func
        called = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
        return node.func if called == "vmap" else None
    return None


def _with_axes(failing: Failing, axes: list[int | None]) -> str:
    """The failing call with these `in_axes`."""
    mapped = _mapped(failing)
    if mapped is None or failing.node is None:
        return ""
    value = ast.Tuple([ast.Constant(axis) for axis in axes])
    keywords = [word for word in mapped.keywords if word.arg != "in_axes"]
    changed = ast.Call(mapped.func, mapped.args[:1], [ast.keyword("in_axes", value), *keywords])
    return text(replaced(failing.node, mapped, changed))


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
    found = _AXIS.findall(failing.message)
    listed = ", ".join(f"`{name}` has {size} along axis {axis}" for size, axis, name, _ in found)
    arguments = _arguments(failing)
    sizes = [_leading(failing, node) for node in arguments]
    shared = _shared(sizes)
    fix = ""
    if shared is not None and len(arguments) > 1:
        fix = _with_axes(failing, [None if index == shared else 0 for index in range(len(arguments))])
    same = (
        f" If `{failing.text(arguments[shared or 0])}` is the same for every example, map it with None." if fix else ""
    )
    return Cause(
        title=f"vmap: {listed}",
        explanation=f"All mapped axes must be equally long: one function call is made for each index.{same}",
        evidence=failing.evidence(*arguments)
        or tuple(Evidence(f"axis {axis} of `{name}` {kind} has size {size}") for size, axis, name, kind in found),
        fix=fix,
        replaces=failing.span,
    )


def _shared(sizes: list[set[int | str]]) -> int | None:
    """The argument that isn't a batch: the one with inner differences, or the first that differs from the last."""
    uneven = [index for index, found in enumerate(sizes) if len(found) > 1]
    if uneven:
        return uneven[0]
    return next((index for index, found in enumerate(sizes) if found != sizes[-1]), None)


def _rank(failing: Failing) -> Cause:
    match = failing.says(r"along axis (\d+),.*?is only (\d+) \(its shape is (.*?)\)$")
    arguments = _arguments(failing)
    scalars = [index for index, node in enumerate(arguments) if -1 in _leading(failing, node)]
    fix = ""
    if scalars and len(arguments) > len(scalars):
        fix = _with_axes(failing, [None if index in scalars else 0 for index in range(len(arguments))])
    which = " and ".join(f"`{failing.text(arguments[index])}`" for index in scalars) or "an argument"
    axis, shape = (match[1], match[3]) if match else ("0", "()")
    return Cause(
        title=f"vmap is to map axis {axis} of {which}, whose shape is {shape}",
        explanation="Every argument is mapped along axis 0 unless `in_axes` says otherwise; what is the same for "
        "every example gets None.",
        evidence=failing.evidence(*arguments),
        fix=fix,
        replaces=failing.span,
    )


def _count(failing: Failing) -> Cause:
    match = failing.says(r"len\(in_axes\)=(\d+), len\(args\)=(\d+)")
    arguments = _arguments(failing)
    given, wanted = (match[1], match[2]) if match else ("?", "?")
    sizes = [_leading(failing, node) for node in arguments]
    axes: list[int | None] = [None if -1 in size or index == _shared(sizes) else 0 for index, size in enumerate(sizes)]
    return Cause(
        title=f"in_axes has {given} entries, but the function was called with {wanted} arguments",
        explanation="`in_axes` has one entry for each positional argument; None leaves an argument as it is.",
        evidence=failing.evidence(*arguments),
        fix=_with_axes(failing, axes) if arguments else "",
        replaces=failing.span,
    )


def _tree(failing: Failing) -> Cause:
    match = failing.says(r"pytree structure error: (.*?) at key path\s+(\S+)")
    axes = "out_axes" if failing.says("out_axes") else "in_axes"
    what = f"{match[1]} at `{match[2]}`" if match else " ".join(failing.message.split()[:30])
    return Cause(
        title=f"{axes} is not a prefix of what it describes: {what}",
        explanation=f"An entry of `{axes}` is one axis for a whole argument, or a tree of the argument's own structure "
        "(dicts with the same keys).",
        evidence=failing.evidence(*_arguments(failing)),
    )
