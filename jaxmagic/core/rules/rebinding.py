"""What a compiled function read from outside, changed after its trace in the same cell; the calls that come after."""

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.functions_called import own_function
from jaxmagic.core.rules.ran import Ran, imports, ran
from jaxmagic.core.rules.rewrite import text
from jaxmagic.core.rules.stores import root_name
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.syntax import definition
from jaxmagic.records import Compiled, Equation, Region, Span


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
    read: ast.expr | None
    """Where the function reads it."""
    before: str
    """The value in the program; empty where it is no literal."""


def rebindings(observed: Observed) -> Iterator[Rebinding]:
    """At most one for each function."""
    cells = [piece for piece in ran(observed) if isinstance(piece.node, ast.Module)]
    for one in observed.compiled:
        piece = _traced_here(one) if one.kind == "jit" and not one.library and one.parent is None else None
        reads = _Reads(piece, one) if piece is not None else None
        for cell in cells if reads is not None and (reads.names or reads.attributes) else ():
            found = _rebinding(observed, cell, one, reads)  # type: ignore[arg-type]
            if found is not None:
                yield found
                break


def _traced_here(one: Compiled) -> Ran | None:
    """The function's code, where it was traced in this cell."""
    if one.span is None or all(trace.cached for trace in one.traces):
        return None
    node = source.node_at(one.span)
    return Ran(one.span.file, node, one.name, ()) if isinstance(node, ast.FunctionDef | ast.Lambda) else None


class _Reads:
    """What a function reads that is not its own."""

    def __init__(self, piece: Ran, one: Compiled) -> None:
        traced = {argument.name for trace in one.traces for argument in trace.inputs if argument.aval is not None}
        self.piece = piece
        self.names: dict[str, ast.expr] = {}
        self.attributes: dict[str, ast.expr] = {}
        known = set(imports(piece.file)) | set(vars(builtins))
        parameters = [arg.arg for arg in piece.node.args.args] if not isinstance(piece.node, ast.Module) else []
        static = {name for name in parameters if not any(_belongs(path, name) for path in traced)}
        for node in piece.own:
            match node:
                case ast.Name(id=name, ctx=ast.Load()) if name not in piece.local and name not in known:
                    self.names.setdefault(name, node)
                case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=ast.Load()):
                    if owner in static or (owner not in piece.local and owner not in known):
                        self.attributes.setdefault(name, node)

    def of(self, target: ast.expr) -> ast.expr | None:
        """Where the function reads what is assigned to."""
        match target:
            case ast.Name(id=name):
                return self.names.get(name)
            case ast.Attribute(attr=name):
                return self.attributes.get(name)
            case ast.Subscript(value=holder):
                return self.names.get(root_name(holder)) or self.of(holder)
        return None


def _belongs(path: str, name: str) -> bool:
    return path == name or path.startswith((f"{name}.", f"{name}["))


def _rebinding(observed: Observed, cell: Ran, one: Compiled, reads: _Reads) -> Rebinding | None:
    statements = list(_simple(cell.body))
    if all(_written(statement, reads)[1] is None for statement in statements):
        return None
    called = [place for place, statement in enumerate(statements) if _calls(observed, cell, statement, reads.piece)]
    for place, statement in enumerate(statements):
        target, read = _written(statement, reads)
        later = [each for each in called if each > place and not _traces_there(one, cell, statements[each])]
        if read is not None and called and called[0] < place and later:
            before = next(iter(_literals(one, reads.piece, read)), "")
            return Rebinding(reads.piece, one.name, cell, statements[later[0]], statement, target, read, before)
    return None


def _simple(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements in the order of the source; what a loop or branch holds only once, in its place."""
    for statement in block:
        if isinstance(statement, ast.ClassDef):
            continue
        inner = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        if not any(inner) or isinstance(statement, ast.FunctionDef):
            yield statement
        else:
            for each in inner:
                yield from _simple(each)


def _written(statement: ast.stmt, reads: _Reads) -> tuple[str, ast.expr | None]:
    match statement:
        case ast.Assign(targets=targets):
            for target in targets:
                if (read := reads.of(target)) is not None:
                    return text(target), read
        case ast.AugAssign(target=target):
            return text(target), reads.of(target)
        case ast.FunctionDef(name=name):
            return name, reads.names.get(name)
    return "", None


def _calls(observed: Observed, cell: Ran, statement: ast.stmt, piece: Ran) -> bool:
    if isinstance(statement, ast.FunctionDef):
        return False
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(_is_of(observed, cell, node.func, piece) for node in calls)


def _is_of(observed: Observed, cell: Ran, function: ast.expr, piece: Ran) -> bool:
    if isinstance(function, ast.Name):
        value = observed.namespace.get(function.id)
        for _ in range(5):
            code = getattr(value, "__code__", None)
            if code is not None:
                return definition(code) is piece.node
            value = getattr(value, "__wrapped__", None)
        return False
    method = isinstance(function, ast.Attribute) and own_function(observed, cell, function)
    return bool(method) and isinstance(method, Ran) and method.node is piece.node


def _traces_there(one: Compiled, cell: Ran, statement: ast.stmt) -> bool:
    lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    traced = [trace for trace in one.traces if trace.trace_s > 0 and not trace.cached]
    spans = [trace.span for trace in traced if trace.span is not None]
    return any(span.file == cell.file and span.line in lines for span in spans)


def _literals(one: Compiled, piece: Ran, read: ast.expr) -> Iterator[str]:
    """Literals that the programs have at the line where it is read."""
    for trace in one.traces:
        if trace.program is not None:
            for equation in _equations(trace.program.root):
                frames = trace.program.frames
                span: Span | None = frames[equation.frame].span if 0 <= equation.frame < len(frames) else None
                if span is not None and span.file == piece.file and span.line == read.lineno:
                    yield from (atom.partition(":")[0] for atom in equation.ins if isinstance(atom, str))


def _equations(region: Region) -> Iterator[Equation]:
    for equation in region.equations:
        yield equation
        for inner in equation.regions:
            yield from _equations(inner)
