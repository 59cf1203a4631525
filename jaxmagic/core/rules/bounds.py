"""Indices beyond the end of an axis, which JAX does not refuse: it clamps, drops, fills or shifts."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from jaxmagic.core.lines.attributes import attribute
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.exact import Exact, call_sites, parameters
from jaxmagic.core.rules.key_libraries import made_by
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import extended, text
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import loaded
from jaxmagic.records import Evidence, Hint, Leaf, TapSeries

_MOST_CALLS = 20
"""Calls of one function whose arguments are looked at."""
_LABELS = "softmax_cross_entropy_with_integer_labels"


@dataclass(frozen=True)
class _Access:
    """An index, or several, into one axis."""

    node: ast.expr
    """The whole expression."""
    array: ast.expr
    index: ast.expr
    size: int
    effect: str
    """What JAX does with an index beyond the end."""
    fixed: ast.expr | None = None
    kind: str = "index"
    room: int = 0
    """Elements that a window takes beyond its start."""
    padding: bool = False
    """JAX documents what becomes of an index beyond the end, and people mark padding by it."""


@on_cell("index-out-of-range", "wrong-result", "an index lies beyond the end of its axis")
def index_out_of_range(observed: Observed) -> Iterator[Cause]:
    """NumPy raises on an index beyond the end. JAX can't, since indices are known on the device only: reading takes
    the last element, `jnp.take` fills in NaN (or the smallest integer), writing is dropped, `dynamic_slice` moves
    its window, and `switch` takes the last branch. An off-by-one error so becomes a number that looks right.

    Sure: index and size are both known: constants, shapes, ranges of loops, and integer arrays that were there
    when the cell ended. Of indices that only the program computes, `%%jaxtap` sees the values: it compares them with
    the size of the axis wherever they are used. Lines under an `if` are not looked at, and a call that states its
    `mode` is left alone. Possible only for class numbers of `one_hot` and numbers of segments, by which padding may
    be marked.
    """
    yield from _tapped(observed)
    for piece in ran(observed):
        exact = Exact(observed, piece)
        values = None
        unsure = _conditional(piece)
        shapes = Shapes(observed, piece)
        for node in piece.own:
            if isinstance(node, ast.Subscript | ast.Call) and node not in unsure:
                for access in _accesses(observed, piece, shapes, exact, node):
                    found = list(_checked(piece, shapes, exact, access))
                    if not found and loaded(access.index) & set(parameters(piece)) and shapes.is_settled(access.array):
                        values = _calls(observed, piece) if values is None else values
                        found = [cause for each in values for cause in _checked(piece, shapes, each, access)]
                    yield from found[:1]


def _calls(observed: Observed, piece: Ran) -> list[Exact]:
    """What the function's arguments were in each of its calls, where there are several."""
    sites = list(call_sites(observed, piece))
    sites = [(caller, call) for caller, call in sites if call not in _conditional(caller)]
    return [Exact(observed, piece, site=site) for site in sites[:_MOST_CALLS]] if len(sites) > 1 else []


class _Seen(Exact):
    """The least and the greatest value of each variable that was tapped."""

    def __init__(self, observed: Observed, piece: Ran, values: dict[str, np.ndarray]) -> None:
        super().__init__(observed, piece)
        self._values = values

    def value(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Name) and node.id in self._values:
            return self._values[node.id]
        return super().value(node)


def _tapped(observed: Observed) -> Iterator[Cause]:
    """Indices whose values came ashore."""
    hints = tuple(
        Hint(one.span, one.function, 0, one.name, "assigned", (Leaf("", one.aval, "traced"),))
        for one in observed.taps
        if one.span is not None and not one.gradient
    )
    known = replace(observed, hints=hints)
    places = {(one.span.file, one.function): one.span for one in observed.taps if one.span is not None}
    for (file, function), span in places.items():
        node = source.function_at(span)
        values = {
            one.name: seen for one in observed.taps if one.function == function and (seen := _range(one)) is not None
        }
        if node is None or not values:
            continue
        piece = Ran(file, node, function, ())
        unsure, shapes, exact = _conditional(piece), Shapes(known, piece), _Seen(known, piece, values)
        for node in piece.own:
            if isinstance(node, ast.Subscript | ast.Call) and node not in unsure:
                for access in _accesses(known, piece, shapes, exact, node):
                    if values.keys() & loaded(access.index):
                        yield from _checked(piece, shapes, exact, access)


def _range(one: TapSeries) -> np.ndarray | None:
    """The least and the greatest value of all events of a series of integers."""
    if one.gradient or not one.aval.dtype.startswith(("int", "uint")):
        return None
    found = []
    for event in one.events:
        if not all(event.active):  # a lane that takes the other branch may have any value
            continue
        if event.summary is not None and event.summary.min is not None and event.summary.max is not None:
            found += [int(event.summary.min), int(event.summary.max)]
        elif event.value is not None:
            found += [int(np.min(event.value)), int(np.max(event.value))]  # pyright: ignore[reportArgumentType, reportCallIssue]
    return np.array([min(found), max(found)]) if found else None


def _conditional(piece: Ran) -> set[ast.AST]:
    """What may not have run, or only for some indices."""
    found: set[ast.AST] = set()
    for node in piece.own:
        if isinstance(node, ast.IfExp | ast.Try | ast.While | ast.BoolOp) or (
            isinstance(node, ast.If) and "__name__" not in text(node.test)
        ):
            found.update(ast.walk(node))
    return found


def _accesses(
    observed: Observed, piece: Ran, shapes: Shapes, exact: Exact, node: ast.Subscript | ast.Call
) -> Iterator[_Access]:
    if isinstance(node, ast.Call):
        yield from _of_call(observed, piece, shapes, exact, node)
    elif isinstance(node.ctx, ast.Load) and not isinstance(node.value, ast.Attribute | ast.Call | ast.Constant):
        filled = ast.Call(
            ast.Attribute(ast.Subscript(ast.Attribute(node.value, "at", ast.Load()), node.slice, ast.Load()), "get"),
            [],
            [ast.keyword("mode", ast.Constant("fill"))],
        )
        yield from _of_axes(shapes, node, node.value, node.slice, "reads the nearest element instead", filled)


def _of_axes(
    shapes: Shapes, node: ast.expr, array: ast.expr, key: ast.expr, effect: str, fixed: ast.expr
) -> Iterator[_Access]:
    """Each part of a key with the size of the axis that it goes into."""
    sizes = shapes.sizes(array)
    if sizes is None:
        return
    axis = 0
    for part in key.elts if isinstance(key, ast.Tuple) else [key]:
        if isinstance(part, ast.Constant) and part.value is None:
            continue
        if axis >= len(sizes) or (isinstance(part, ast.Constant) and type(part.value) is not int):
            return
        if not isinstance(part, ast.Slice):
            yield _Access(node, array, part, sizes[axis], effect, fixed)
        axis += 1


def _of_call(observed: Observed, piece: Ran, shapes: Shapes, exact: Exact, node: ast.Call) -> Iterator[_Access]:
    if any(keyword.arg == "mode" for keyword in node.keywords):
        return
    match node.func:
        case ast.Attribute(
            attr="set" | "add" | "multiply" | "mul" | "divide" | "power" | "min" | "max" | "get" | "subtract" as method,
            value=ast.Subscript(value=ast.Attribute(attr="at", value=array), slice=key),
        ):
            mode, effect = ("fill", "reads the nearest element") if method == "get" else ("drop", "drops the update")
            stated = extended(node, mode=ast.Constant(mode))
            yield from _of_axes(shapes, node, array, key, f"{effect} instead", stated)
            return
    function = dotted(observed, piece, node.func)
    if function in ("jax.numpy.take", "jax.lax.dynamic_slice", "jax.lax.switch") and len(node.args) >= 2:
        yield from _of_function(shapes, exact, function.rpartition(".")[2], node)
    elif function == "jax.lax.dynamic_update_slice" and len(node.args) == 3:
        yield from _of_window(shapes, node)
    elif function in ("jax.numpy.take_along_axis", "jax.ops.segment_sum", "jax.nn.one_hot", f"optax.{_LABELS}"):
        yield from _of_labels(shapes, exact, function.rpartition(".")[2], node)
    elif made_by(observed, piece, node.func).rpartition(".")[2] in ("Embed", "Embedding") and len(node.args) == 1:
        yield from _of_table(observed, node)
    elif function in ("jax.lax.dynamic_slice_in_dim", "jax.lax.dynamic_index_in_dim") and len(node.args) >= 2:
        yield from _along_one_axis(shapes, exact, function, node)


def _of_function(shapes: Shapes, exact: Exact, function: str, node: ast.Call) -> Iterator[_Access]:
    array, index = node.args[:2]
    if function == "switch":
        if isinstance(index, ast.List | ast.Tuple):
            yield _Access(node, index, array, len(index.elts), "runs the last branch instead", kind="branch number")
        return
    sizes = shapes.sizes(array)
    if sizes is None:
        return
    if function == "take":
        axis = exact.get(next((each.value for each in node.keywords if each.arg == "axis"), None))
        size = sizes[axis] if isinstance(axis, int) and -len(sizes) <= axis < len(sizes) else prod(sizes)
        stated = extended(node, mode=ast.Constant("clip"))
        if len(node.args) == 2:
            yield _Access(node, array, index, size, "gives NaN (the smallest integer, for integers)", stated)
    elif isinstance(index, ast.Tuple | ast.List) and len(node.args) > 2:
        windows = exact.get(node.args[2])
        for start, size, window in zip(index.elts, sizes, windows if isinstance(windows, tuple) else (), strict=False):
            yield _Access(node, array, start, size, "moves the window back instead", kind="start", room=window)


def _of_labels(shapes: Shapes, exact: Exact, function: str, node: ast.Call) -> Iterator[_Access]:
    """Functions that take class numbers, or numbers of segments."""
    named = {each.arg: each.value for each in node.keywords}
    if function == "one_hot":
        array, index, size = node, node.args[0], exact.get(named.get("num_classes", (*node.args, None)[1]))
        effect = "gives a row of zeros, and no error"
    elif function == "segment_sum":
        array, index, size = node, (*node.args, named.get("segment_ids"))[1], exact.get(named.get("num_segments"))
        effect = "drops the element instead"
    else:
        array, index = node.args[0], (*node.args, named.get("labels", named.get("indices")))[1]
        sizes = shapes.sizes(array) or ()
        axis = exact.get(named.get("axis", (*node.args, None, None)[2])) if function == "take_along_axis" else -1
        known = isinstance(axis, int) and -len(sizes) <= axis < len(sizes)
        size, effect = sizes[axis] if known else None, "gives NaN"  # pyright: ignore[reportArgumentType, reportCallIssue]
    if isinstance(size, int) and index is not None:
        yield _Access(node, array, index, size, effect, padding=function in ("one_hot", "segment_sum"))


def _of_table(observed: Observed, node: ast.Call) -> Iterator[_Access]:
    """A layer that looks up rows of its table."""
    layer = observed.namespace.get(node.func.id) if isinstance(node.func, ast.Name) else None
    size = attribute(layer, "num_embeddings") if layer is not None else None
    if isinstance(size, int):
        yield _Access(node, node.func, node.args[0], size, "gives NaN or the last row")


def _of_window(shapes: Shapes, node: ast.Call) -> Iterator[_Access]:
    """The starts of a block that is written into an array."""
    array, block, starts = node.args
    sizes, taken = shapes.sizes(array), shapes.aval(block)
    given = starts.elts if isinstance(starts, ast.Tuple | ast.List) else []
    for start, size, room in zip(given, sizes or (), taken.shape if taken is not None else (), strict=False):
        if isinstance(room, int):
            yield _Access(node, array, start, size, "moves the block back instead", kind="start", room=room)


def _along_one_axis(shapes: Shapes, exact: Exact, function: str, node: ast.Call) -> Iterator[_Access]:
    sizes = shapes.sizes(node.args[0])
    windowed = function.endswith("slice_in_dim")
    window = exact.get(node.args[2]) if windowed and len(node.args) > 2 else 1
    given = node.args[2 + windowed : 3 + windowed]
    axis = exact.get(next((each.value for each in node.keywords if each.arg == "axis"), given[0] if given else None))
    if sizes and isinstance(window, int) and (axis or 0) < len(sizes):
        effect = "moves the window back instead"
        yield _Access(node, node.args[0], node.args[1], sizes[axis or 0], effect, kind="start", room=window)


def _checked(piece: Ran, shapes: Shapes, exact: Exact, access: _Access) -> Iterator[Cause]:
    value = exact.get(access.index)
    beyond = _beyond(value, access.size - max(access.room - 1, 0), access.size)
    if beyond is None:
        return
    aval = shapes.aval(access.array)
    shown = f"{access.kind} {beyond}" + (f" (of `{piece.text(access.index)}`)" if np.ndim(value) else "")
    sized = f"an axis of size {access.size}" if access.kind != "branch number" else f"{access.size} branches"
    yield Cause(
        title=f"`{_line(piece, access.node)}`: {shown} for {sized}",
        explanation=f"JAX does not check indices when a program runs: it {access.effect}. "
        + ("State what is meant with `mode`, or check" if access.fixed is not None else "Check")
        + " it: `jax.experimental.checkify` with `index_checks`."
        + (" If that number marks padding, all is well." if access.padding else ""),
        span=piece.span_of(access.node),
        evidence=(Evidence(f"{piece.text(access.array)}: {aval}", piece.span_of(access.array)),) if aval else (),
        fix=text(access.fixed) if access.fixed is not None else "",
        replaces=piece.span_of(access.node),
        sure=not access.padding,
    )


def _line(piece: Ran, node: ast.expr) -> str:
    return " ".join(piece.text(node).split())


def _beyond(value: Any, limit: int, size: int) -> int | None:
    """The index that is out of range the farthest; None where all are inside."""
    if value is None or not np.size(value) or np.asarray(value).dtype.kind not in "iu":
        return None
    low, high = int(np.min(value)), int(np.max(value))
    if high >= limit:
        return high
    return low if low < -size else None
