"""Host callbacks: under vmap and grad, their lost exceptions, the debugger, and the module that is gone."""

import ast
import re
from collections.abc import Iterator

from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import alias, call, extended, text
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import name_called, path_to, stored
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span

_CALLBACKS = ("pure_callback", "io_callback", "callback")
_TODAY = {
    "call": "jax.pure_callback(f, jax.ShapeDtypeStruct(x.shape, x.dtype), x)",
    "id_tap": "jax.debug.callback(f, x)",
    "id_print": 'jax.debug.print("{}", x)',
    "barrier_wait": "jax.effects_barrier()",
}


def _callback(failing: Failing) -> ast.Call | None:
    node = failing.node
    return node if isinstance(node, ast.Call) and name_called(node) in _CALLBACKS and node.args else None


def _of_numpy(failing: Failing, function: ast.expr) -> str:
    """The name of a NumPy function that `jax.numpy` has too; empty for any other."""
    root = failing.scope.get(function.value) if isinstance(function, ast.Attribute) else None
    name = function.attr if isinstance(function, ast.Attribute) else ""
    known = getattr(root, "__name__", "") == "numpy" and hasattr(failing.scope.get(function), "nin")
    return name if known else ""


@on_error("callback-under-vmap", "a callback under vmap does not say how it takes a batch")
def callback_under_vmap(failing: Failing) -> Cause | None:
    """Under `vmap` a callback must say how it takes a batch. `vmap_method="sequential"` calls it once for every
    example; `"expand_dims"` and `"broadcast_all"` hand over the whole batch in one call, if the function takes
    leading axes, as NumPy's element-wise functions do.

    Sure: JAX refused to map it. Whether the function takes batches is known for NumPy's universal functions only.
    """
    node = _callback(failing)
    if node is None or not failing.says(r"vmap is only supported for the \w+ primitive when vmap_method"):
        return None
    batched = bool(_of_numpy(failing, node.args[0]))
    method = "expand_dims" if batched else "sequential"
    fixed = extended(node, vmap_method=ast.Constant(method))
    function = failing.text(node.args[0])
    takes = (
        f"`{function}` is a NumPy universal function and takes batches: one host call for all examples."
        if batched
        else (
            f"`sequential` is always right, at one host call per example; if `{function}` takes leading batch axes, "
            "`expand_dims` makes one call for all."
        )
    )
    return Cause(
        title=f"vmap does not know how `{function}` takes a batch",
        explanation=f"The callback was written for one example. {takes}",
        evidence=failing.evidence(*node.args[2:]),
        fix=text(fixed),
        replaces=failing.span,
    )


@on_error("callback-under-grad", "a callback is differentiated")
def callback_under_grad(failing: Failing) -> Cause | None:
    """JAX can't look into a Python function, so it has no derivative. Use the function of `jax.numpy` where there
    is one, or wrap the callback in `jax.custom_jvp` (or `custom_vjp`) with its derivative.

    Sure: JAX refused to differentiate it.
    """
    if not failing.says(r"callbacks? do(?:es)? not support JVP"):
        return None
    node, span = _callback(failing), failing.span
    if node is None:
        calls = list(_calls(failing, ("pure_callback", "io_callback"), None))
        node, span = (calls[0][1], span_of(*calls[0])) if len(calls) == 1 and calls[0][1].args else (None, span)
    name = _of_numpy(failing, node.args[0]) if node is not None else ""
    fix = text(call(f"{alias(failing.scope, 'jax.numpy')}.{name}", *node.args[2:])) if name and node else ""
    function = text(node.args[0]) if node is not None else "a callback"
    same = f" `jax.numpy` has `{name}`, derivative included." if fix else ""
    return Cause(
        title=f"`{function}` runs on the host and has no derivative",
        explanation=f"JAX can't look into a Python function.{same} Otherwise wrap the callback in `jax.custom_jvp` and "
        "give its derivative; `jax.lax.stop_gradient` on its argument treats the result as a constant.",
        span=span,
        evidence=failing.evidence(*node.args[2:])
        if span == failing.span and node is not None
        else (Evidence("differentiated here", failing.span),),
        fix=fix,
        replaces=span,
    )


@on_error("debugger-without-terminal", "jax.debug.breakpoint in a notebook")
def debugger_without_terminal(failing: Failing) -> Cause | None:
    """`jax.debug.breakpoint()` reads its commands from the standard input of the process. A notebook has none, so
    the debugger quits at once and takes the computation with it.

    Sure: the error came out of the debugger's callback.
    """
    inside = any(frame.f_globals.get("__name__", "").startswith("jax._src.debugger") for frame in failing.machinery)
    told = failing.says(r"CpuCallback|callback") and failing.says(r"_breakpoint_callback|jax/_src/debugger|SystemExit")
    if not (told or (failing.kind == "SystemExit" and inside)):
        return None
    found = next((pair for pair in _calls(failing, ("breakpoint",), None)), None)
    if inside and isinstance(failing.node, ast.Call):
        found = (failing.site.file, failing.node)
    span = span_of(*found) if found else None
    fix = _shown_instead(*found) if found else ""
    return Cause(
        title="jax.debug.breakpoint needs a terminal to read commands from",
        explanation="In a notebook it reads an end of file, quits, and the computation ends with it. `%%jaxtap` shows "
        "the values of any variable without stopping; `%jaxnojit` runs the function as Python, where `breakpoint()` "
        "and `%debug` work.",
        span=span,
        evidence=(Evidence("the program was run here", failing.span),),
        fix=fix,
        replaces=span,
    )


def _shown_instead(file: str, node: ast.Call) -> str:
    """`jax.debug.print` of what the function had assigned last, or of its parameters."""
    tree = source.tree(file)
    function = next((each for each in path_to(tree, node) if isinstance(each, ast.FunctionDef)), None) if tree else None
    if function is None:
        return ""
    above = [part for part in function.body if part.lineno < node.lineno]
    names = stored(*above[-1:]) or [arg.arg for arg in function.args.args if arg.arg != "self"]
    pattern = ", ".join(f"{name} = {{{name}}}" for name in names)
    words = {name: ast.Name(name) for name in names}
    return text(call("jax.debug.print", ast.Constant(pattern), **words)) if names else ""


@on_error("callback-exception", "a callback raised; JAX reports another exception, sometimes lines later")
def callback_exception(failing: Failing) -> Cause | None:
    """An exception inside a callback ends the program that called it. What reaches the caller is a runtime error of
    JAX's with the original as text: `except` with the original class never matches, and with asynchronous dispatch
    it surfaces where the result is first needed, which may be lines later.

    Sure: the original traceback is in the message.
    """
    if not failing.says(r"CpuCallback error calling callback|error calling callback"):
        return None
    last = [line for line in failing.message.rstrip().splitlines() if re.match(r"^[A-Za-z_][\w.]*(:|$)", line.strip())]
    original = last[-1].strip() if last else "an exception"
    if declared := re.search(r"Incorrect output (\w+) for return value #(\d+): Expected: (.+), Actual: (.+)", original):
        return _other_type(failing, declared)
    span, function, inner = _raised(failing)
    staged = next((pair for pair in _calls(failing, _CALLBACKS, function)), None)
    evidence = [Evidence("surfaced here, where the result was needed", failing.span)]
    if staged is not None:
        evidence.insert(0, Evidence(f"`{function}` was handed to JAX here", span_of(*staged)))
    if inner not in ("", function):
        evidence.insert(0, Evidence(f"raised in `{inner}`, which it called", span))
    name = original.partition(":")[0]
    return Cause(
        title=f"the callback `{function}` raised {original[:200]}"
        if function
        else f"a callback raised {original[:200]}",
        explanation=f"JAX reports it as {failing.kind}, so `except {name}` does not match; the failing call may have "
        "returned before. Catch the exception inside the callback.",
        span=span,
        evidence=tuple(evidence),
    )


def _other_type(failing: Failing, declared: re.Match[str]) -> Cause:
    """The callback's result is of another shape or dtype than was declared beforehand."""
    what, number, expected, actual = declared.groups()
    calls = [pair for name in ("pure_callback", "io_callback") for pair in _calls(failing, (name,), None)]
    known = [(file, node, part) for file, node in calls for part in ast.walk(node) if _spells(part, expected)]
    fix, replaces = "", None
    if len(known) == 1 and what == "shape":
        fix, replaces = actual, span_of(known[0][0], known[0][2])
    staged = [pair for pair in calls if not known or pair[1] is known[0][1]]
    return Cause(
        title=f"a callback returned {what} {actual}, but {expected} was declared",
        explanation=f"The program is compiled for the result that the call describes; result {number} of the host "
        "function is another one.",
        span=span_of(*staged[0]) if len(staged) == 1 else None,
        evidence=(Evidence("surfaced here, where the result was needed", failing.span),),
        fix=fix,
        replaces=replaces,
    )


def _spells(node: ast.AST, shape: str) -> bool:
    return isinstance(node, ast.Tuple) and text(node) == shape


def _raised(failing: Failing) -> tuple[Span | None, str, str]:
    """Where it was raised, the callback's name, and that of the function that raised, from the message's traceback.

    The traceback begins at the top of the program; the callback is the first of the user's after JAX's own frames.
    """
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\S+)', failing.message)
    last = max((at for at, (file, *_) in enumerate(frames) if _JAX in file), default=-1)
    inside = [(file, int(line), name) for file, line, name in frames[last + 1 :] if file in failing.files]
    if not inside:
        return None, "", ""
    file, line, name = inside[-1]
    statement = source.statement_at(file, line)
    span = span_of(file, statement) if statement is not None else Span(file, line, 0, line, 0)
    return span, inside[0][2], name


_JAX = "/jax/_src/"


def _calls(failing: Failing, names: tuple[str, ...], argument: str | None) -> Iterator[tuple[str, ast.Call]]:
    """Calls of these functions in the user's files, newest first, with that name as first argument."""
    for file, node in failing.nodes():
        if isinstance(node, ast.Call) and name_called(node) in names and argument in (None, _first(node)):
            yield file, node


def _first(node: ast.Call) -> str:
    return getattr(node.args[0], "id", "") if node.args else ""


@on_error("host-callback-removed", "jax.experimental.host_callback no longer exists")
def host_callback_removed(failing: Failing) -> Cause | None:
    """`host_callback` was removed from JAX in 2024. `jax.pure_callback`, `jax.experimental.io_callback`,
    `jax.debug.callback` and `jax.debug.print` took over; while jaxmagic is loaded the old module can be imported.

    Sure: the import failed.
    """
    if not failing.says(r"host_callback") or failing.kind not in (
        "ImportError",
        "ModuleNotFoundError",
        "AttributeError",
    ):
        return None
    names = [alias_.name for node in [failing.site.statement] for alias_ in getattr(node, "names", ())]
    used = [f"# {name}: {_TODAY[name]}" for name in names if name in _TODAY] or [
        f"# hcb.{name}: {today}" for name, today in _TODAY.items()
    ]
    return Cause(
        title="jax.experimental.host_callback was removed from JAX",
        explanation="Today: `jax.pure_callback` for a result that flows on, `jax.experimental.io_callback` where the "
        "order matters, `jax.debug.callback` and `jax.debug.print` to look.",
        fix="\n".join(used),
    )


@on_error("zero-length-without-jit", "scan or map over nothing, with jit disabled")
def zero_length_without_jit(failing: Failing) -> Cause | None:
    """With jit off a scan runs as a Python loop, and a loop of no steps can't tell what type its output would have.
    With jit the same code works: the body is traced without being run.

    Sure: JAX says so.
    """
    if not failing.says(r"zero-length scan is not supported in disable_jit"):
        return None
    site = next((each for each in failing.sites if not isinstance(each.definition, ast.Lambda)), failing.site)
    return Cause(
        title="a scan over zero elements can't run with jit disabled",
        explanation="The code is right: with jit the body is traced and its output type known; as a Python loop of no "
        "steps it never runs. `%jaxnojit` keeps such a scan compiled.",
        fix=f"with jax.disable_jit(False):\n    {site.text(site.statement)}" if site.statement else "",
        replaces=site.span_of(site.statement) if site.statement else None,
    )


@on_error("no-tracing-false-alarm", "jax.no_tracing raised, though nothing is traced again")
def no_tracing_false_alarm(failing: Failing) -> Cause | None:
    """`jax.no_tracing` raises whenever a call takes the slow path through Python. A function with callbacks in it
    always does, also when it is in the cache and nothing is traced.

    Not sure: the function may really be traced again; counting its traces tells.
    """
    match = failing.says(r"re-tracing function (\S+) .*'no_tracing' is set")
    if match is None:
        return None
    return Cause(
        title=f"jax.no_tracing stopped `{match[1]}`",
        explanation="Possible false alarm: a function that holds a callback never takes the fast path, and "
        "`no_tracing` takes that for a new trace. `%%jaxtrace` counts traces.",
        sure=False,
    )
