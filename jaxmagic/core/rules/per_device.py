"""Prints that every device of a mesh makes for itself, without saying which device a line is of."""

import ast
import dataclasses
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from jaxmagic.core.failures.operands import Scope
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.debug_print import values_of
from jaxmagic.core.rules.equations import equations
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import alias, copied, expression, merged, replaced, text
from jaxmagic.core.rules.scopes import Function, around, assigned
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import name_called
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Call, Evidence, Printed, Region, Span, Variable

_AXIS = re.compile(r"(\w*)[=×](\d+)")
_SHARED = "devices"
"""The name that a pmap without one is given."""


class _Mapped(NamedTuple):
    """A call of a function by every device of a mesh."""

    call: Call
    kind: str
    axes: dict[str, int]

    @property
    def devices(self) -> int:
        return math.prod(self.axes.values())


@on_cell("print-per-device", "note", "each device of a shard_map or pmap prints for itself, and no line says which")
def print_per_device(observed: Observed) -> Iterator[Cause]:
    """Inside `jax.shard_map` and `jax.pmap` a function is written for one device: `jax.debug.print` runs on each, with
    that device's part of the arrays, and the lines come in any order. `jax.lax.axis_index` says which device it is.
    The same line under plain `jit`, of a sharded array, prints the whole array once.

    Sure: the line was traced for several devices and has printed at least that many lines. A print that shows an
    `axis_index`, or is guarded by one, is not reported.
    """
    for piece in ran(observed):
        mapped = next(filter(None, map(_mapped, piece.calls)), None)
        for node in piece.own if mapped is not None else ():
            if mapped is not None and isinstance(node, ast.Call) and node.args and _prints(observed, piece, node):
                lines = _lines(observed, piece.span_of(node))
                if len(lines) >= mapped.devices and not _says_which(observed, piece, node):
                    yield _cause(observed, piece, node, mapped, lines)


def _mapped(call: Call) -> _Mapped | None:
    """None where a function did not run on several devices."""
    for word in call.transforms:
        kind, _, axes = word.partition(" ")
        if kind in ("shard_map", "pmap"):
            found = _Mapped(call, kind, {name: int(size) for name, size in _AXIS.findall(axes)})
            return found if found.devices > 1 else None
    return None


def _prints(observed: Observed, piece: Ran, node: ast.Call) -> bool:
    function = node.func.func if isinstance(node.func, ast.Call) else node.func
    return dotted(observed, piece, function) == "jax.debug.print"


def _lines(observed: Observed, span: Span) -> list[Printed]:
    return [each for each in observed.printed if each.source == "jax.debug.print" and each.span == span]


def _says_which(observed: Observed, piece: Ran, node: ast.Call) -> bool:
    """Whether a print shows the number of the device, or is for one device only."""
    return any(_is_index(observed, piece, value) for value in values_of(node)) or any(
        _chooses(observed, piece, outer, node) for outer in _functions(piece)
    )


def _functions(piece: Ran) -> list[Ran]:
    """The function and those that it is defined in, innermost first."""
    outer = [each for each in around(piece) if isinstance(each, Function)]
    return [piece, *(Ran(piece.file, each, getattr(each, "name", "<lambda>"), ()) for each in outer)]


def _is_index(observed: Observed, piece: Ran, node: ast.expr, depth: int = 3) -> bool:
    """Whether an expression is `axis_index` of some axis, a number made of several, or a name for one."""
    match node:
        case ast.Call():
            return name_called(node) == "axis_index" or any(_is_index(observed, piece, each) for each in node.args)
        case ast.Compare(left=left):
            return _is_index(observed, piece, left, depth)
        case ast.BinOp(left=left, right=right):
            return _is_index(observed, piece, left, depth) or (
                isinstance(left, ast.Constant) and _is_index(observed, piece, right, depth)
            )
        case ast.Name(id=name) if depth:
            values = [(each, value) for each in _functions(piece) for value in assigned(each, name)]
            values += _given(observed, piece, name)
            return any(_is_index(observed, owner, value, depth - 1) for owner, value in values)
    return False


def _given(observed: Observed, piece: Ran, name: str) -> list[tuple[Ran, ast.expr]]:
    """What the code that ran passes to a parameter of a function."""
    names = [] if isinstance(piece.node, ast.Module) else [arg.arg for arg in piece.node.args.args]
    names = names[names[:1] == ["self"] :]
    found = []
    for caller in ran(observed) if name in names else ():
        for node in caller.own:
            if isinstance(node, ast.Call) and name_called(node) == piece.name.rpartition(".")[2]:
                pairs = [*zip(names, node.args, strict=False), *((word.arg, word.value) for word in node.keywords)]
                found += [(caller, value) for each, value in pairs if each == name]
    return found


def _chooses(observed: Observed, piece: Ran, outer: Ran, node: ast.Call) -> bool:
    """Whether `outer` has a `cond` that lets one device make the print."""
    for each in outer.own:
        if isinstance(each, ast.Call) and name_called(each) in ("cond", "switch") and each.args:
            predicate = each.args[0]
            names = [part.id for part in each.args[1:] if isinstance(part, ast.Name)]
            inside = piece.name.rpartition(".")[2] in names or any(part is node for part in ast.walk(each))
            parts = [part for part in ast.walk(predicate) if isinstance(part, ast.Call | ast.Name)]
            if inside and any(_is_index(observed, outer, part) for part in parts):
                return True
    return False


def _cause(observed: Observed, piece: Ran, node: ast.Call, mapped: _Mapped, lines: list[Printed]) -> Cause:
    over = [f"`{name}` ({size})" for name, size in mapped.axes.items() if name]
    how = f"{mapped.kind} over {' and '.join(over)}" if over else mapped.kind
    fix, replaces = _labelled(observed, piece, node, mapped)
    kept = "" if fix or over else " Give the pmap an `axis_name` for it."
    return Cause(
        title=f"each of {mapped.devices} devices prints this line for itself, in any order, and none says which it is",
        explanation=f"Inside of {how} the code runs on every device with its own part of the arrays. Print "
        f"`jax.lax.axis_index` with it. Outside, the same line prints the whole array once.{kept}",
        span=piece.span_of(node),
        evidence=(
            *_shapes(observed, piece, node, mapped),
            *(Evidence(f"printed: {line.text[:80]}", line.span) for line in lines[: min(4, mapped.devices)]),
        ),
        fix=fix,
        replaces=replaces,
    )


def _shapes(observed: Observed, piece: Ran, node: ast.Call, mapped: _Mapped) -> Iterator[Evidence]:
    """The part that a device has of each array that is printed, and the whole where that is known."""
    own = tuple(hint for hint in observed.hints if hint.call == mapped.call.id)
    shapes = Shapes(dataclasses.replace(observed, hints=own), piece)
    whole = _whole(observed, piece)
    for value in values_of(node):
        aval = shapes.aval(value)
        if aval is not None and aval.shape:
            told = f" of {whole[value.id]}" if isinstance(value, ast.Name) and value.id in whole else ""
            yield Evidence(f"{piece.text(value)}: {aval}{told} on each device", piece.span_of(value))


def _whole(observed: Observed, piece: Ran) -> dict[str, str]:
    """The arrays that the parameters of a mapped function are parts of, where each is one array."""
    names = [] if isinstance(piece.node, ast.Module) else [arg.arg for arg in piece.node.args.args]
    programs = [trace.program for one in observed.compiled for trace in one.traces if trace.program is not None]
    for program in programs:
        known = {each.id: each for each in _variables(program.root)}
        for equation in equations(program.root):
            (region, *_) = equation.regions or (None,)
            if region is not None and region.kind == "shard_map" and region.name == piece.name.rpartition(".")[2]:
                given = [known.get(each) if isinstance(each, int) else None for each in equation.ins]
                if len(given) == len(names) and set(names).isdisjoint(_rebound(piece)):
                    return {name: str(each.aval) for name, each in zip(names, given, strict=True) if each is not None}
    return {}


def _rebound(piece: Ran) -> set[str]:
    return {node.id for node in piece.own if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _variables(region: Region) -> Iterator[Variable]:
    yield from (*region.inputs, *region.constants)
    for equation in equations(region):
        yield from equation.outs
        for inner in equation.regions:
            yield from (*inner.inputs, *inner.constants)


def _labelled(observed: Observed, piece: Ran, node: ast.Call, mapped: _Mapped) -> tuple[str, Span | None]:
    """The print with the number of the device in front; a pmap whose axis has no name is given one."""
    names = [name for name in mapped.axes if name]
    made = None if names else _unnamed(observed, piece)
    if not names and made is None:
        return "", None
    printed = _with_index(node, names or [_SHARED], alias(Scope({}, observed.namespace), "jax.lax"))
    return (text(printed), piece.span_of(node)) if made is None else _named(piece, node, printed, made)


def _named(piece: Ran, node: ast.Call, printed: ast.Call, made: ast.Call) -> tuple[str, Span | None]:
    """A `jax.pmap(f)` with a name for its axis, and the print that uses it."""
    named = ast.Call(made.func, made.args, [*made.keywords, ast.keyword("axis_name", ast.Constant(_SHARED))])
    if any(part is node for part in ast.walk(made)):
        return text(replaced(named, node, printed)), span_of(piece.file, made)
    first = source.statement_at(piece.file, getattr(piece.node, "lineno", 1))
    begin = span_of(piece.file, first) if first is not None else piece.span_of(node)
    start = Span(begin.file, begin.line, begin.column, begin.line, begin.column)  # from the least indented line on
    return merged([(start, ""), (piece.span_of(node), text(printed)), (span_of(piece.file, made), text(named))])


def _with_index(node: ast.Call, names: list[str], lax: str) -> ast.Call:
    """`jax.debug.print("x={}", x)` as `jax.debug.print("device {d}: x={}", x, d=jax.lax.axis_index("i"))`."""
    taken = {word.arg for word in node.keywords}
    field = next(name for name in ("d", "device", "device_index") if name not in taken)
    pattern = node.args[0]
    match pattern:
        case ast.Constant(value=str(told)):
            shown: ast.expr = ast.Constant(f"device {{{field}}}: {told}")
        case ast.JoinedStr(values=values):
            shown = ast.JoinedStr([ast.Constant(f"device {{{field}}}: "), *values])
        case _:
            shown = ast.BinOp(ast.Constant(f"device {{{field}}}: "), ast.Add(), pattern)
    axes = ast.Constant(names[0]) if len(names) == 1 else ast.Tuple([ast.Constant(name) for name in names])
    index = ast.Call(expression(f"{lax}.axis_index"), [axes], [])
    return copied(ast.Call(node.func, [shown, *node.args[1:]], [*node.keywords, ast.keyword(field, index)]))


def _unnamed(observed: Observed, piece: Ran) -> ast.Call | None:
    """The `jax.pmap(f)` of a function, in the same file."""
    own = piece.name.rpartition(".")[2]
    for node in ast.walk(source.tree(piece.file) or ast.Module([], [])):
        if isinstance(node, ast.Call) and node.args and name_called(node) == "pmap":
            first = node.args[0]
            if first is piece.node or (isinstance(first, ast.Name) and first.id == own):
                return node
    return None
