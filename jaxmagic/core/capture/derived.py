"""Entries for programs that were never traced by a call of their own: derived by vmap and grad, loops run eagerly, …"""

import sys
from types import CodeType, FrameType
from typing import Any

from jaxmagic.core import jax_internals
from jaxmagic.core.capture.arguments import inputs_of_jaxpr, outputs_of
from jaxmagic.core.capture.entries import Entries, Entry
from jaxmagic.core.capture.ownership import IsUser, Subject, nothing
from jaxmagic.core.lines.values import aval_from
from jaxmagic.core.programs.parameters import inner_jaxprs, opened
from jaxmagic.core.source.positions import definition, described, user_frame
from jaxmagic.core.source.spans import position
from jaxmagic.records import Argument, Reason, Span

_PRIMITIVES = {
    "scan": "scan",
    "while": "while_loop",
    "cond": "cond",
    "shard_map": "shard_map",
    "checkpoint": "checkpoint",
    "custom_vjp_call": "custom_vjp",
    "custom_jvp_call": "custom_jvp",
    "custom_linear_solve": "custom_linear_solve",
    "custom_root": "custom_root",
    "xla_pmap": "pmap",
}
"""Primitives that hold the user's functions, and what they are called in `jax` and `jax.lax`."""


class Derived:
    """Makes and finds these entries, for one recording."""

    def __init__(self, entries: Entries, is_user: IsUser) -> None:
        self._entries = entries
        self._is_user = is_user

    def entry(self, params: dict[str, Any], info: Any) -> Entry | None:
        """The entry of a program about to run that no call has traced; None if it is JAX's own business."""
        jaxpr = params["jaxpr"]
        origin = self._entries.origin(jaxpr)
        if origin is not None:
            return self._transformed(origin, params)
        equations = opened(jaxpr).eqns
        if len(equations) == 1 and equations[0].primitive.name in _PRIMITIVES:
            return self._eager(equations[0], params, info)
        return None

    def ahead_of_time(self, compiled: Any) -> Entry:
        """The entry of a `jax.stages.Compiled`, which may have been made before the recording."""
        executable = jax_internals.executable_of(compiled)
        for entry in self._entries:
            if executable in (entry.executable, jax_internals.executable_of(entry.lowered)):
                entry.executable = executable
                return entry
        subject = Subject(nothing, None, _name_of(executable), ("ahead of time", id(executable)), "user")
        entry = self._new(subject, "ahead of time", None)
        entry.executable, entry.cached = executable, True
        entry.reason = Reason("unknown", text="compiled ahead of time, before this recording began")
        arguments = jax_internals.arguments_of_compiled(compiled)
        entry.inputs = tuple(Argument(path, aval_from(aval), donated=donated) for path, aval, donated in arguments)
        return self._entries.add(entry)

    def _transformed(self, origin: Entry, params: dict[str, Any]) -> Entry:
        """`vmap(f)` or `grad(f)` of a jitted `f` runs a program that JAX derived from the trace of `f`."""
        way = jax_internals.derivation(self._running())
        kind = "vmap" if not way else "jvp" if way == "jvp" else "linearize" if way == "linear part" else "grad"
        subject = origin.subject._replace(identity=(kind, *origin.subject.identity))
        entry = self._new(subject, kind, origin.span)
        text = f"derived by JAX from the trace of {subject.name}"
        entry.reason = Reason("first call", text=f"{text}, {way}" if way else text)
        origin.derived = True
        return self._fill(entry, params)

    def _eager(self, equation: Any, params: dict[str, Any], info: Any) -> Entry | None:
        if user_frame(sys._getframe(1), self._is_user) is None:
            return None
        primitive = equation.primitive.name
        of_pmap = primitive == "shard_map" and params["name"] in jax_internals.MAPPED_BY_PMAP
        kind = "pmap" if of_pmap else _PRIMITIVES[primitive]
        running = self._running()
        kind = next((maker for maker in _MAKERS.get(primitive, ()) if maker in running), kind)
        name, span = self._function_in(equation) or (kind, None)
        entry = self._new(Subject(nothing, None, name, (kind, name, span), "user"), kind, span)
        entry.at_top, entry.info = True, info
        piecewise = primitive == "shard_map" and span is None
        entry.reason = Reason("first call", text=_EAGER_SHARD_MAP if piecewise else f"{kind} called outside of jit")
        return self._fill(entry, params)

    def _running(self) -> set[str]:
        """JAX's functions that the innermost user frame waits for."""
        names = set()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not self._is_user(frame.f_code.co_filename):
            names.add(frame.f_code.co_name)
            frame = frame.f_back
        return names

    def _function_in(self, equation: Any) -> tuple[str, Span] | None:
        """The user's function that became a region of the equation."""
        for inner in reversed(inner_jaxprs(equation.primitive.name, equation.params)):
            name, span = described(str(getattr(opened(inner.jaxpr).debug_info, "func_src_info", "")), self._is_user)
            if span is not None and self._is_user(span.file):
                return name, span
            code = self._staged_by(inner.jaxpr) if span is not None else None
            if code is not None:
                return code.co_qualname.rpartition("<locals>.")[2], definition(code, "user")
        return None

    def _staged_by(self, jaxpr: Any) -> CodeType | None:
        """The user's function that staged operations of a jaxpr which JAX traced from a wrapper, as pmap does."""
        for operation in opened(jaxpr).eqns:
            frames = jax_internals.frames_within_trace(operation.source_info.traceback)
            codes = [code for code, _ in frames if self._is_user(code.co_filename)]
            if codes:
                return codes[-1]
        return None

    def _new(self, subject: Subject, kind: str, span: Span | None) -> Entry:
        entry = Entry(subject, kind, span)
        frame = user_frame(sys._getframe(1), self._is_user)
        entry.call = position(frame) if frame is not None else None
        return entry

    def _fill(self, entry: Entry, params: dict[str, Any]) -> Entry:
        entry.jaxpr = params["jaxpr"]
        entry.inputs = inputs_of_jaxpr(entry.jaxpr, tuple(params["donated_invars"]))
        entry.outputs = outputs_of(entry.jaxpr)
        return self._entries.add(entry)


_MAKERS = {
    "scan": ("fori_loop", "map", "scan"),
    "while": ("fori_loop", "while_loop"),
    "cond": ("switch", "cond"),
}
"""Functions of `jax.lax` that make the primitive, those that call others of them first."""


_EAGER_SHARD_MAP = "shard_map called outside of jit: it is compiled and run one operation at a time, in every call"


def _name_of(executable: Any) -> str:
    """The name of the function, which XLA has as `jit_step`."""
    try:
        return executable.runtime_executable().hlo_modules()[0].name.removeprefix("jit_")
    except Exception:  # noqa: BLE001 - a back end need not tell
        return "compiled"
