"""Watches JAX trace: which functions, why, for how long; and looks again at those it had traced before."""

import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from jaxmagic.core import identity, jax_internals
from jaxmagic.core.capture import second_look
from jaxmagic.core.capture.entries import Entries, Entry, Stale
from jaxmagic.core.capture.ownership import IsUser, Subject, inside_jax, subject_of
from jaxmagic.core.capture.registrar import Registrar
from jaxmagic.core.limits import Limits

Announce = Callable[[str], AbstractContextManager[Any]]
"""Called with a function's name when JAX begins to trace it; left when the trace is done."""

jax_internals.exclude_from_tracebacks(__file__)
_PLAIN = (int, float, bool, str, bytes, type(None))
_REPEATED = (
    "functions compiled before this cell were traced once more, to be looked at: what they printed was dropped and the "
    "random states were restored, but other side effects of their Python code happened again"
)


class Visit:
    """One passage of a call through JAX's argument handling, where it is traced if JAX has not done so before."""

    def __init__(self, subject: Subject, outer: "Visit | None", traces: int) -> None:
        self.outer = outer
        self.traces = traces
        """Traces begun on this thread before it."""
        self.entry = Entry(subject, "jit")
        self.trace: weakref.ref | None = None
        self.announced = ExitStack()
        self.began = time.perf_counter()
        self.tool_s = 0.0
        """Spent inside of it on things that only jaxmagic does."""


class Progress(threading.local):
    """Where one thread is."""

    def __init__(self) -> None:
        self.visit: Visit | None = None
        self.traces = 0
        self.pending: Entry | None = None
        """The call whose program is about to run."""
        self.info: Any = None
        """Options of the jit that is about to run, JAX's own included."""


class Tracing:
    """The hooks on JAX's tracing, for one recording; called as `hook(inner, ...)`."""

    def __init__(
        self, entries: Entries, progress: Progress, is_user: IsUser, limits: Limits, announce: Announce, retrace: bool
    ) -> None:
        self._entries = entries
        self._progress = progress
        self._is_user = is_user
        self._limits = limits
        self._announce = announce
        self._retrace = retrace
        self._registrar = Registrar(entries, is_user, limits)
        self._subjects: weakref.WeakKeyDictionary[Any, Subject] = weakref.WeakKeyDictionary()
        self._met: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        """Jaxprs that were traced or looked at in this recording."""
        self._said = False

    def call(self, inner: Any, fun: Any, info: Any, args: tuple, kwargs: dict) -> Any:
        """Around `_infer_params`: a jitted function is called, lowered, or evaluated abstractly."""
        __tracebackhide__ = True
        visit = None
        if not self._another_looks():
            with self._limits.guard("a call of a jitted function"):
                visit = self._enter(fun, info, args)
        if visit is None:
            return inner(fun, info, args, kwargs)
        try:
            answer = inner(fun, info, args, kwargs)
        except BaseException:
            with self._limits.guard("a trace that failed"):
                self._failed(visit, fun, info, args, kwargs)
            raise
        else:
            with self._limits.guard("a trace"):
                self._answered(visit, answer, fun, info, args, kwargs)
                again = lambda: inner(identity.fresh(fun), info, args, kwargs)[0]  # noqa: E731
                self._look(visit, answer[0], again, (fun, *_statics(info, args)))
            return answer
        finally:
            self._progress.visit = visit.outer
            with self._limits.guard("the end of a trace"):
                visit.announced.close()

    def begin(self, inner: Any, trace: Any, *args: Any, **kwargs: Any) -> None:
        """Around the constructor of JAX's traces to jaxprs."""
        inner(trace, *args, **kwargs)
        if not self._another_looks():
            with self._limits.guard("the beginning of a trace"):
                self._begun(trace)

    def body(self, inner: Any, fun: Any, *args: Any, **kwargs: Any) -> Any:
        """Around `trace_to_jaxpr`, which has its own cache: the body of a loop traced before is looked at again."""
        __tracebackhide__ = True
        traces = self._progress.traces
        answer = inner(fun, *args, **kwargs)
        if not self._another_looks() and not self._is_called(traces):
            with self._limits.guard("the body of a loop"):
                fresh = self._progress.traces != traces or self._has_met(answer[0])
                if not fresh and self._retrace and subject_of(fun, (), self._is_user).owner == "user":
                    self._again(lambda: inner(identity.fresh(fun), *args, **kwargs))
                self._met[id(answer[0])] = answer[0]
        return answer

    def _is_called(self, traces: int) -> bool:
        """Whether it is no body but what is called, found again by another jit of it: `call` looks at that itself."""
        visit = self._progress.visit
        return visit is not None and visit.traces == traces == self._progress.traces

    def _another_looks(self) -> bool:
        return second_look.looker() not in (None, self)

    def _enter(self, fun: Any, info: Any, args: tuple) -> Visit | None:
        self._progress.pending, self._progress.info = None, info
        statics = _statics(info, args)
        subject = self._subject(fun, tuple(each for each in statics if not isinstance(each, _PLAIN)))
        if subject.owner == "jax":
            return None
        if subject.owner == "library" and self._called_by_user():
            subject = subject._replace(owner="user")
        self._registrar.look_back()
        visit = Visit(subject, self._progress.visit, self._progress.traces)
        self._progress.visit = visit
        return visit

    def _subject(self, fun: Any, statics: tuple) -> Subject:
        if statics:
            return subject_of(fun, statics, self._is_user)
        try:
            known = self._subjects.get(fun)
            if known is None:
                known = self._subjects[fun] = subject_of(fun, (), self._is_user)
        except TypeError:  # neither hashable nor weakly referable
            known = subject_of(fun, (), self._is_user)
        return known

    def _called_by_user(self) -> bool:
        frame = sys._getframe(1)
        while frame is not None and inside_jax(frame.f_code.co_filename):
            frame = frame.f_back
        return frame is not None and self._is_user(frame.f_code.co_filename)

    def _begun(self, trace: Any) -> None:
        self._progress.traces += 1
        visit = self._progress.visit
        if visit is not None and visit.trace is None:
            visit.trace = weakref.ref(trace)
            visit.announced.enter_context(self._announce(visit.entry.subject.name))

    def _answered(self, visit: Visit, answer: tuple, fun: Any, info: Any, args: tuple, kwargs: dict) -> None:
        """Finds or makes the entry of the program that the call will run."""
        spent = time.perf_counter() - visit.began
        traced = self._progress.traces != visit.traces
        jaxpr = answer[0].params["jaxpr"]
        known = self._entries.traced(jaxpr, info)
        if known is None:
            visit.entry.cached = not traced and not self._has_met(jaxpr)
            visit.entry.trace_s = spent - visit.tool_s if traced else 0.0
            if visit.entry.subject.owner == "user" or not self._entries.is_full(visit.entry):
                self._registrar.traced(visit.entry, answer, fun, info, args, kwargs)
        else:
            visit.entry = known
        self._place(visit)
        self._progress.pending = visit.entry
        if visit.outer is not None:
            visit.outer.tool_s += time.perf_counter() - visit.began - spent

    def _place(self, visit: Visit) -> None:
        """Whether this call is a part of another program."""
        entry, outer = visit.entry, visit.outer
        staged = any(level.purpose not in _TRANSFORMING for level in jax_internals.trace_levels())
        if outer is None and not staged:
            entry.at_top = True
        else:
            entry.calls += 1
        if outer is not None and entry.parent is None and outer.entry is not entry:
            entry.parent = outer.entry
        entry.nested = not entry.at_top

    def _failed(self, visit: Visit, fun: Any, info: Any, args: tuple, kwargs: dict) -> None:
        trace = visit.trace() if visit.trace is not None else None
        if trace is not None:
            visit.entry.trace_s = time.perf_counter() - visit.began - visit.tool_s
            self._registrar.failed(visit.entry, trace, fun, info, args, kwargs)
            self._place(visit)

    def _look(self, visit: Visit, params: Any, trace: Callable[[], Any], roots: tuple) -> None:
        """Traces the function of a cached program once more, for its lines and to see whether it is still the same."""
        entry, jaxpr, began = visit.entry, params.params["jaxpr"], time.perf_counter()
        wanted = entry.cached and self._retrace and entry.subject.owner == "user" and not self._has_met(jaxpr)
        self._met[id(jaxpr)] = jaxpr
        if not wanted:
            return
        try:
            now = self._again(trace).params["jaxpr"]
        except Exception as error:  # noqa: BLE001 - the user's code, run for our sake only
            text = f"tracing it again fails now: {type(error).__name__}: {str(error)[:200]}"
            entry.stale = Stale(entry.subject.name, entry.span, entry.call, text)
        else:
            self._compare(entry, now, roots)
        entry.trace_s = time.perf_counter() - began
        self._say_once()
        if visit.outer is not None:
            visit.outer.tool_s += entry.trace_s

    def _say_once(self) -> None:
        if not self._said:
            self._said = True
            self._limits.add(_REPEATED)

    def _compare(self, entry: Entry, now: Any, roots: tuple) -> None:
        drifts = second_look.drifts(entry.jaxpr, now, self._is_user, roots)
        if drifts:
            entry.drifted(drifts)
        else:
            entry.shown = now

    def _again(self, trace: Callable[[], Any]) -> Any:
        traces, pending = self._progress.traces, self._progress.pending
        try:
            with second_look.unseen(self):
                return trace()
        finally:
            self._progress.traces, self._progress.pending = traces, pending

    def _has_met(self, jaxpr: Any) -> bool:
        return self._met.get(id(jaxpr)) is jaxpr


def _statics(info: Any, args: tuple) -> tuple:
    return tuple(args[i] for i in info.static_argnums if -len(args) <= i < len(args))


_TRANSFORMING = ("vmap", "grad", "jvp")
"""Under these alone a jitted function still runs as a program, a derived one."""
