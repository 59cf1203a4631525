"""Turns jit off: calls of jitted functions that a scope covers run in Python, on all threads."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import CodeType, FrameType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from jaxmagic.core import jax_internals
from jaxmagic.core.capture.ownership import IsUser, Subject, code_of, inside_jax, namesake, subject_of
from jaxmagic.core.limits import Limits
from jaxmagic.core.nojit.counted import operations_counted
from jaxmagic.core.nojit.ledger import Ledger
from jaxmagic.core.nojit.loops import PythonLoops
from jaxmagic.core.nojit.matching import NOT_KNOWN, Within
from jaxmagic.core.nojit.scope import Scope
from jaxmagic.core.nojit.steps import Steps
from jaxmagic.core.wrapping import wrapped

jax_internals.exclude_from_tracebacks(__file__)


class Switch:
    """Jit is off between `start` and `stop`, where the scope says so.

    A jitted function that calls one of the scope's must run in Python as well: what is inside a compiled program
    can't be stepped through. It is recognised by its code, or by the source of the operations in its program.

    Args:
        scope: Where jit is off.
        ledger: Told of what runs in Python.
        steps: Told of loops.
        is_user: Whose file it is.
        limits: Notes what could not be switched off.
    """

    def __init__(self, scope: Scope, ledger: Ledger, steps: Steps, is_user: IsUser, limits: Limits) -> None:
        self._scope = scope
        self._ledger = ledger
        self._steps = steps
        self._is_user = is_user
        self._limits = limits
        self._local = threading.local()
        self._subjects: WeakKeyDictionary[Any, Subject] = WeakKeyDictionary()
        self._carries: dict[int, tuple[Any, Within]] = {}
        """By the id of a program, which is kept: where in it operations of the scope's functions are."""
        self._loops = PythonLoops(self._loop_in_python, steps, limits)
        self._undo = ExitStack()

    def start(self) -> None:
        hooks: dict[str, Callable[..., Any]] = {
            "infer_params": self._infer,
            "run_python_pjit": self._run,
            "python_pjit_helper": self._help,
            "compiled_call": self._call_compiled,
        }
        self._undo.callback(jax_internals.forget_dispatch)
        for key, hook in hooks.items():
            if key in jax_internals.PIECES:
                self._undo.enter_context(wrapped(key, hook))
        self._undo.enter_context(operations_counted(self._ledger))
        self._loops.start()
        self._undo.callback(self._loops.stop)
        jax_internals.forget_dispatch()

    def stop(self) -> None:
        """Everything as it was; what was compiled before is found again in JAX's caches."""
        self._undo.close()
        self._carries.clear()
        self._subjects.clear()

    def is_off_here(self) -> bool:
        """Whether the code that runs now, in this thread, runs operation by operation because of this switch."""
        return not jax_internals.is_staging() and (self._scope.kind != "only" or bool(self._around))

    # --------------------------------------------------------------------------------------------- hooks

    def _infer(self, inner: Any, fun: Any, info: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Around JAX's look at a call before it runs: there is nothing to trace for one that will run in Python."""
        __tracebackhide__ = True
        if "run_python_pjit" in jax_internals.PIECES and jax_internals.called_by_dispatch(sys._getframe(1)):
            call = self._in_python(fun, info, args)
            if call is not None:
                return call, None
        found = inner(fun, info, args, kwargs)
        self._local.info = info  # the run of this call, which is next in this thread, is not told of it
        return found

    def _run(self, inner: Any, p: Any, flat: Any, fun: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Around the run of a call (JAX 0.10 and later); `p` is what the look at it gave."""
        __tracebackhide__ = True
        call = p if isinstance(p, _InPython) else self._carrier(fun, self._local.info, args, p)
        return inner(p, flat, fun, args, kwargs) if call is None else self._eager(call, fun, args, kwargs)

    def _help(self, inner: Any, fun: Any, info: Any, *args: Any, **kwargs: Any) -> Any:
        """Around the look at a call and its run, which are one in JAX 0.8."""
        __tracebackhide__ = True
        call = self._in_python(fun, info, args)
        if call is None and self._may_carry(fun):
            call = self._carrier(fun, info, args, jax_internals.parameters_of_call(fun, info, args, kwargs))
        return inner(fun, info, *args, **kwargs) if call is None else self._eager(call, fun, args, kwargs)

    def _call_compiled(self, inner: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        self._limits.add("a function compiled ahead of time ran compiled: only its program is left, not its code")
        return inner(*args, **kwargs)

    # ------------------------------------------------------------------------------------------ decisions

    def _in_python(self, fun: Any, info: Any, args: tuple) -> "_InPython | None":
        with self._limits.guard("whether a function is to run without jit"):
            if jax_internals.is_staging():
                return None
            subject = self._subject(fun, info, args)
            if self._scope.covers(subject):
                return _InPython(subject, carrier=False)
            if subject.owner != "jax" and self._scope.leads_to_target((fun, subject.reference())):
                return _InPython(subject, carrier=True)
        return None

    def _may_carry(self, fun: Any) -> bool:
        return self._scope.kind == "only" and not jax_internals.is_staging() and self._subject(fun).owner != "jax"

    def _carrier(self, fun: Any, info: Any, args: tuple, p: Any) -> "_InPython | None":
        """The same decision once a call's program is known, which shows every function that went into it."""
        with self._limits.guard("whether a function contains one that is to run without jit"):
            if self._may_carry(fun):
                within = self._within(p.params["jaxpr"])
                return _InPython(self._subject(fun, info, args), True, within) if within.found else None
        return None

    def _within(self, jaxpr: Any) -> Within:
        known = self._carries.get(id(jaxpr))
        if known is None:
            known = self._carries[id(jaxpr)] = jaxpr, self._scope.targets.within(jaxpr)
        return known[1]

    def _loop_in_python(self, functions: Sequence[Any]) -> bool:
        """A loop in a function that runs in Python only for what it contains stays compiled if it is not for that."""
        with self._limits.guard("whether a loop is to run in Python"):
            if jax_internals.is_staging() or self._scope.kind != "only":
                return not jax_internals.is_staging()
            subjects = [subject_of(function, (), self._is_user) for function in functions]
            return (
                self._scope.leads_to_target((*functions, *(subject.reference() for subject in subjects)))
                or self._called_for_target(sys._getframe(1))
                or (self._around[-1:] == (NOT_KNOWN,) and any(subject.owner != "user" for subject in subjects))
            )
        return False

    def _called_for_target(self, frame: FrameType | None) -> bool:
        """Whether a loop is called by a target, or where one was staged in a loop when the call was traced."""
        place: tuple[CodeType, int] | None = None
        while frame is not None:
            if place is None and not inside_jax(frame.f_code.co_filename):
                place = frame.f_code, frame.f_lasti
            if self._scope.targets.label_of(frame.f_code):
                return True
            frame = frame.f_back
        return any(place in within.loops for within in self._around)

    # --------------------------------------------------------------------------------------------- parts

    @property
    def _around(self) -> tuple[Within, ...]:
        """What is known of the calls that run in Python and that this thread is inside of."""
        return getattr(self._local, "around", ())

    @contextmanager
    def _inside(self, call: "_InPython") -> Iterator[None]:
        before = self._around
        self._local.around = (*before, call.within)
        try:
            yield
        finally:
            self._local.around = before

    def _eager(self, call: "_InPython", fun: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        __tracebackhide__ = True
        self._ledger.ran(call.subject, call.carrier)
        with self._inside(call):
            results = fun(*args, **kwargs)
        self._steps.tick()
        return jax_internals.without_jaxpr(results)

    def _subject(self, fun: Any, info: Any = None, args: tuple = ()) -> Subject:
        """What a jitted function is about; remembered unless static arguments say it."""
        statics = () if info is None else tuple(args[i] for i in info.static_argnums if -len(args) <= i < len(args))
        if statics:
            found, itself = subject_of(fun, statics, self._is_user), namesake(fun, statics)
            if itself is None or code_of(itself) is found.code:
                return found
            return found._replace(code=code_of(itself), name=itself.__name__)
        known = self._subjects.get(fun)
        if known is None:
            known = self._subjects[fun] = subject_of(fun, (), self._is_user)
        return known


class _InPython(NamedTuple):
    """A call that is to run in Python; stands in for JAX's parameters of the call."""

    subject: Subject
    carrier: bool
    within: Within = NOT_KNOWN
