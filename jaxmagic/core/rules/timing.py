"""Clocks that are read before the device has done the work."""

import ast
from collections.abc import Iterator

from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.exact import call_sites, parameters
from jaxmagic.core.rules.functions_called import is_jitted, own_function
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import call, text
from jaxmagic.core.rules.scopes import attribute_values, class_of
from jaxmagic.core.rules.timers import decorates_jitted, timed_blocks, timed_code
from jaxmagic.core.source.spans import lines_of
from jaxmagic.records import Evidence, Span

_CLOCKS = ("time", "perf_counter", "monotonic", "time_ns", "perf_counter_ns", "monotonic_ns")
_MAKING = ("array", "asarray", "zeros", "ones", "full", "arange", "linspace", "eye")
_WAITING_METHODS = ("block_until_ready", "item", "tolist", "copy_to_host", "result")
_WAITING_FUNCTIONS = ("float", "int", "bool", "print", "str", "repr", "display", "list")
_WAITING_NAMES = ("jax.block_until_ready", "jax.device_get", "jax.effects_barrier")


@on_cell("timing-without-wait", "wrong-result", "a clock is read before the computation is done")
def timing_without_wait(observed: Observed) -> Iterator[Cause]:
    """JAX returns from a call when the work is queued, not when it is done, on the CPU too. A clock that is read then
    has timed the queueing: thousands of times too little. Wait for the result first, with
    `jax.block_until_ready`.

    Sure: a clock is started, arrays are computed, and the clock is read with nothing in between that waits: no
    `block_until_ready`, no conversion to a number or a NumPy array, no print. The same goes for `timeit`, for a
    decorator, and for a context manager that reads a clock when it is entered and left.
    """

    def is_clock(where: Ran, node: ast.AST) -> bool:
        return _is_clock(observed, where, node)

    def is_wait(where: Ran, node: ast.AST) -> bool:
        return not _is_print(node) and _is_wait(observed, where, node)

    for piece in ran(observed):
        if piece.compiled:
            continue
        if any(_is_clock(observed, piece, node) for node in piece.own):
            yield from _timings(observed, piece)
        for block in timed_blocks(observed, piece, is_clock, is_wait):
            yield from _of_block(observed, piece, block)
        for timed, code, quoted in timed_code(observed, piece):
            if isinstance(code, ast.Call) and is_jitted(observed, code.func):
                yield _of_code(piece, timed, code, quoted=quoted)


def _of_block(observed: Observed, piece: Ran, block: ast.With) -> Iterator[Cause]:
    """Work at the end of a `with` that nothing in it waits for."""
    work: tuple[ast.stmt, ast.Call] | None = None
    for statement in _simple(block.body):
        found = _work(observed, piece, statement)
        work = (statement, found) if found is not None else work
        work = None if _waits(observed, piece, statement) else work
    if work is not None:
        yield _cause(piece, block.items[0].context_expr, *work)


def _of_code(piece: Ran, timed: ast.Call, code: ast.Call, *, quoted: bool) -> Cause:
    """`timeit` of a jitted function."""
    waiting = text(_waiting(code))
    span = piece.span_of(timed)
    magic = getattr(timed.func, "attr", "").endswith("_magic")
    if magic:  # stands there as IPython runs it, not as it was typed
        span = Span(span.file, span.line, 0, span.line, len(lines_of(span.file)[span.line - 1].rstrip("\n")))
    literal = quoted and not magic
    return Cause(
        title=f"the clock is read before `{text(code)}` is done",
        explanation="The call returns as soon as the work is queued, on the CPU too; what is timed is the queueing. "
        "Wait for the result in the code that is timed.",
        span=span,
        fix=f"%timeit {waiting}" if magic else repr(waiting) if literal else waiting,
        replaces=None if magic else piece.span_of(timed.args[0] if literal else code),
    )


def _waiting(work: ast.expr) -> ast.Call:
    return call("jax.block_until_ready", work)


def _is_print(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"


def _timings(observed: Observed, piece: Ran) -> Iterator[Cause]:
    started: dict[str, int] = {}
    work: tuple[int, ast.stmt, ast.Call] | None = None
    for place, statement in enumerate(_simple(piece.body)):
        for name in _readings(observed, piece, statement):
            if work is not None and started.get(name, place) < work[0]:
                yield _cause(piece, statement, work[1], work[2])
        found = _work(observed, piece, statement)
        if found is not None:
            work = place, statement, found
        if _waits(observed, piece, statement):
            work = None
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_clock(observed, piece, value):
                started[name] = place


def _simple(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements in the order of the source, those inside of loops and branches in their place."""
    for statement in block:
        inner = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            continue
        if not any(inner):
            yield statement
        for each in inner:
            yield from _simple(each)


def _is_clock(observed: Observed, piece: Ran, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or node.args:
        return False
    module, _, function = dotted(observed, piece, node.func).rpartition(".")
    return (module == "time" and function in _CLOCKS) or (module, function) == ("timeit", "default_timer")


def _readings(observed: Observed, piece: Ran, statement: ast.stmt) -> Iterator[str]:
    """Names of start times that a statement takes the clock against."""
    for node in ast.walk(statement):
        match node:
            case ast.BinOp(left=clock, op=ast.Sub(), right=ast.Name(id=name)) if _is_clock(observed, piece, clock):
                yield name
            case ast.Assign(targets=[ast.Name()], value=value) if _is_clock(observed, piece, value):
                yield from _starts(piece, node)


def _starts(piece: Ran, reading: ast.Assign) -> Iterator[str]:
    """`t0`, where `t1 = time.time()` is later used as `t1 - t0`."""
    end = reading.targets[0]
    for node in piece.own:
        match node:
            case ast.BinOp(left=ast.Name(id=left), op=ast.Sub(), right=ast.Name(id=right)):
                if isinstance(end, ast.Name) and left == end.id:
                    yield right


def _work(observed: Observed, piece: Ran, statement: ast.stmt) -> ast.Call | None:
    """A call that leaves arrays to be computed."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            name = dotted(observed, piece, node.func)
            own = own_function(observed, piece, node.func)
            outermost = getattr(statement, "value", None) is node and name.rpartition(".")[2] not in _MAKING
            jitted = is_jitted(observed, node.func) or _is_held_jitted(observed, piece, node.func)
            jitted = jitted or decorates_jitted(observed, piece, node.func)
            if jitted or (outermost and name.startswith(("jax.numpy.", "jax.lax."))):
                return node
            if own is not None and _gives_arrays(observed, own) and not _waiting_inside(observed, own):
                return node
    return None


def _is_held_jitted(observed: Observed, piece: Ran, function: ast.expr) -> bool:
    """Whether a parameter is called that jitted functions are passed for, or an attribute that holds one."""
    match function:
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if (owner := class_of(piece)) is not None:
            made = attribute_values(owner, name)
            home = Ran(piece.file, ast.Module([], []), "<module>", ())
            names = [dotted(observed, home, each.func) if isinstance(each, ast.Call) else "" for each in made]
            return bool(names) and all(each == "jax.jit" for each in names)
        case ast.Name(id=name) if name in parameters(piece):
            place = parameters(piece).index(name)
            given = [call.args[place] for _, call in call_sites(observed, piece) if len(call.args) > place]
            return bool(given) and all(is_jitted(observed, each) for each in given)
    return False


def _gives_arrays(observed: Observed, own: Ran) -> bool:
    return any(
        hint.role == "returned" and hint.span.file == own.file and hint.function.rpartition(".")[2] == own.name
        for hint in observed.hints
        if any(leaf.kind == "array" for leaf in hint.leaves)
    )


def _waiting_inside(observed: Observed, own: Ran) -> bool:
    return any(_is_wait(observed, own, node) for node in own.own)


def _waits(observed: Observed, piece: Ran, statement: ast.stmt) -> bool:
    for node in ast.walk(statement):
        own = own_function(observed, piece, node.func) if isinstance(node, ast.Call) else None
        if _is_wait(observed, piece, node) or (own is not None and _waiting_inside(observed, own)):
            return True
    return False


def _is_wait(observed: Observed, piece: Ran, node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=method)) if method in _WAITING_METHODS:
            return True
        case ast.Call(func=ast.Name(id=function), args=[*args]) if function in _WAITING_FUNCTIONS:
            return any(not isinstance(arg, ast.Constant) for arg in args)
        case ast.Call(func=function):
            name = dotted(observed, piece, function)
            return name in _WAITING_NAMES or name.startswith("numpy.")
        case ast.If(test=test) | ast.While(test=test):
            return not isinstance(test, ast.Constant)
    return False


def _cause(piece: Ran, reading: ast.stmt | ast.expr, working: ast.stmt, work: ast.Call) -> Cause:
    shown = " ".join(piece.text(work).split())
    done = working.value if isinstance(working, ast.Assign | ast.Expr) else None
    done = done if isinstance(working, ast.Assign) or done is work else None
    fix = text(_waiting(done)) if done is not None else ""
    return Cause(
        title=f"the clock is read before `{shown}` is done",
        explanation="The call returns as soon as the work is queued, on the CPU too; what is timed is the queueing. "
        "Wait for the result before reading the clock. The first call also compiles: time a later one.",
        span=piece.span_of(reading),
        evidence=(Evidence(f"queued here: {shown}", piece.span_of(work)),),
        fix=fix,
        replaces=piece.span_of(done) if done is not None else None,
    )
