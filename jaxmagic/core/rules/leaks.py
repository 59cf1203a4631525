"""Tracers that outlived the function they were made in: who stored them, where, and under which transformation."""

import ast
import functools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from jaxmagic.core import jax_internals
from jaxmagic.core.lines.attributes import MISSING, attribute, class_attribute, instance_dict
from jaxmagic.core.rules import returning
from jaxmagic.core.rules.catalogue import Cause, on_cell, on_error
from jaxmagic.core.rules.contexts import Failing, Observed
from jaxmagic.core.rules.custom_rules import with_arguments
from jaxmagic.core.rules.functions import Function, function_from
from jaxmagic.core.rules.rewrite import alias, indented, text
from jaxmagic.core.rules.stores import Store, root_name, stores
from jaxmagic.core.rules.tracers_kept import held_tracers, tracers
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


_ASKED = ("TracerBoolConversionError", "ConcretizationTypeError", "TracerArrayConversionError")
_ASKED_TOO = ("TracerIntegerConversionError", "NonConcreteBooleanIndexError")


@on_error("leaked-tracer", "a tracer is used after the function that made it was traced")
def leaked_tracer(failing: Failing) -> Cause | None:
    """Values inside a traced function are symbols that mean something during that trace only. A list, a global, an
    attribute, a cache or a closure that keeps one hands out a dead symbol later, often to innocent code. Reported
    are the use, the line that stored it, the function and the transformation it escaped from: jit, grad, vmap, or
    the body of a scan inside the very same jit. The way out is to return the value.

    Sure: JAX refused the tracer, or it has no value although nothing is being traced. The storing line is found in
    the functions of the user: the one whose container holds that very tracer, or that JAX names.
    """
    asked = failing.kind in (*_ASKED, *_ASKED_TOO) and not failing.tracing
    if failing.kind != "UnexpectedTracerError" and not asked:
        return None
    leak = _leak(failing)
    if (asked and leak.tracer is None) or captured_by_custom_rule(failing) is not None:
        return None
    cache = _cached(failing, leak.node)
    store = None if cache else _culprit(failing, leak)
    evidence = [Evidence(f"made here, while {leak.by} traced {leak.owner}", leak.made)] if leak.made else []
    if store is not None:
        evidence.insert(0, Evidence(f"stored by `{_first_line(store)}` in `{store.owner}`", store.span))
    if cache is not None:
        evidence.insert(0, Evidence(f"`{cache.name}` keeps what it returned", cache.span_of(cache.node)))
    fix, replaces = (
        _at_compile_time(failing, cache) if cache else returning.fix(store, failing.files) if store else ("", None)
    )
    used = f"`{failing.text(leak.node)}{leak.path}` " if leak.node is not None else "a value "
    if store is not None and not leak.function:
        leak = replace(leak, function=store.owner)
    of = f" of {leak.owner}" if leak.function else ""
    what = _argument(store, leak.node) or "a tracer"
    return Cause(
        title=f"{used}is {what} of {leak.by}{of}, used after that trace ended",
        explanation="It is a symbol that has a meaning only while its function is traced. "
        + _how(failing, store, leak, cache, fix),
        evidence=tuple(evidence),
        fix=fix,
        replaces=replaces,
    )


@dataclass(frozen=True)
class _Leak:
    """A tracer that was met outside of its trace."""

    node: ast.expr | None
    """The operand that is or holds it."""
    path: str
    """Where in the operand."""
    tracer: Any
    function: str
    """Which function was traced, where JAX says so."""
    by: str
    """The transformation."""
    made: Span | None

    @property
    def owner(self) -> str:
        return "a lambda" if self.function == "<lambda>" else f"`{self.function}`" if self.function else "a function"


def _leak(failing: Failing) -> _Leak:
    node, path, tracer = _dead(failing)
    traced = failing.says(
        r"function being traced when the value leaked was (\S+) at .+?:\d+ traced for (\w+)"
    ) or failing.says(r"occurred while tracing the function (\S+) at .+?:\d+ for (\w+)")
    wrapper = failing.says(r"wrapped in a (\w+)")
    kind = wrapper[1] if wrapper else type(tracer).__name__
    by = _WRAPPERS.get(kind, "") or (traced[2] if traced else "") or "a transformation"
    return _Leak(node, path, tracer, traced[1] if traced else "", by, _created(failing))


def _dead(failing: Failing) -> tuple[ast.expr | None, str, Any]:
    """The operand that holds a tracer of another trace than those of the functions that run."""
    living = {
        id(jax_internals.trace_of(tracer))
        for site in failing.sites
        for name in site.parameters
        for _, tracer in held_tracers(site.scope.locals.get(name))
    }
    nodes = parts(failing.node) or ([failing.node] if isinstance(failing.node, ast.expr) else [])
    found = [(node, path, tracer) for node in nodes for path, tracer in held_tracers(failing.value(node))]
    strangers = [each for each in found if id(jax_internals.trace_of(each[2])) not in living]
    return next(iter(strangers or found), (None, "", None))


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
    statement = source.statement_at(match[1], line, column)
    return span_of(match[1], statement) if statement is not None else Span(match[1], line, column, line, column)


def _culprit(failing: Failing, leak: _Leak) -> Store | None:
    """The statement that stored the tracer: into what holds it now, or else the likeliest of the traced function."""
    found = [store for each in reversed(failing.sources) for store in stores(*each) if not store.constant]
    scored = [(_likeness(failing, leak, store), -at) for at, store in enumerate(found)]
    score, at = max(scored, default=(0, 0))
    return found[-at] if score >= (_LIKELY if leak.tracer is not None else _LIKELY - 1) else None


_LIKELY = 3


def _likeness(failing: Failing, leak: _Leak, store: Store) -> int:
    """How much speaks for a statement: where the very tracer is held, it is that one of those that store there."""
    held = [tracer for holder in _objects(failing, store) for _, tracer in held_tracers(holder)]
    holds = any(tracer is leak.tracer for tracer in held) if leak.tracer is not None else bool(held)
    leaked = leak.node
    captured = isinstance(store.value, ast.Lambda) and leaked is not None and root_name(leaked) in loaded(store.value)
    within = leak.made is not None and leak.made.file == store.file and _encloses(store.function, leak.made)
    return (
        4 * holds
        + 2 * (store.owner == leak.function or captured)
        + within
        + (leaked is not None and root_name(leaked) == store.holder)
        + (leaked is not None and _last_step(leaked) != "" and _last_step(leaked) in _last_steps(store))
    )


def _objects(failing: Failing, store: Store) -> list[Any]:
    """What the name that a statement stores into stands for."""
    for module in list(sys.modules.values()):
        if attribute(module, "__file__") == store.file:
            names = vars(module)
            break
    else:
        names = {}
        for site in reversed(failing.sites):
            names |= site.scope.globals
    if store.holder in ("self", "cls"):
        return [value for value in list(names.values()) if _has_method(type(value), store)]
    if store.default:
        function: Any = names.get(store.owner)
        while "__wrapped__" in instance_dict(function):
            function = instance_dict(function)["__wrapped__"]
        return [getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)]
    return [names[store.holder]] if store.holder in names else []


def _encloses(function: ast.AST, span: Span) -> bool:
    return getattr(function, "lineno", 0) <= span.line <= getattr(function, "end_lineno", 0)


def _last_step(node: ast.expr) -> str:
    """`.cache`, `['loss']`: what the value is called in its container."""
    match node:
        case ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
    return ""


def _last_steps(store: Store) -> set[str]:
    match store.statement:
        case ast.Assign(targets=targets):
            return {_last_step(target) for target in targets}
        case ast.AugAssign(target=target):
            return {_last_step(target)}
        case ast.Call(keywords=keywords, args=args):
            return {word.arg for word in keywords if word.arg} | {
                key.value for key in args if isinstance(key, ast.Constant) and isinstance(key.value, str)
            }
    return set()


def _cached(failing: Failing, leaked: ast.expr | None) -> Function | None:
    """The user's function whose cache handed out the tracer: `functools.cache`, `lru_cache`, `cached_property`."""
    match leaked:
        case ast.Call(func=called):
            value = failing.scope.get(called)
            return function_from(value) if hasattr(value, "cache_info") else None
        case ast.Attribute(value=owner, attr=name):
            made = class_attribute(type(failing.scope.get(owner)), name)
            return function_from(made.func) if isinstance(made, functools.cached_property) else None
    return None


def _at_compile_time(failing: Failing, cache: Function) -> returning.Fix:
    """The cached function with its body evaluated at once, whatever is being traced."""
    if not isinstance(cache.node, ast.FunctionDef):
        return "", None
    first, last = cache.node.body[0], cache.node.body[-1]
    begin, end = cache.span_of(first), cache.span_of(last)
    block = text(*cache.node.body)
    now = f"with {alias(failing.scope, 'jax')}.ensure_compile_time_eval():"
    return f"{now}\n{indented(block)}", Span(begin.file, begin.line, begin.column, end.end_line, end.end_column)


def _first_line(store: Store) -> str:
    return store.text.splitlines()[0]


_LATER = (
    "Return the value instead of storing it; or `jax.debug.callback` stores it when the program runs, which may be "
    "later: `jax.effects_barrier()` waits for it."
)


def _how(failing: Failing, store: Store | None, leak: _Leak, cache: Function | None, fix: str) -> str:
    if cache is not None:
        return (
            f"`{cache.name}` was first called while {leak.by} traced {leak.owner}, and its cache keeps the tracer that "
            "it returned then. `jax.ensure_compile_time_eval` makes a value of it."
        )
    scan = " Both functions may be under one jit: it is the loop's body that it escaped from."
    loop = scan if leak.by in _LOOPS else ""
    if store is None:
        return f"It was kept by a side effect of the traced function. Return the value instead of storing it.{loop}"
    if isinstance(store.value, ast.Lambda) and leak.node is not None:
        return (
            f"`{failing.text(leak.node)}` of `{store.owner}` is kept by the closure of the lambda that "
            f"`{_first_line(store)}` stored in `{store.holder}`: {_place(store)}.__closure__. Store it outside of the "
            "traced function."
        )
    where = "its default value" if store.default else f"`{store.holder}`"
    once = " (which is made once, with the function)" if store.default else ""
    return (
        f"`{_first_line(store)}` in `{store.owner}` put it into {where}{once}, which outlives the call. "
        + (_LATER if "debug.callback(" in fix else "Return the value instead of storing it.")
        + loop
    )


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
    leaked = failing.kind == "UnexpectedTracerError"
    if not (constant or closed or leaked):
        return None
    sources = [each for each in failing.sources if not leaked or each.file == failing.site.file]
    found = next(
        (pair for each in reversed(sources) for pair in _custom_rules(*each) if not leaked or _fails_in(failing, pair)),
        None,
    )
    if found is None:
        return None
    file, outer, function, names = found
    listed = " and ".join(f"`{name}`" for name in names)
    fix, replaces = with_arguments(file, outer, function, names)
    return Cause(
        title=f"the custom rule of `{function.name}` closes over {listed}, a tracer of the enclosing function",
        explanation="A derivative rule may use its arguments and residuals only. Make it an explicit argument of "
        f"`{function.name}`, return it among the residuals of the forward rule, and give it a cotangent.",
        span=span_of(file, function),
        evidence=(Evidence("differentiated here", failing.span),),
        fix=fix,
        replaces=replaces,
    )


def _fails_in(failing: Failing, pair: tuple[str, ast.FunctionDef, ast.FunctionDef, list[str]]) -> bool:
    """Whether a variable of the outer function is the dead tracer, and the function with the rule used it."""
    _, _, function, names = pair
    used = [node for node in parts(failing.node) if isinstance(node, ast.Name) and node.id in names]
    inside = function.lineno <= failing.span.line <= (function.end_lineno or function.lineno)
    return inside and any(map(failing.traced, used))


def _custom_rules(file: str, tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef, ast.FunctionDef, list[str]]]:
    """Functions with a custom derivative, defined inside another function whose variables they or their rules read."""
    for outer in ast.walk(tree):
        if isinstance(outer, ast.FunctionDef):
            defined = [each for each in ast.walk(outer) if isinstance(each, ast.FunctionDef) and each is not outer]
            functions = {each.name for each in defined}
            names = {arg.arg for arg in outer.args.args} | set(stored(*outer.body))
            for inner in filter(_is_custom, defined):
                rules = _rules_of(outer, inner, defined)
                read = {name for each in [inner, *rules] for name in (loaded(each) & names) - _own_names(each)}
                if captured := sorted(read - functions):
                    yield file, outer, inner, captured


def _rules_of(outer: ast.FunctionDef, inner: ast.FunctionDef, defined: list[ast.FunctionDef]) -> list[ast.AST]:
    """What `f.defvjp(forward, backward)` is given, and functions decorated by `f.defjvp`."""
    found: list[ast.AST] = []
    for node in ast.walk(outer):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="defvjp" | "defjvp" | "defjvps"), args=args):
                given = {arg.id for arg in args if isinstance(arg, ast.Name)}
                if name == inner.name:
                    found += [arg for arg in args if isinstance(arg, ast.Lambda)]
                    found += [each for each in defined if each.name in given]
    marked = f"{inner.name}.def"
    return found + [each for each in defined if any(marked in text(decorator) for decorator in each.decorator_list)]


def _own_names(function: Any) -> set[str]:
    body = function.body if isinstance(function.body, list) else []
    return {arg.arg for arg in function.args.args} | set(stored(*body)) | {getattr(function, "name", "")}


def _is_custom(function: ast.FunctionDef) -> bool:
    return any(re.search(r"custom_(vjp|jvp)", text(decorator)) for decorator in function.decorator_list)


@on_cell("tracer-kept", "error", "a variable of the notebook holds a tracer after the cell")
def tracer_kept(observed: Observed) -> Iterator[Cause]:
    """A global, or a container or object in one, holds a tracer although no function is being traced: a traced
    function stored it. Nothing has failed yet; whatever uses it later will, with an error that names neither.
    For a random key the numbers already repeat, since the line that stores it never runs again.

    Sure: the value is a tracer, and a function that ran in this cell stores into that name.
    """
    failed = observed.failure.findings if observed.failure is not None else ()
    explained = any(finding.rule == "leaked-tracer" for finding in failed)
    found = () if explained else [store for file in observed.files for store in stores(file) if not store.constant]
    looked: set[str] = set()
    for store in reversed(found):
        for name, value in _holders(observed, store):
            kept = next(tracers(value), None) if name not in looked else None
            looked.add(name)
            if kept is not None:
                yield _kept(store, name + kept[0], kept[1], returning.fix(store, observed.files))


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


def _kept(store: Store, path: str, aval: str, fix: returning.Fix) -> Cause:
    return Cause(
        title=f"`{path}` holds a leaked tracer ({aval})",
        explanation=f"`{store.text.splitlines()[0]}` in `{store.owner}` stored it while that was traced; the line does "
        "not run again when the compiled program does. Using it raises UnexpectedTracerError: return it instead.",
        span=store.span,
        fix=fix[0],
        replaces=fix[1],
    )
