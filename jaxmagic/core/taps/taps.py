"""`%%jaxtap` without a notebook: taps named values of the user's functions while they run, compiled or not."""

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal

import jax
import numpy as np
from jax import Array

from jaxmagic.core import jax_internals
from jaxmagic.core.aside import aside
from jaxmagic.core.capture.ownership import subject_of
from jaxmagic.core.identity import fresh
from jaxmagic.core.limits import Limits
from jaxmagic.core.lines import frames
from jaxmagic.core.lines.listeners import Listeners, Patient
from jaxmagic.core.nonfinite.origins import Causes, causes_of
from jaxmagic.core.nonfinite.watch import Watch
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.taps.batches import Batch, Name
from jaxmagic.core.taps.conditions import Condition, condition
from jaxmagic.core.taps.delivery import Site, TapStopped
from jaxmagic.core.taps.descent import has_tap, without_taps
from jaxmagic.core.taps.edits import Edits
from jaxmagic.core.taps.intake import Intake, receive
from jaxmagic.core.taps.lanes import marked_branches
from jaxmagic.core.taps.loops import number_loops
from jaxmagic.core.taps.masked import watch_choices
from jaxmagic.core.taps.remarks import Remarks, unknown_names
from jaxmagic.core.taps.ring import Rings, RingTrack
from jaxmagic.core.taps.series import Series
from jaxmagic.core.taps.staging import Staging
from jaxmagic.core.taps.tracks import About, Keep
from jaxmagic.core.taps.wanted import Wanted
from jaxmagic.core.wrapping import wrapped
from jaxmagic.records import Finding

jax_internals.exclude_from_tracebacks(__file__)

LARGE = 4096
"""Elements above which `keep="auto"` reduces a value on the device."""

_CHEAP = 64
"""Elements that travel as fast as their statistics would, and are sent whole even with `keep="stats"`."""

_MOST_TWINS = 1000
_NONFINITE = frozenset(("nan", "inf"))


@dataclass(frozen=True, kw_only=True)
class TapOptions:
    """How to tap. The flags of `%%jaxtap` and the keywords of `jaxmagic.tap` both end here."""

    grad: bool = False
    """Also the cotangents of the names."""
    keep: Literal["auto", "stats", "values"] = "auto"
    """Reduce large values on the device; reduce all but the smallest; reduce none that fits the budget."""
    large: int = LARGE
    """Elements of a large value."""
    when: str | Condition | None = None
    """Only values for which it holds come ashore: `nan`, `inf`, or an expression in jnp over `x`."""
    stop_when: str | Condition | None = None
    """The program is stopped at the first value for which it holds."""
    alert: str | Condition | None = None
    """Values for which it holds are marked."""
    every: int = 1
    first: int | None = None
    last: int | None = None
    replace: Mapping[str, Callable[[Array], Any]] = field(default_factory=dict)
    """Names → function of the value, in jnp, whose result flows on from the next line; it is differentiated like the
    user's own code."""
    call: Callable[[np.ndarray], Any] | None = None
    """Host function that sees each value; what it returns flows on, with a gradient of zero."""
    budget: int = 64 * 2**20
    """Bytes of values kept."""
    ring: bool = False
    """Keep the last values on the device and read them in the end: for loops of more than a million steps."""

    @property
    def asked(self) -> frozenset[str]:
        """The conditions, as text."""
        conditions = (self.when, self.stop_when, self.alert)
        return frozenset(each.text if isinstance(each, Condition) else each for each in conditions if each is not None)

    def __post_init__(self) -> None:
        for name, least in {"every": 1, "first": 0, "last": 0}.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}, and must be at least {least}")
        if self.ring and (self.grad or self.when or self.stop_when or self.alert):
            raise ValueError(
                "a ring is read after the program has ended: it can't be combined with when, stop_when, "
                "alert or grad; leave one of them out"
            )


class Taps:
    """Taps on named values, from `start` to `stop`.

    Args:
        names: Patterns, see `Wanted`; none for everything, within a budget that is stated in `limits`.
        options: How to tap.
        policy: Whose functions.
        limits: Notes what was not observed.
        beside: Further listeners to the frames that are watched, by what they observe.
    """

    def __init__(
        self,
        names: Sequence[str],
        options: TapOptions,
        policy: Policy,
        limits: Limits,
        beside: Mapping[str, frames.Listener] | None = None,
    ) -> None:
        self._options = options
        self._limits = limits
        self._policy = policy
        self._wanted = Wanted(names)
        self._marks = _marks(options)
        self._gate = condition(options.when)
        self._intake = Intake(_keep(options), self._wants, limits)
        gradient = self._site if options.grad else None
        self._remarks = Remarks()
        self._edits = Edits(
            options.replace, options.call, gradient, self._wanted, policy.owns, self._remarks, self._intake.is_current
        )
        self._rings = Rings(options.budget) if options.ring else None
        self._staging = Staging(
            self._wanted, self._site, self._edits, self._rings, self._intake.is_current, policy, limits
        )
        self._beside = {what: Patient(listener) for what, listener in (beside or {}).items()}
        listeners = Listeners({"tapped values": self._staging, **self._beside}, limits)
        self._watcher = frames.watch(listeners, policy.is_user, limits, adaptive=False, what="tapped values")
        self._ring_tracks: list[RingTrack] = []
        self._twins: OrderedDict[tuple[int, bool], tuple[Any, Any]] = OrderedDict()
        self._watch = Watch(self._alarms, policy.is_user, limits) if _NONFINITE & options.asked else None
        self._undo = ExitStack()

    # ------------------------------------------------------------------------------------------ lifetime

    def start(self, frame: FrameType | None = None) -> None:
        """Begins; `frame` is user code that already runs."""
        hooks: dict[str, Callable[..., Any]] = {
            "infer_params": self._call,
            "trace_to_jaxpr": self._body,
            "checkpoint_trace": self._body,
            "resolve_and_lower": self._lower,
            "call_impl": self._run,
        }
        for key, hook in hooks.items():
            if key in jax_internals.PIECES:
                self._undo.enter_context(wrapped(key, hook))
        if self._watch is not None:
            self._watch.start()
            self._undo.callback(self._watch.stop)
        self._undo.enter_context(marked_branches())
        self._intake.start()
        self._undo.callback(self._intake.stop)
        jax_internals.forget_dispatch()
        self._watcher.start(frame)

    def stop(self) -> None:
        """Waits for what is still on its way, then takes everything off: functions run as they did before."""
        self._watcher.stop()
        with self._limits.guard("what was set inside of objects"):
            self._edits.restore()
        self._note_unanswered()
        with self._limits.guard("values still on their way"):
            self._drain()
        self._undo.close()
        if self._rings is not None:
            self._ring_tracks, self._rings = self._rings.read(self._limits), None
        jax_internals.forget_dispatch()
        self._twins.clear()

    def _drain(self) -> None:
        try:
            jax.effects_barrier()
        except jax.errors.JaxRuntimeError:
            if not self._intake.stopped and not self._intake.interrupted:
                raise
            # JAX would raise the same again at every later barrier, and at exit.
            jax_internals.forget_effects()

    @property
    def stopped(self) -> TapStopped | None:
        """The circuit breaker's message, once the condition to stop on has held."""
        return self._intake.stopped

    def causes(self) -> Causes:
        """Where NaN and infinities came from, where the options ask for them; call once, after `stop`."""
        if self._watch is None:
            return Causes()
        with aside():
            return causes_of(self._watch, self._policy.is_user, self._limits)

    def unknown(self) -> dict[str, tuple[str, ...]]:
        """Names that were not found in any user function that ran, each with those like it."""
        return self._wanted.unknown() | self._edits.unknown()

    def findings(self) -> tuple[Finding, ...]:
        """What is to be known of the names that were asked for, and of what was done to their values."""
        return (*unknown_names(self.unknown()), *self._remarks.findings())

    def on_events(self, sink: Callable[[Batch], None]) -> None:
        """Has `sink` called with all that comes, from any thread, while the program waits: be quick, don't use JAX."""
        self._intake.on_events(sink)

    def flush(self) -> None:
        """Passes on what has come but waits to be sorted in; live views call it a few times a second."""
        self._intake.flush()

    def series(self) -> tuple[Series, ...]:
        """What came ashore so far, by name."""
        return self._intake.series(self._ring_tracks)

    # --------------------------------------------------------------------------------------------- hooks

    def _call(self, inner: Any, fun: Any, info: Any, args: tuple, kwargs: dict) -> Any:
        """Around JAX's handling of a call of a jitted function: traces a twin of it instead, with taps inside."""
        __tracebackhide__ = True
        statics = tuple(args[i] for i in info.static_argnums if -len(args) <= i < len(args))
        mark = self._staging.mark()
        try:
            with self._calling() as transformed:
                answer = inner(self._twin(fun, statics, transformed), info, args, kwargs)
        except BaseException:
            self._staging.forget_since(mark)
            raise
        self._raise_if_failed()
        return answer

    def _body(self, inner: Any, fun: Any, *args: Any, **kwargs: Any) -> Any:
        """Around JAX's tracing of the bodies of loops, branches and the like, which it caches by function."""
        __tracebackhide__ = True
        with self._calling() as transformed:
            return inner(self._twin(fun, (), transformed), *args, **kwargs)

    @contextmanager
    def _calling(self) -> Iterator[bool]:
        """Whether what is traced now can't have a ring, as it may be transformed afterwards."""
        if self._rings is None:
            yield False
            return
        transformed = self._rings.refusal() is not None
        with self._rings.calling(transformed):
            yield transformed

    def _lower(self, inner: Any, *args: Any, jaxpr: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        numbered = jaxpr
        with self._limits.guard("loop iterations of tapped values"):
            if jax_internals.is_for_export(kwargs) and has_tap(jaxpr):
                self._limits.add("exported functions: not tapped (a stored program can't hold a callback)")
                numbered = without_taps(jaxpr)
            else:
                numbered = number_loops(jaxpr)
                if self._watch is not None and self._gate is not None and self._gate.text == "nan":
                    numbered = watch_choices(numbered, self._policy.is_user)
        return inner(*args, jaxpr=numbered, **kwargs)

    def _run(self, inner: Any, *args: Any, **kwargs: Any) -> Any:
        """Around running a program: XLA knows no cause of a failed callback, so the one that we kept is raised."""
        __tracebackhide__ = True
        tracer = sys.gettrace()
        sys.settrace(None)  # on Python 3.11 it would be told of every call inside of JAX and of every callback
        try:
            return inner(*args, **kwargs)
        except jax.errors.JaxRuntimeError as error:
            self._raise_if_failed()
            if self._intake.interrupted or _ended_by_interrupt(error):
                raise KeyboardInterrupt from None
            if self._intake.stopped is not None:
                raise self._intake.stopped from None
            raise
        finally:
            sys.settrace(tracer)

    def _note_unanswered(self) -> None:
        for each in (*self._marks, *([self._gate] if self._gate else [])):
            for kind, why in each.unanswered.items():
                self._limits.add(f"{each.text!r} has no answer for {kind}, so it never holds for it ({why})")

    def _alarms(self) -> int:
        """How many values came ashore because they were not finite."""
        gate = self._gate
        gated = gate is not None and gate.text in _NONFINITE
        return (self._intake.held if gated else 0) + (self._intake.stopped is not None)

    def _raise_if_failed(self) -> None:
        error = self._edits.take_error()
        if error is not None:
            raise error from None

    def _twin(self, fun: Any, statics: tuple, transformed: bool) -> Any:
        """The function under a new identity if it is the user's; the same one each time."""
        known = self._twins.get((id(fun), transformed))
        if known is not None and known[0] is fun:
            return known[1]
        twin = fun
        with self._limits.guard("a call of a jitted function"):
            if subject_of(fun, statics, self._policy.is_user).owner == "user":
                for listener in self._beside.values():
                    listener.rearm()
                twin = fresh(fun)
                self._remember(twin, twin, transformed)
        if twin is not fun or not statics:
            self._remember(fun, twin, transformed)
        return twin

    def _remember(self, fun: Any, twin: Any, transformed: bool) -> None:
        self._twins[id(fun), transformed] = (fun, twin)
        if len(self._twins) > _MOST_TWINS:
            self._twins.popitem(last=False)

    # --------------------------------------------------------------------------------------------- parts

    def _wants(self, name: Name) -> bool:
        return self._wanted.matches(name.function, name.name) and (self._options.grad or not name.gradient)

    def _site(self, names: tuple[Name, ...]) -> Site:
        options = self._options
        alert = 0 if options.alert else None
        stop = len(self._marks) - 1 if options.stop_when else None
        return Site(
            label=", ".join(f"{name.function}.{name.name}" for name in names),
            receive=receive,
            reduce_above={"auto": options.large, "stats": _CHEAP, "values": options.budget // 16}[options.keep],
            gate=self._gate,
            marks=self._marks,
            about=About(names, alert, stop),
        )


def _ended_by_interrupt(error: Exception) -> bool:
    """Where a callback runs on the main thread, Python raises the interrupt inside of it, in whatever line."""
    return str(error).rstrip().rpartition("\n")[2].startswith("KeyboardInterrupt")


def _marks(options: TapOptions) -> tuple[Condition, ...]:
    return tuple(found for each in (options.alert, options.stop_when) if (found := condition(each)) is not None)


def _keep(options: TapOptions) -> Keep:
    if options.first is None and options.last is None:
        return Keep(every=options.every, bytes=options.budget)
    return Keep(options.first or 0, options.last or 0, 0, options.every, options.budget)
