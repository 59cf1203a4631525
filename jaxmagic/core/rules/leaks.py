"""Tracers that outlived the function they were made in: who stored them, where, and under which transformation."""

import ast
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from jaxmagic.core.failures.operands import is_tracer
from jaxmagic.core.lines.attributes import MISSING, class_attribute
from jaxmagic.core.rules import returning
from jaxmagic.core.rules.catalogue import Cause, on_cell, on_error
from jaxmagic.core.rules.contexts import Failing, Observed
from jaxmagic.core.rules.rewrite import text
from jaxmagic.core.rules.stores import Store, root_name, stores
from jaxmagic.core.rules.tracers_kept import tracers
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import loaded, parts, stored
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span

_WRAPPERS = {
    "BatchTracer": "vmap",
    "VmapTracer": "vmap",
    "LinearizeTracer": "grad",
    "GradTracer": "grad",
    "JVPTracer": "grad",
    "JvpTracer": "jvp",
    "DynamicJaxprTracer": "",
    "JitTracer": "",
}


@on_error("leaked-tracer", "a tracer is used after the function that made it was traced")
def leaked_tracer(failing: Failing) -> Cause | None:
    """Values inside a traced function are symbols that mean something during that trace only. A list, a global, an
    attribute, a cache or a closure that keeps one hands out a dead symbol later, often to innocent code. Reported
    are the use, the line that stored it, the function and the transformation it escaped from: jit, grad, vmap, or
    the body of a scan inside the very same jit. The way out is to return the value.

    Sure: JAX refused the tracer. The storing line is found in the source of the function that JAX names, or of
    all functions of the user that store into what was used.
    """
    if failing.kind != "UnexpectedTracerError":
        return None
    leaked = next((part for part in parts(failing.node) if is_tracer(failing.value(part))), None)
    traced = failing.says(r"function being traced when the value leaked was (\S+) at (.+?):(\d+) traced for (\w+)")
    store = _culprit(failing, leaked, traced[1] if traced else "")
    wrapper = failing.says(r"wrapped in a (\w+)")
    by = traced[4] if traced else _WRAPPERS.get(wrapper[1] if wrapper else "", "") or "a transformation"
    function = traced[1] if traced else (store.owner if store else "")
    made = _created(failing)
    evidence = [Evidence(f"made here, while {by} traced `{function}`", made)] if made else []
    if store is not None:
        evidence.insert(0, Evidence(f"stored by `{store.text.splitlines()[0]}` in `{store.owner}`", store.span))
    fix, replaces = returning.fix(store.file, store.function, store.statement, by) if store else ("", None)
    used = f"`{failing.text(leaked)}` " if leaked is not None else "a value "
    argument = _argument(store, leaked)
    scan = " Both functions may be under one jit: it is the loop's body that it escaped from." if by in _LOOPS else ""
    return Cause(
        title=f"{used}is {argument or 'a tracer'} of {by}{f' of `{function}`' if function else ''}, used after that "
        "trace ended",
        explanation="It is a symbol that has a meaning only while its function is traced. "
        + (_how(store, leaked, failing) if store else "It was kept by a side effect of the traced function. ")
        + f"Return the value instead of storing it.{scan}",
        evidence=tuple(evidence),
        fix=fix,
        replaces=replaces,
    )


def _argument(store: Store | None, leaked: ast.expr | None) -> str:
    """`argument 0`, where a closure keeps a parameter of the function: JAX names no line for it."""
    if store is None or not isinstance(leaked, ast.Name) or not isinstance(store.value, ast.Lambda):
        return ""
    names = [arg.arg for arg in store.function.args.args]
    return f"argument {names.index(leaked.id)}" if leaked.id in names else ""


_LOOPS = ("scan", "while_loop", "fori_loop", "cond")


def _created(failing: Failing) -> Span | None:
    match = failing.says(r"created on line (.+?):(\d+)(?::(\d+))? \(")
    if match is None:
        return None
    line, column = int(match[2]), int(match[3] or 0)
    return Span(match[1], line, column, line, column)


def _culprit(failing: Failing, leaked: ast.expr | None, function: str) -> Store | None:
    """The statement that stored the tracer: into what was used, or else anywhere in the traced function."""
    holder = root_name(leaked) if leaked is not None else ""
    inner = failing.site.function.rpartition(".")[2] == "<lambda>"
    found = [store for file in reversed(failing.files) for store in stores(file)]
    named = [store for store in found if store.owner == function] if function else found
    into = [store for store in named if store.holder == holder]
    if not into and inner and leaked is not None:
        into = [store for store in named if store.value is not None and holder in loaded(store.value)]
    if not into and not function:
        return None
    return next(iter(into or named), None)


def _how(store: Store, leaked: ast.expr | None, failing: Failing) -> str:
    captured = isinstance(store.value, ast.Lambda) and leaked is not None
    if captured and leaked is not None:
        return (
            f"`{failing.text(leaked)}` of `{store.owner}` is kept by the closure of the lambda that "
            f"`{store.text.splitlines()[0]}` stored in `{store.holder}`: {_place(store)}.__closure__. "
        )
    return f"`{store.text.splitlines()[0]}` in `{store.owner}` put it into `{store.holder}`, which outlives the call. "


def _place(store: Store) -> str:
    """Where the stored function is found: `hooks["double"]`."""
    match store.statement:
        case ast.Assign(targets=[target]):
            return text(target)
    return store.holder


@on_error("captured-by-custom-rule", "a custom_vjp or custom_jvp rule closes over a tracer")
def captured_by_custom_rule(failing: Failing) -> Cause | None:
    """The rules of a `custom_vjp` may use their arguments and residuals only. One that closes over a variable of
    an enclosing traced function captures its tracer: values come out right, gradients fail with an internal error.
    Make the variable an argument and pass it on as a residual.

    Sure: JAX refused the constant. The rule is found as a function inside a traced one that reads its variables.
    """
    constant = failing.says(r"No constant handler for type: .*Tracer")
    closed = failing.kind == "CustomVJPException" or failing.says(r"with respect to a closed-over value")
    if not (constant or closed):
        return None
    found = next((pair for file in reversed(failing.files) for pair in _custom_rules(file)), None)
    if found is None:
        return None
    file, function, names = found
    listed = " and ".join(f"`{name}`" for name in names)
    return Cause(
        title=f"the custom rule of `{function.name}` closes over {listed}, a tracer of the enclosing function",
        explanation="A derivative rule may use its arguments and residuals only. Make it an explicit argument of "
        f"`{function.name}`, return it among the residuals of the forward rule, and give it a cotangent.",
        span=span_of(file, function),
        evidence=(Evidence("differentiated here", failing.span),),
    )


def _custom_rules(file: str) -> Iterator[tuple[str, ast.FunctionDef, list[str]]]:
    """Functions with a custom derivative, defined inside another function whose variables they read."""
    tree = source.tree(file)
    for outer in ast.walk(tree) if tree is not None else ():
        if isinstance(outer, ast.FunctionDef):
            names = {arg.arg for arg in outer.args.args} | set(stored(*outer.body))
            for inner in ast.walk(outer):
                if isinstance(inner, ast.FunctionDef) and inner is not outer and _is_custom(inner):
                    own = {arg.arg for arg in inner.args.args} | set(stored(*inner.body)) | {inner.name}
                    captured = sorted((loaded(inner) & names) - own)
                    if captured:
                        yield file, inner, captured


def _is_custom(function: ast.FunctionDef) -> bool:
    return any(re.search(r"custom_(vjp|jvp)", text(decorator)) for decorator in function.decorator_list)


@on_error("state-from-outside", "an NNX variable from outside is changed inside a transformed function")
def state_from_outside(failing: Failing) -> Cause | None:
    """Flax NNX passes the state of the modules that a transformed function takes as arguments in and out again. A
    module that it finds as a global or in a closure belongs to the outside, and changing it is refused.

    Sure: Flax refused the change.
    """
    if failing.kind != "TraceContextError":
        return None
    target = _changed(failing)
    root = root_name(target) if target is not None else ""
    definition = failing.site.definition
    fix, replaces = "", None
    if root and isinstance(definition, ast.FunctionDef):
        arguments = ", ".join([root, *(arg.arg for arg in definition.args.args)])
        fix = f"def {definition.name}({arguments}):"
        replaces = _header(failing.site.file, definition)
    spelled = failing.text(target) if target is not None else "a variable"
    return Cause(
        title=f"`{spelled}` belongs to `{root}`, which lives outside the transformed function",
        explanation=f"NNX carries the state of a function's arguments in and out; `{root}` came in by closure. Take it "
        f"as an argument and call it with `{root}` as the first: the new state is then passed on.",
        evidence=(Evidence(f"`{root}` is not an argument of {failing.site.function}", failing.span),),
        fix=fix,
        replaces=replaces,
    )


def _changed(failing: Failing) -> ast.expr | None:
    match failing.site.statement:
        case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
            while isinstance(target, ast.Subscript):
                target = target.value
            return target
    return None


def _header(file: str, definition: ast.FunctionDef) -> Span:
    """`def f(x):` of a function whose header is one line."""
    line = definition.lineno
    colon = source.lines_of(file)[line - 1].encode().rfind(b":") + 1
    body = definition.body[0]
    if body.lineno == line:
        colon = source.lines_of(file)[line - 1].encode()[: body.col_offset].rfind(b":") + 1
    return Span(file, line, definition.col_offset, line, colon)


@on_cell("tracer-kept", "error", "a variable of the notebook holds a tracer after the cell")
def tracer_kept(observed: Observed) -> Iterator[Cause]:
    """A global, or a container or object in one, holds a tracer although no function is being traced: a traced
    function stored it. Nothing has failed yet; whatever uses it later will, with an error that names neither.
    For a random key the numbers already repeat, since the line that stores it never runs again.

    Sure: the value is a tracer, and a function that ran in this cell stores into that name.
    """
    failed = observed.failure.findings if observed.failure is not None else ()
    explained = any(finding.rule == "leaked-tracer" for finding in failed)
    found = () if explained else [store for file in observed.files for store in stores(file)]
    looked: set[str] = set()
    for store in reversed(found):
        for name, value in _holders(observed, store):
            kept = next(tracers(value), None) if name not in looked else None
            looked.add(name)
            if kept is not None:
                yield _kept(store, name + kept[0], kept[1])


def _holders(observed: Observed, store: Store) -> list[tuple[str, Any]]:
    """Variables of the notebook that a statement may have stored into; for `self`, the objects of its class."""
    if store.holder != "self":
        value = observed.namespace.get(store.holder)
        return [] if value is None else [(store.holder, value)]
    return [(name, value) for name, value in list(observed.namespace.items()) if _has_method(type(value), store)]


def _has_method(cls: type, store: Store) -> bool:
    method = class_attribute(cls, store.owner)
    while method is not MISSING and not isinstance(method, FunctionType):
        method = getattr(method, "__wrapped__", MISSING)
    return isinstance(method, FunctionType) and method.__code__.co_filename == store.file


def _kept(store: Store, path: str, aval: str) -> Cause:
    fix, replaces = returning.fix(store.file, store.function, store.statement, "jit")
    return Cause(
        title=f"`{path}` holds a leaked tracer ({aval})",
        explanation=f"`{store.text.splitlines()[0]}` in `{store.owner}` stored it while that was traced; the line does "
        "not run again when the compiled program does. Using it raises UnexpectedTracerError: return it instead.",
        span=store.span,
        fix=fix,
        replaces=replaces,
    )
