"""Watches programs being lowered, compiled and run: executables, seconds, calls. Compiles nothing itself."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from jaxmagic.core import jax_internals
from jaxmagic.core.capture import second_look
from jaxmagic.core.capture.arguments import devices_of, placed
from jaxmagic.core.capture.derived import Derived
from jaxmagic.core.capture.entries import Entries, Entry
from jaxmagic.core.capture.ownership import IsUser
from jaxmagic.core.capture.seconds import Seconds, Stopwatch
from jaxmagic.core.capture.tracing import Progress
from jaxmagic.core.limits import Limits
from jaxmagic.records import Change, Reason

jax_internals.exclude_from_tracebacks(__file__)
_MOST_LOOKUPS = 2_000
"""Calls of one function with several programs for which it is looked up which of them ran."""


class Execution:
    """The hooks on JAX's lowering and dispatch, for one recording; called as `hook(inner, ...)`."""

    def __init__(
        self,
        entries: Entries,
        progress: Progress,
        stopwatch: Stopwatch,
        is_user: IsUser,
        limits: Limits,
        lowering: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._entries = entries
        self._progress = progress
        self._stopwatch = stopwatch
        self._limits = limits
        self._lowering = lowering
        self._is_user = is_user
        self._derived = Derived(entries, is_user)
        self._running = threading.local()
        self._lock = threading.Lock()
        self._only: dict[Any, Entry] = {}
        """The program of a jitted function, as long as only one has run."""
        self._foreign: set[Any] = set()
        """Jitted functions that are not recorded."""
        self._lookups: dict[int, int] = {}
        self.sees_calls = True
        """Whether `run` is in place; without it nothing tells a call from lowering ahead of time."""

    def run(self, inner: Any, *args: Any, **params: Any) -> Any:
        """Around `_pjit_call_impl_python`: a program runs, and is lowered and compiled first if it is new."""
        __tracebackhide__ = True
        entry = None
        with self._limits.guard("a program that runs"):
            entry = self._entry_of(params)
        seconds = Seconds() if entry is not None else None
        before, self._running.entry = getattr(self._running, "entry", None), entry
        began = time.perf_counter()
        try:
            with self._stopwatch.attributed(seconds):
                answer = inner(*args, **params)
        except BaseException:
            if entry is not None and seconds is not None:
                entry.seconds.add(seconds)
                entry.failed = True
            raise
        finally:
            self._running.entry = before
        if entry is not None and seconds is not None:
            with self._limits.guard("a program that ran"):
                self._ran(entry, answer, args, seconds, time.perf_counter() - began)
        return answer

    def lower(self, inner: Any, *args: Any, **params: Any) -> Any:
        """Around `_resolve_and_lower`: within a call, or because the user lowers ahead of time."""
        __tracebackhide__ = True
        entry, ahead = getattr(self._running, "entry", None), False
        with self._limits.guard("a program that is lowered"):
            if entry is None and self.sees_calls and second_look.looker() is None:
                entry = next(iter(self._entries.of_jaxpr(params.get("jaxpr"))), None)
                ahead = entry is not None
        if entry is None or not ahead:
            with self._lowering():
                computation = inner(*args, **params)
        else:
            with self._lowering(), self._stopwatch.attributed(entry.seconds):
                computation = inner(*args, **params)
            self._stopwatch.await_compile(entry.seconds)
            entry.ahead = entry.executable is None
        if entry is not None:
            entry.lowered = computation
            with self._limits.guard("NumPy arrays in programs compiled before"):
                self._compare_arrays(entry, computation)
        return computation

    def _compare_arrays(self, entry: Entry, computation: Any) -> None:
        if entry.cached and entry.stale is None and entry.subject.owner == "user":
            drifts = second_look.drifts_since(entry.jaxpr, computation, self._is_user)
            if drifts:
                entry.drifted(drifts)

    def call_compiled(self, inner: Any, compiled: Any, *args: Any, **kwargs: Any) -> Any:
        """Around `jax.stages.Compiled.__call__`: a program that was compiled ahead of time, perhaps long ago."""
        __tracebackhide__ = True
        began = time.perf_counter()
        answer = inner(compiled, *args, **kwargs)
        with self._limits.guard("a call of a function compiled ahead of time"):
            entry = self._derived.ahead_of_time(compiled)
            with self._lock:
                entry.calls += 1
                entry.run_s += time.perf_counter() - began
        return answer

    def called(self, function: Any, args: tuple, kwargs: dict, _: Any) -> None:
        """After each call that JAX dispatched in C++."""
        program = self._only.get(function)
        if program is not None:
            next(program.ticks)
        elif function not in self._foreign:
            with self._limits.guard("which program a call ran"):
                self._called_one_of(function, args, kwargs)

    def _entry_of(self, params: dict[str, Any]) -> Entry | None:
        jaxpr, pending = params["jaxpr"], self._progress.pending
        self._progress.pending = None
        if pending is not None and (pending.jaxpr is jaxpr or self._lowered_from(pending, jaxpr)):
            return pending
        known = self._entries.of_jaxpr(jaxpr)
        return known[0] if known else self._derived.entry(params, self._progress.info)

    def _lowered_from(self, pending: Entry, jaxpr: Any) -> bool:
        """JAX 0.12 replaces types of its own making in a program before it runs it."""
        return getattr(pending.jaxpr, "is_high", False) and not jax_internals.trace_levels()

    def _ran(self, entry: Entry, answer: Any, args: tuple, seconds: Seconds, elapsed: float) -> None:
        outs, executable = answer[0], answer[1]
        entry.ahead = False
        if entry.executable is None:
            entry.executable, entry.devices = executable, devices_of(args)
            entry.inputs, entry.outputs = placed(entry.inputs, args), placed(entry.outputs, outs)
        elif entry.executable is not executable:
            entry = self._sibling(entry, executable, args, outs)
        entry.seconds.add(seconds)
        with self._lock:
            entry.calls += 1
            entry.run_s += max(0.0, elapsed - seconds.lower - seconds.compile)
        if self._entries.ran(entry):
            self._only.clear()

    def _sibling(self, entry: Entry, executable: Any, args: tuple, outs: Any) -> Entry:
        """The entry for another executable of the same trace: JAX compiles again for other shardings and devices."""
        for known in self._entries.of_jaxpr(entry.jaxpr):
            if known.executable is executable:
                return known
        other = entry.compiled_again(executable)
        other.devices = devices_of(args)
        other.inputs, other.outputs = placed(other.inputs, args), placed(other.outputs, outs)
        other.reason = _why_compiled_again(entry, other)
        return self._entries.add(other)

    def _called_one_of(self, function: Any, args: tuple, kwargs: dict) -> None:
        """A call of a function not met before, or one of which several programs have run."""
        info = jax_internals.options_of_jit(function)
        if info is None:  # made for this call alone, so nothing is kept of it
            self._called_derived(self._entries.of_jaxpr(jax_internals.jaxpr_behind(function)))
            return
        # A function that is jitted again finds the program of the first jit, and never comes through Python.
        programs = self._entries.that_ran(info) or self._entries.of_function(getattr(function, "__wrapped__", None))
        if len(programs) == 1:
            self._only[function] = programs[0]
            next(programs[0].ticks)
        elif programs:
            next(self._program_of(programs, function, args, kwargs).ticks)
        else:
            self._foreign.add(function)

    def _called_derived(self, programs: list[Entry]) -> None:
        if len(programs) > 1:  # for several shardings
            _unsure(programs)
        if programs:
            next(programs[-1].ticks)

    def _program_of(self, programs: list[Entry], function: Any, args: tuple, kwargs: dict) -> Entry:
        info = id(jax_internals.options_of_jit(function))
        self._lookups[info] = self._lookups.get(info, 0) + 1
        if self._lookups[info] <= _MOST_LOOKUPS:
            jaxpr = jax_internals.traced_jaxpr(function, args, kwargs)
            found = [each for each in programs if each.jaxpr is jaxpr]
            if len(found) == 1:
                return found[0]
        _unsure(programs)
        return programs[-1]


def _unsure(programs: list[Entry]) -> None:
    for each in programs:
        each.calls_exact = False


def _why_compiled_again(entry: Entry, other: Entry) -> Reason:
    pairs = [
        (new.name, old.aval.sharding or "one device", new.aval.sharding or "one device")
        for old, new in zip(entry.inputs, other.inputs, strict=True)
        if old.aval is not None and new.aval is not None
    ]
    changes = tuple(Change("sharding", *pair) for pair in pairs if pair[1] != pair[2])
    if not changes and entry.devices != other.devices:
        changes = (Change("sharding", "devices", entry.devices, other.devices),)
    if not changes:
        return Reason("unknown", text="compiled again without being traced again, for reasons that JAX does not tell")
    text = "; ".join(map(str, changes[:4]))
    return Reason("changed", changes, f"compiled again, without being traced again: {text}")
