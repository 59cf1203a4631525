"""Why a cached program is not what its function's code gives now: what of all it reads has changed, and where."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from jaxmagic.core.capture.entries import Stale
from jaxmagic.core.lines.attributes import MISSING
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.outside import Outer, read_at, shown, value_of
from jaxmagic.core.rules.ran import Ran
from jaxmagic.core.rules.rewrite import text
from jaxmagic.core.rules.writes import changed as changed_in_place
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import bound_by, is_definition
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Span


class Changed(NamedTuple):
    """Something that a program was compiled with and that is otherwise now."""

    read: Outer
    now: str
    """A plain value as text, else empty."""
    own: bool
    """Whether the jitted function itself reads it."""
    write: Span | None = None
    """The statement of a later cell that changed it."""
    changed_by: str = ""


def changed(observed: Observed, stale: Stale) -> list[Changed]:
    """What has changed: what a later cell wrote, or has the new value; failing that, all that may have."""
    candidates = list(_candidates(observed, stale))
    afters = {each.after for each in stale.drifts}
    if not stale.drifts:  # it can't be traced any more
        return [each for each in candidates if each.read.text in re.findall(r"'(\w+)'", stale.text)]
    written = [each for each in candidates if each.write is not None]
    valued = [each for each in candidates if each.now and each.now in afters]
    functions = [each for each in candidates if callable(value_of(observed, each.read.piece, each.read.node))]
    return written or valued or [each for each in candidates if each not in functions] or functions


def _candidates(observed: Observed, stale: Stale) -> Iterator[Changed]:
    """Everything from outside that is read where the programs differ."""
    jitted = _piece(stale)
    frames: dict[tuple[str, int, int], tuple[Ran, set[int]]] = {}
    for span in dict.fromkeys(span for drift in stale.drifts for span in drift.around):
        piece = _around(span)
        if piece is not None:
            node = piece.node
            frames.setdefault((span.file, node.lineno, node.col_offset), (piece, set()))[1].add(span.line)  # pyright: ignore[reportAttributeAccessIssue]
    if not frames and jitted is not None:
        frames["", 0, 0] = jitted, set(range(jitted.node.lineno, (jitted.node.end_lineno or 0) + 1))  # pyright: ignore[reportAttributeAccessIssue]
    statements = list(_later(observed, stale))
    own, seen = _untraced(observed, stale), set()
    for piece, lines in frames.values():
        is_own = jitted is not None and piece.node is jitted.node
        for read in read_at(observed, piece, lines, own if is_own else ()):
            if read.text not in seen:
                seen.add(read.text)
                value = value_of(observed, piece, read.node)
                file, write = next((each for each in statements if _writes(each[1], read.node)), ("", None))
                found = Changed(read, shown(value) if value is not MISSING else "", is_own)
                if write is not None:
                    first = ast.unparse(write).splitlines()[0]
                    found = found._replace(write=span_of(file, write), changed_by=first)
                yield found


def _piece(stale: Stale) -> Ran | None:
    if stale.span is None:
        return None
    node = source.node_at(stale.span) or source.statement_at(stale.span.file, stale.span.line)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return None
    return Ran(stale.span.file, node, stale.name, ())


def _around(span: Span) -> Ran | None:
    function = source.function_at(span)
    return Ran(span.file, function, getattr(function, "name", "<lambda>"), ()) if function is not None else None


def _untraced(observed: Observed, stale: Stale) -> set[str]:
    """Parameters of the function that hold no traced array."""
    traced = {
        argument.name.partition(".")[0].partition("[")[0]
        for one in observed.compiled
        if one.span == stale.span
        for trace in one.traces
        for argument in trace.inputs
        if argument.aval is not None
    }
    piece = _piece(stale)
    parameters = [arg.arg for arg in ast.walk(piece.node) if isinstance(arg, ast.arg)] if piece is not None else []
    return set(parameters) - traced


def _later(observed: Observed, stale: Stale) -> Iterator[tuple[str, ast.stmt]]:
    """Statements of the cell before the call, and of those that ran after the one that defines the function."""
    file = stale.span.file if stale.span is not None else ""
    for module in observed.modules:
        tree = source.tree(module)
        ends = stale.call.line if stale.call is not None and stale.call.file == module else None
        for statement in reversed(tree.body if tree is not None else []):
            if ends is None or statement.lineno < ends:
                yield from ((module, each) for each in _flat(statement))
    cells = [each.file for each in observed.earlier]
    after = observed.earlier[cells.index(file) + 1 :] if file in cells else ()
    for each in reversed(after):
        for statement in reversed(each.tree.body):
            yield from ((each.file, inner) for inner in _flat(statement))


def _flat(statement: ast.stmt) -> Iterator[ast.stmt]:
    yield statement
    if not is_definition(statement):
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.stmt):
                yield from _flat(child)


def _writes(statement: ast.stmt, read: ast.expr) -> bool:
    """Whether a statement changes what is read: the same, what holds it, or a part of it."""
    targets = [text(target) for each in _targets(statement) for target in _parts(each)]
    spelled = text(read)
    return any(spelled == each or spelled.startswith((f"{each}.", f"{each}[")) for each in targets) or any(
        each.startswith((f"{spelled}.", f"{spelled}[")) for each in targets
    )


def _parts(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        return [part for each in target.elts for part in _parts(each)]
    return [target.value] if isinstance(target, ast.Starred) else [target]


def _targets(statement: ast.stmt) -> list[ast.expr]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [ast.Name(name)]
        case ast.Delete(targets=targets):
            return targets
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="reload"), args=[module])):
            return [module]
    in_place = changed_in_place(statement)
    return bound_by(statement) if in_place is None else [in_place, *bound_by(statement)]
