"""An exception becomes a `Failure`: the expression that failed, its operands, where they came from, the cause."""

import ast
import re
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Literal

from jaxmagic.core import rules
from jaxmagic.core.cells import Cells
from jaxmagic.core.failures.operands import aval_of
from jaxmagic.core.failures.provenance import Provenance, Written
from jaxmagic.core.failures.sites import Stack, is_jax
from jaxmagic.core.failures.tracebacks import Entries, walk
from jaxmagic.core.limits import Limits
from jaxmagic.core.placed import Placed
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.source.living import Living, living
from jaxmagic.core.source.nodes import parts
from jaxmagic.core.source.spans import Policy
from jaxmagic.records import Failure, Frame, Operand

MOST_CHARACTERS = 4_000
"""Of the exception's message."""

_TRACEBACK = "Traceback (most recent call last):"

_TRACING = (
    "trace_to_jaxpr_nocache",
    "trace_to_jaxpr",
    "trace_to_jaxpr_dynamic",
    "vmap_f",
    "linearize",
    "_infer_params",
)
_COMPILING = ("_pjit_lower", "lower_sharding_computation", "_cached_compilation", "compile_or_get_cached")
_RUNNING = ("_pjit_call_impl_python", "_check_if_deleted", "_value")


def explain(
    error: BaseException,
    *,
    entries: Entries | None = None,
    lines: Written | None = None,
    policy: Policy | None = None,
    limits: Limits | None = None,
    cells: Cells | None = None,
) -> Failure:
    """Explains an exception that the user's code raised, from its traceback.

    Args:
        error: As caught; its traceback must still be there. It is not changed, and nothing of it is kept.
        entries: The frames of its traceback, where there are more than the exception has itself.
        lines: The line record of the cell, for shapes at the lines where operands were written. Without it the
            source and the frames' locals are used.
        policy: Which files are the user's.
        limits: Collects what could not be found out.
        cells: The notebook, for causes that stand in other cells.

    Returns:
        The failing expression, its operands with their abstract values and origins, and at most one finding.
        Never raises: what fails is left out and named in `limits`.
    """
    limits = limits or Limits()
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    failure = Failure(name, "", None)
    with limits.guard("the exception's explanation"):
        message = str(error)
        failure = Failure(name, _capped(message), None)
        policy = policy or Policy()
        stack = Stack(walk(error.__traceback__) if entries is None else entries, policy)
        if stack.sites:
            failure = _explained(error, name, message, stack, lines, policy, limits, cells or Cells())
    return failure


def _explained(
    error: BaseException,
    name: str,
    message: str,
    stack: Stack,
    lines: Written | None,
    policy: Policy,
    limits: Limits,
    cells: Cells,
) -> Failure:
    if isinstance(error, Placed) and error.place is not None:
        frames = _frames_from(error.place, stack)
        return Failure(name, _capped(message), error.place.span, frames, phase=_phase(error, stack))
    sources = _sources(message, stack, policy, cells)
    failing = Failing(error, message, stack.sites, stack.transforms, stack.machinery, stack.equation, sources)
    operands: tuple[Operand, ...] = ()
    with limits.guard("operands of the failing expression"):
        operands = _operands(failing, Provenance(stack.sites, lines))
    return Failure(
        type=name,
        message=_capped(message),
        span=failing.span,
        frames=_frames(stack),
        operands=operands,
        findings=rules.diagnose(failing, limits),
        phase=_phase(error, stack),
    )


def _sources(message: str, stack: Stack, policy: Policy, cells: Cells) -> tuple[Living, ...]:
    """Where rules search for what caused an error elsewhere: all that its frames and the user's variables lead to."""
    frames = [site.frame for site in stack.sites]
    variables = [names for frame in frames for names in (frame.f_globals, frame.f_locals)]
    named = [file for file, _ in re.findall(r"(?<=[ \"])([^\s\"]+)(\", line |:)\d", message) if policy.is_user(file)]
    return living(cells, policy, variables, {*named, *(site.file for site in stack.sites)})


def _capped(message: str) -> str:
    message = "\n".join(_without_tracebacks(message))
    if len(message) <= MOST_CHARACTERS:
        return message
    return f"{message[:MOST_CHARACTERS]}… ({len(message) - MOST_CHARACTERS:,} characters more)"


def _without_tracebacks(message: str) -> Iterator[str]:
    """The lines of a message but for the frames of tracebacks in it, as XLA writes them when a callback fails."""
    inside = False
    for text in message.split("\n"):
        before, begins, _ = text.partition(_TRACEBACK)
        inside = bool(begins) or (inside and text.startswith(" "))
        if begins:
            yield f"{before}{_TRACEBACK} …"
        elif not inside:
            yield text


def _operands(failing: Failing, provenance: Provenance) -> tuple[Operand, ...]:
    """The parts of the failing expression that hold arrays, and plain numbers that were compared with them."""
    found = []
    numbers = not isinstance(failing.node, ast.Call) or isinstance(failing.node.func, ast.Name)
    for node in parts(failing.node):
        aval = aval_of(failing.value(node))
        if aval is not None or (numbers and isinstance(node, ast.Constant) and type(node.value) in (int, float)):
            found.append(Operand(failing.text(node), failing.site.span_of(node), aval, provenance.of(node)))
    return tuple(found)


def _frames(stack: Stack) -> tuple[Frame, ...]:
    return _linked([Frame(site.span, site.function) for site in stack.sites])


def _frames_from(place: Frame, stack: Stack) -> tuple[Frame, ...]:
    """The frames below a line that the error is about, which may have gone on to its next line when that was seen."""
    frames = _frames(stack)
    around = (place.function, place.span.file)
    return _linked([place, *(frames[1:] if (frames[0].function, frames[0].span.file) == around else frames)])


def _linked(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    last = len(frames) - 1
    return tuple(
        Frame(frame.span, frame.function, index + 1 if index < last else -1) for index, frame in enumerate(frames)
    )


def _phase(error: BaseException, stack: Stack) -> Literal["tracing", "compiling", "running", "python"]:
    if isinstance(error, FloatingPointError):  # of `jax_debug_nans`, which looks at values that were computed
        return "running"
    if stack.transforms:
        return "tracing"
    if _any(stack.machinery, _COMPILING):
        return "compiling"
    if _any(stack.machinery, _RUNNING) or type(error).__name__ in ("JaxRuntimeError", "XlaRuntimeError"):
        return "running"
    if _any(stack.machinery, _TRACING):
        return "tracing"
    return "running" if any(is_jax(frame, (frame.f_code.co_name,)) for frame in stack.machinery) else "python"


def _any(frames: tuple[FrameType, ...], names: tuple[str, ...]) -> bool:
    return any(is_jax(frame, names) for frame in frames)
