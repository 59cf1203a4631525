"""What a compiled function read from outside, changed after its trace in the same cell; the calls that come after."""

import ast
import builtins
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.equations import equations, place_of
from jaxmagic.core.rules.functions_called import function_behind, own_function
from jaxmagic.core.rules.ran import Ran, imports, ran
from jaxmagic.core.rules.rewrite import text
from jaxmagic.core.rules.scopes import binder, class_of
from jaxmagic.core.rules.stores import root_name
from jaxmagic.core.rules.writes import changed, mutated
from jaxmagic.core.source import spans as source
from jaxmagic.records import Compiled, Trace

_MOST = 20
"""Functions that are looked into for one that is compiled."""


@dataclass(frozen=True)
class Rebinding:
    """A call that was served from the cache although something its function reads had changed."""

    function: Ran
    name: str
    """The function, as its programs are called."""
    caller: Ran
    call: ast.stmt
    write: ast.stmt
    target: str
    """What was written: `lr`, `m.scale`."""
    before: str
    """The value in the program; empty where it is no literal."""
    read: ast.expr | None
    """Where it is read, and the function in which it is: a helper, or this one."""
    reader: Ran
    value: str
    """What it is now; empty where it is no plain number or text."""


def rebindings(observed: Observed) -> Iterator[Rebinding]:
    """At most one for each function."""
    callers = [piece for piece in ran(observed) if not piece.compiled and not isinstance(piece.node, ast.Lambda)]
    for one in observed.compiled:
        piece = _traced_here(one) if one.kind == "jit" and not one.library and one.parent is None else None
        reads = _Reads(observed, piece, one) if piece is not None and one.calls > len(_fresh(one)) else None
        for caller in callers if reads is not None and (reads.names or reads.attributes) else ():
            found = _rebinding(observed, caller, one, reads)  # type: ignore[arg-type]
            if found is not None:
                yield found
                break


def _fresh(one: Compiled) -> list[Trace]:
    """Of two jits of one function, the second finds the trace of the first."""
    return [trace for trace in one.traces if not trace.cached and trace.trace_s > 0]


def _traced_here(one: Compiled) -> Ran | None:
    """The function's code, where it was traced in this cell."""
    if one.span is None or all(trace.cached for trace in one.traces):
        return None
    node = source.node_at(one.span)
    return Ran(one.span.file, node, one.name, ()) if isinstance(node, ast.FunctionDef | ast.Lambda) else None


class _Read(NamedTuple):
    """An expression that reads what is not the function's own, and the function that it stands in."""

    piece: Ran
    node: ast.expr


class _Reads:
    """What a function, and those of the user's that it calls, read that is not their own."""

    def __init__(self, observed: Observed, piece: Ran, one: Compiled) -> None:
        self.piece = piece
        self.names: dict[str, _Read] = {}
        self.attributes: dict[str, _Read] = {}
        self.elements: list[ast.Subscript] = []
        self.mentions: Counter[str] = Counter()
        """How often each name and attribute is read, elements included."""
        self.static = _static(piece, one)
        for each in _with_helpers(observed, piece):
            known = set(imports(each.file)) | set(vars(builtins)) | (each.local if each is not piece else set())
            self._of_piece(each, known)

    def _of_piece(self, piece: Ran, known: set[str]) -> None:
        holders = [mutated(node) for node in piece.own]
        for node in piece.own:
            if any(node is holder for holder in holders):
                continue
            if isinstance(node, ast.Name | ast.Attribute):
                self.mentions[text(node)] += 1
            match node:
                case ast.Subscript(ctx=ast.Load()):
                    self.elements.append(node)
                case ast.Name(id=name, ctx=ast.Load()) if name not in piece.local and name not in known:
                    self.names.setdefault(name, _Read(piece, node))
                case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=ast.Load()):
                    if owner in self.static or owner == "self" or (owner not in piece.local and owner not in known):
                        self.attributes.setdefault(name, _Read(piece, node))

    def of(self, observed: Observed, caller: Ran, target: ast.expr) -> _Read | None:
        """Where the function reads what is assigned to."""
        match target:
            case ast.Name(id=name):
                read = self.names.get(name)
                return read if read is not None and _is_same(read.piece, caller, name) else None
            case ast.Attribute(value=ast.expr() as owner, attr=name):
                read = self.attributes.get(name)
                return read if read is not None and self._owned(observed, caller, owner, read) else None
            case ast.Subscript(value=holder):
                read = self.of(observed, caller, ast.Name(root_name(holder))) or self.of(observed, caller, holder)
                return read if read is not None and self._may_read(target) else None
        return None

    def _may_read(self, target: ast.Subscript) -> bool:
        """Whether the element that is assigned to may be one of those read: not another key of a dictionary."""
        key, holder = _key(target), text(target.value)
        elements = [node for node in self.elements if text(node.value) == holder]
        whole = sum(text(node.value) == holder for node in self.elements) < self.mentions.get(holder, 0)
        return key is None or whole or not elements or any(_key(node) in (None, key) for node in elements)

    def _owned(self, observed: Observed, caller: Ran, owner: ast.expr, read: _Read) -> bool:
        """Whether the object whose attribute is assigned can be the one that the function reads."""
        reader, kind = root_name(read.node), class_of(read.piece)
        if reader != "self":
            same = isinstance(owner, ast.Name) and owner.id == reader and _is_same(read.piece, caller, reader)
            return same or (reader in self.static and isinstance(owner, ast.Name))
        if kind is None or not isinstance(owner, ast.Name):
            return False
        if owner.id == "self":
            return class_of(caller) is kind
        return any(each.__name__ == kind.name for each in type(observed.namespace.get(owner.id)).__mro__)


def _static(piece: Ran, one: Compiled) -> set[str]:
    """Parameters that hold no traced array."""
    traced = {argument.name for trace in one.traces for argument in trace.inputs if argument.aval is not None}
    parameters = [] if isinstance(piece.node, ast.Module) else [arg.arg for arg in piece.node.args.args]
    return {name for name in parameters if not any(_belongs(path, name) for path in traced)}


def _with_helpers(observed: Observed, piece: Ran) -> list[Ran]:
    """The function, those defined in it, and those of the user's that they call."""
    found = [piece]
    for each in found:
        inner = [node for node in ast.walk(each.node) if isinstance(node, ast.FunctionDef | ast.Lambda)]
        called = [function_behind(observed, each, node.func) for node in each.own if isinstance(node, ast.Call)]
        for other in (*(Ran(each.file, node, each.name, ()) for node in inner), *called):
            if other is not None and len(found) < _MOST and all(other.node is not known.node for known in found):
                found.append(other)
    return found


def _is_same(piece: Ran, caller: Ran, name: str) -> bool:
    """Whether a name means the same variable in a function and where it is assigned."""
    outer = binder(piece, name)
    if isinstance(caller.node, ast.Module):
        cells = piece.file.startswith("<") and caller.file.startswith("<")
        return outer is None and (caller.file == piece.file or cells)
    return name in caller.shared if outer is None else outer.node is caller.node


def _belongs(path: str, name: str) -> bool:
    return path == name or path.startswith((f"{name}.", f"{name}["))


def _rebinding(observed: Observed, caller: Ran, one: Compiled, reads: _Reads) -> Rebinding | None:
    steps = list(_steps(caller.node.body if not isinstance(caller.node, ast.Lambda) else []))
    written = [(place, step, *_written(observed, caller, step, reads)) for place, step in enumerate(steps)]
    written = [each for each in written if each[3] is not None]
    called = [
        place for place, step in enumerate(steps) if written and _calls(observed, caller, step.statement, reads.piece)
    ]
    for place, step, target, read in written:
        if _put_back(written, place, target, called):
            continue
        after = [each for each in called if each > place and not _traces_there(one, caller, steps[each].statement)]
        if isinstance(step.statement, ast.With):  # which puts it back at its end
            after = [each for each in after if steps[each].statement in ast.walk(step.statement)]
        again = [each for each in called if _repeats(step, steps[each], reads.piece)]
        before = [each for each in called if each < place] or again
        served = after if before and before[0] not in again else again
        if read is not None and before and served:
            old = next(iter(_literals(one, read.piece, read.node)), "")
            call, now = steps[served[0]].statement, _now(step.statement)
            return Rebinding(
                reads.piece, one.name, caller, call, step.statement, target, old, read.node, read.piece, now
            )
    return None


def _put_back(written: list[Any], place: int, target: str, called: list[int]) -> bool:
    """Whether another assignment gives the old value again before the function is called."""
    given = {each: _now(step.statement) for each, step, name, _ in written if name == target}
    until = next((each for each in called if each > place), None)
    last = max((each for each in given if until is None or each < until), default=place)
    before = max((each for each in given if each < min(called, default=0)), default=None)
    return before is not None and given[before] != "" and given[last] == given[before]


def _now(statement: ast.stmt) -> str:
    """What an assignment gave, where it stands there."""
    match statement:
        case ast.Assign(value=ast.Constant() as value):
            return ast.unparse(value)
    return ""


class _Step(NamedTuple):
    """A simple statement, or the header of a loop, with the loops around it."""

    statement: ast.stmt
    loops: tuple[ast.stmt, ...]


def _steps(block: list[ast.stmt], loops: tuple[ast.stmt, ...] = ()) -> Iterator[_Step]:
    """In the order of the source; what a loop or branch holds only once, in its place."""
    for statement in block:
        if isinstance(statement, ast.ClassDef):
            continue
        inner = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        if not any(inner) or isinstance(statement, ast.FunctionDef):
            yield _Step(statement, loops)
            continue
        within = (*loops, statement) if isinstance(statement, ast.For | ast.While) else loops
        if isinstance(statement, ast.For | ast.With):
            yield _Step(statement, within)
        for each in inner:
            yield from _steps(each, within)


def _repeats(write: _Step, call: _Step, function: Ran) -> bool:
    """Whether a loop around both changes something between two calls of a function that is made outside of it."""
    loops = [loop for loop in write.loops if loop in call.loops and function.node not in ast.walk(loop)]
    return bool(loops) and not _is_constant(write.statement)


def _is_constant(statement: ast.stmt) -> bool:
    """An assignment that gives the same in every pass of a loop."""
    return isinstance(statement, ast.FunctionDef) or (
        isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
    )


def _written(observed: Observed, caller: Ran, step: _Step, reads: _Reads) -> tuple[str, _Read | None]:
    match step.statement:
        case ast.Assign(targets=targets):
            for target in targets:
                if (read := reads.of(observed, caller, target)) is not None:
                    return text(target), read
        case ast.AugAssign(target=target) | ast.For(target=target):
            return text(target), reads.of(observed, caller, target)
        case ast.FunctionDef(name=name) if isinstance(caller.node, ast.Module):
            return name, reads.names.get(name)
        case ast.Expr() | ast.With() if (target := changed(step.statement)) is not None:
            return text(target), reads.of(observed, caller, target)
        case ast.Expr(value=ast.Call() as call):
            return _written_by(observed, caller, call, reads)
    return "", None


def _written_by(observed: Observed, caller: Ran, call: ast.Call, reads: _Reads) -> tuple[str, _Read | None]:
    """What a function of the user's that is called writes itself, whatever happens: `trainer.set_rate(0.1)`."""
    function = function_behind(observed, caller, call.func)
    if function is None or isinstance(function.node, ast.Lambda) or function.node is reads.piece.node:
        return "", None
    for statement in function.body:
        match statement:
            case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
                shared = not isinstance(target, ast.Name) or target.id in function.shared
                module = Ran(function.file, ast.Module([], []), "<module>", ())
                writer = module if isinstance(target, ast.Name) else function
                read = reads.of(observed, writer, target) if shared else None
                if read is not None:
                    return text(target), read
    return "", None


def _key(node: ast.Subscript) -> object:
    """A constant key that is no number: of an array, another number may be the same element."""
    value = getattr(node.slice, "value", None) if isinstance(node.slice, ast.Constant) else None
    return value if isinstance(value, str) else None


def _calls(observed: Observed, cell: Ran, statement: ast.stmt, piece: Ran) -> bool:
    if isinstance(statement, ast.FunctionDef | ast.For | ast.With):
        return False
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(_is_of(observed, cell, node.func, piece) for node in calls)


def _is_of(observed: Observed, cell: Ran, function: ast.expr, piece: Ran) -> bool:
    found = function_behind(observed, cell, function)
    if found is None and isinstance(function, ast.Attribute):
        found = own_function(observed, cell, function)
    return found is not None and found.node is piece.node


def _traces_there(one: Compiled, cell: Ran, statement: ast.stmt) -> bool:
    lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    traced = [trace for trace in one.traces if trace.trace_s > 0 and not trace.cached]
    spans = [trace.span for trace in traced if trace.span is not None]
    return any(span.file == cell.file and span.line in lines for span in spans)


def _literals(one: Compiled, piece: Ran, read: ast.expr) -> Iterator[str]:
    """Literals that the programs have at the line where it is read."""
    for trace in one.traces:
        if trace.program is not None:
            for equation in equations(trace.program.root):
                span = place_of(trace.program, equation)
                if span is not None and span.file == piece.file and span.line == read.lineno:
                    yield from (atom.partition(":")[0] for atom in equation.ins if isinstance(atom, str))
