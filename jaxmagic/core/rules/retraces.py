"""Functions that are traced and compiled again and again: how often, why, and what it cost."""

import ast
from collections import Counter
from collections.abc import Iterator

from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.source import spans as source
from jaxmagic.records import Change, Compiled, Evidence, Span, Trace

_CHOSEN = {"shape", "dtype", "structure", "static value"}
MANY = 3
"""Traces of one definition in one cell that are worth a finding."""


def _fresh(one: Compiled) -> list[Trace]:
    """Traces made in this cell."""
    return [trace for trace in one.traces if not trace.cached]


def _seconds(traces: list[Trace]) -> float:
    return sum(trace.trace_s + trace.lower_s + trace.compile_s for trace in traces)


@on_cell("new-function-each-time", "slow", "a new function object is jitted at every pass, so nothing is cached")
def new_function_each_time(observed: Observed) -> Iterator[Cause]:
    """The cache of jit goes by function object: a lambda, a `partial`, `grad(f)` or a nested `def` made anew in a
    loop is a new function every time, traced and compiled from the start. Make the jitted function once, outside
    of the loop. Running a cell again makes new functions too; that is not reported.

    Sure: several functions of one definition were traced in this cell because the object was new.
    """
    groups: dict[Span, list[Compiled]] = {}
    for one in observed.compiled:
        if one.span is not None and not one.library and one.parent is None and one.kind != "abstract":
            groups.setdefault(one.span, []).append(one)
    for span, found in groups.items():
        traces = [trace for one in found for trace in _fresh(one)]
        times = sum(map(_is_new, traces)) + 1
        if times >= MANY:
            # What JAX derives of each, its gradient for one, costs time, but is no function of its own.
            kinds = {one.kind for one in found if any(map(_is_new, _fresh(one)))}
            counted = [trace for one in found if one.kind in kinds for trace in _fresh(one)]
            yield _new_each_time(span, found[0].name, counted, times, _seconds(traces))


def _is_new(trace: Trace) -> bool:
    return trace.reason.kind == "new function object"


def _new_each_time(span: Span, name: str, traces: list[Trace], least: int, seconds: float) -> Cause:
    sites = Counter(trace.span for trace in traces if trace.span is not None)
    made = [(site, times) for site, times in sites.items() if times > 1 or len(sites) == 1]
    times = sum(times for _, times in made) or least
    method = any(_jits_a_method(site) for site, _ in made)
    reason = (
        "`jax.jit` got a new bound method each time; it would have found the program of an equal one, but nothing kept "
        "that alive, and the entry died with it"
        if method
        else "Each was a new function object, so none found the program of the one before"
    )
    return Cause(
        title=f"`{name}` was traced {times} times, as a new function each ({seconds:.2g} s)",
        explanation=f"{reason}. Make the jitted function once, outside of the loop.",
        span=span,
        evidence=tuple(Evidence(f"{times} traces from this call", site) for site, times in made),
    )


def _jits_a_method(site: Span) -> bool:
    """`jax.jit(model.apply)(…)`."""
    match source.node_at(site):
        case ast.Call(func=ast.Call(args=[ast.Attribute(), *_])):
            return True
    return False


@on_cell("retraced", "slow", "a function is traced again because something about its arguments changed")
def retraced(observed: Observed) -> Iterator[Cause]:
    """Every new shape, dtype, weak type, structure or static value of an argument, another spelling of the same call
    and some configuration options make a new entry in the cache. Two entries are normal, many are not.

    Sure: of the traces and of what changed. Reported from three traces on, unless each was made by a call of its own
    with another shape, dtype, structure or static value, as where a function is tried out.
    """
    for one, changed in _changed(observed):
        if len(changed) + 1 >= MANY and not _is_meant(one, changed):
            yield _again(one, changed)


def _is_meant(one: Compiled, changed: list[Trace]) -> bool:
    """Whether each call of the code has its own kind of argument, as one writes them down to try a function."""
    kinds = [{change.what for change in trace.reason.changes} for trace in changed]
    sites = Counter(trace.span for trace in _fresh(one))
    meant = all(kind & _CHOSEN and kind <= _CHOSEN | {"weak type"} for kind in kinds)
    return meant and None not in sites and max(sites.values()) == 1


@on_cell("weak-type-retrace", "note", "a function is traced a second time for a weak type alone")
def weak_type_retrace(observed: Observed) -> Iterator[Cause]:
    """A Python number, `jnp.array(0.0)` included, gives a weakly typed argument, `f32[]*`; the result that replaces
    it in a loop is `f32[]`. Shape and dtype print the same, and everything is traced and compiled twice.

    Sure: nothing else changed. A note, since it happens once; from three traces on it is `retraced`.
    """
    for one, changed in _changed(observed):
        weak = [trace for trace in changed if {change.what for change in trace.reason.changes} == {"weak type"}]
        if weak and len(changed) + 1 < MANY and len(_fresh(one)) > 1:
            yield _again(one, weak, _strong(weak[0]))


def _changed(observed: Observed) -> Iterator[tuple[Compiled, list[Trace]]]:
    """Functions with the traces that were made because an argument changed."""
    for one in observed.compiled:
        if not one.library and one.kind != "abstract":
            yield one, [trace for trace in _fresh(one) if trace.reason.kind == "changed"]


def _again(one: Compiled, seen: list[Trace], fix: str = "") -> Cause:
    return Cause(
        title=f"`{one.name}` was traced {len(_fresh(one))} times ({_seconds(_fresh(one)):.2g} s): {_why(seen)}",
        explanation=_advice(seen),
        span=one.span,
        evidence=tuple(Evidence(str(trace.reason), trace.span) for trace in seen[:10]),
        fix=fix,
    )


def _why(traces: list[Trace]) -> str:
    """What changed, and in which argument where that is one or two."""
    changes = [change for trace in traces for change in trace.reason.changes]
    kinds = Counter(change.what for change in changes)
    parts = []
    for what, times in kinds.most_common():
        names = list(dict.fromkeys(change.name for change in changes if change.what == what))
        named = f" of {' and '.join(names)}" if len(names) <= 2 and what not in ("structure", "option") else ""
        parts.append(f"{what}{named}" + (f" ({times})" if times > 1 else ""))
    return ", ".join(parts)


def _advice(traces: list[Trace]) -> str:
    changes = [change for trace in traces for change in trace.reason.changes]
    common = Counter(change.what for change in changes).most_common(1)
    first = next((change for change in changes if change.what == common[0][0]), None)
    if first is None:
        return "Each new kind of argument compiles again."
    ways = {
        "shape": "Pad to a few fixed sizes, or drop the last short batch.",
        "dtype": "Cast before the call, so that every call has the same dtype.",
        "weak type": "A Python number is weakly typed (`*`); start from a stated dtype, as `jnp.float32(0)`.",
        "static value": "Each static value compiles once: pass what changes every step as an ordinary argument.",
        "structure": "A tuple and a list, or None and an array, are different structures: keep to one.",
        "spelling": "Positional, keyword and default arguments are separate entries: call it one way.",
        "option": "The configuration is part of the cache's key: set it once.",
        "sharding": "Place the arguments in the same way at every call.",
    }
    return f"{first}. {ways.get(first.what, '')}"


def _strong(trace: Trace) -> str:
    """The start value with a stated dtype."""
    change: Change = trace.reason.changes[0]
    dtype = {"f32": "float32", "i32": "int32", "f64": "float64", "bool": "bool_"}.get(change.after.partition("[")[0])
    where = source.text_of(trace.span) if trace.span is not None else ""
    if not change.name.isidentifier():
        return ""
    return f"{change.name} = jnp.{dtype}({change.name})  # before the first {where or 'call'}" if dtype else ""
