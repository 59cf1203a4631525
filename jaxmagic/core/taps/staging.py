"""Stages taps while the user's functions run: listens to their frames and taps what was asked for, frame by frame."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

from jax import Array
from jax.core import Tracer

from jaxmagic.core import jax_internals
from jaxmagic.core.limits import Limits
from jaxmagic.core.lines.attributes import MISSING, attribute
from jaxmagic.core.lines.containers import children
from jaxmagic.core.lines.values import aval_of
from jaxmagic.core.lines.ways import Function
from jaxmagic.core.source import syntax
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.source.stores import Store
from jaxmagic.core.taps.batches import Name
from jaxmagic.core.taps.delivery import Site
from jaxmagic.core.taps.edits import Edits, Variable
from jaxmagic.core.taps.ground import belongs_here, ground, is_compiling
from jaxmagic.core.taps.replacing import Steps
from jaxmagic.core.taps.ring import Rings
from jaxmagic.core.taps.transport import tap
from jaxmagic.core.taps.wanted import RETURN, Wanted
from jaxmagic.records import Span

MOST_AT_ONCE = 64
"""Values in one callback; a frame with more sends several."""

MOST_LEAVES = 64
"""Arrays tapped in one variable."""

MOST_NAMES = 1000
"""Series that are begun where no names were given."""

MOST_TURNS = 64
"""Of a Python loop in a compiled function, whose values are tapped where no names were given: XLA takes minutes to
compile some hundred callbacks."""

_DEEPEST = 8
_MOST_PARTS = 1000
"""Of one value that are looked at; a longer list is not walked to its end in a hook."""
_SUSPENDS = 0x20 | 0x80 | 0x200


class Pending(NamedTuple):
    """What one frame has to send when it ends."""

    values: list[tuple[Name, Any]]
    anchors: list[Any]
    times: Counter[Name]
    """How often each name came up in this one run of the frame."""


class Staging:
    """Listens to a watcher of frames."""

    def __init__(
        self,
        wanted: Wanted,
        site: Callable[[tuple[Name, ...]], Site],
        edits: Edits,
        rings: Rings | None,
        is_current: Callable[[], bool],
        policy: Policy,
        limits: Limits,
    ) -> None:
        self._is_current = is_current
        self._rings = rings
        self._wanted = wanted
        self._site = site
        self._edits = edits
        self._policy = policy
        self._limits = limits
        self._functions: dict[int, _Tapped] = {}
        self._sites: dict[tuple[Name, ...], Site] = {}
        self._names: set[Name] = set()
        self._local = threading.local()

    # ------------------------------------------------------------------------------------------ listening

    def entered(self, frame: FrameType) -> bool:
        tapped = self._tapped(frame.f_code)
        pending = self._pending()
        if pending:
            self._forget_gone(frame)
        if not tapped.parameters and not tapped.lines and not tapped.returns:
            return False
        values = frame.f_locals
        held = [(name, values.get(name, MISSING)) for name in tapped.function.parameters]
        anchors = [array for _, value in held for _, array in self._arrays(value, 4) if _is_traced_value(array)]
        pending[id(frame)] = Pending([], anchors[:4], Counter())
        for name, value in held:
            if name in tapped.parameters:
                span = syntax.parameter_span(frame.f_code, name)
                self._note(Variable(frame, name), tapped, name, span, value)
        return False

    def stepped(self, frame: FrameType, line: int) -> bool:
        tapped = self._tapped(frame.f_code)
        stores = tapped.lines.get(line)
        if stores:
            for store in stores:
                span = syntax.statement_span(frame.f_code.co_filename, store.position)
                self._note(Variable(frame, store), tapped, store.name, span, _value(store, frame))
            if tapped.suspends:
                self._flush(frame)
        return False

    def left(self, frame: FrameType, line: int, value: Any) -> bool:
        tapped = self._tapped(frame.f_code)
        if tapped.returns:
            span = syntax.return_span(frame.f_code, tapped.function.position(frame.f_lasti))
            if self._edits.active:
                self._note_returned(tapped, span, value)
            self._collect(frame, tapped, RETURN, span, value)
        self._flush(frame)
        self._pending().pop(id(frame), None)
        self._edits.restore(id(frame))
        return False

    # --------------------------------------------------------------------------------------------- traces

    def mark(self) -> set[int]:
        """The frames that are under way in this thread; give them to `forget_since` where a trace failed."""
        return set(self._pending())

    def forget_since(self, mark: set[int]) -> None:
        """Drops what frames had pending that an exception ended: no tracer may outlive its trace."""
        pending = self._pending()
        for key in [key for key in pending if key not in mark]:
            del pending[key]
            self._edits.restore(key)

    # ---------------------------------------------------------------------------------------------- parts

    def _tapped(self, code: CodeType) -> "_Tapped":
        tapped = self._functions.get(id(code))
        if tapped is None:
            tapped = self._functions[id(code)] = _Tapped(Function(code), self._may_match)
        return tapped

    def _may_match(self, function: str, variable: str) -> bool:
        return self._wanted.may_match(function, variable) or self._edits.may_match(function, variable)

    def _pending(self) -> dict[int, Pending]:
        if not hasattr(self._local, "pending"):
            self._local.pending = {}
        return self._local.pending

    def _forget_gone(self, frame: FrameType) -> None:
        running, each = set(), frame.f_back
        while each is not None:
            running.add(id(each))
            each = each.f_back
        self.forget_since(running)

    def _note(self, variable: Variable, tapped: "_Tapped", name: str, span: Span, value: Any) -> None:
        """Edits a variable where that was asked for, and collects what is in it then."""
        __tracebackhide__ = True
        if value is MISSING:
            return
        if self._edits.active:
            for steps, array in list(self._arrays(value, MOST_LEAVES)):
                if not _is_traced(array) or (belongs_here(array) and _is_traced_value(array)):
                    full = Name(name + "".join(steps), tapped.name, span, aval_of(array))
                    value = self._edits.apply(variable, full, steps, array, value)
        self._collect(variable.frame, tapped, name, span, value)

    def _note_returned(self, tapped: "_Tapped", span: Span, value: Any) -> None:
        for steps, array in self._arrays(value, MOST_LEAVES):
            self._edits.returned(Name(RETURN + "".join(steps), tapped.name, span, aval_of(array)))

    def _collect(self, frame: FrameType, tapped: "_Tapped", name: str, span: Span, value: Any) -> None:
        if not self._is_current():  # all that is sent goes to the run inside of this one, which has its own taps
            return
        for count, (steps, array) in enumerate(self._arrays(value, MOST_LEAVES + 1)):
            if count == MOST_LEAVES:
                self._limits.add(f"{tapped.name}: only the first {MOST_LEAVES} arrays in {name} are tapped")
                break
            full = name + "".join(steps)
            if self._wanted.matches(tapped.name, full) and (read := self._read(array)) is not None:
                self._keep(frame, Name(full, tapped.name, span, aval_of(read)), read)

    def _read(self, array: Any) -> Any:
        """The array itself; of a reference, what it holds now, if it was asked for by name.

        To read one is an effect of its own, which JAX does not allow in each place where a reference may be passed.
        """
        if not _is_traced(array) or not jax_internals.is_reference(array):
            return array
        return array[...] if belongs_here(array) and not self._wanted.everything else None

    def _keep(self, frame: FrameType, name: Name, array: Any) -> None:
        if not self._within_budget(name):
            return
        if not _is_traced(array) and not is_compiling():
            tap(self._site_of((name,)), [array])
            return
        # A constant of the program is sent where it was asked for by name.
        if not _is_traced(array) and self._wanted.everything:
            return
        pending = self._pending().setdefault(id(frame), Pending([], [], Counter()))
        if self._wanted.everything and pending.times[name] >= MOST_TURNS:
            self._limits.add(
                f"{name.name} in {name.function}: tapped in the first {MOST_TURNS} turns of the unrolled loop at line "
                f"{name.span.line if name.span else '?'}; name it to tap all"
            )
            return
        pending.times[name] += 1
        pending.values.append((name, array))
        if len(pending.values) >= MOST_AT_ONCE:
            self._flush(frame)

    def _flush(self, frame: FrameType) -> None:
        pending = self._pending().get(id(frame))
        if pending is None or not pending.values:
            return
        values = [(name, array) for name, array in pending.values if not _is_traced(array) or belongs_here(array)]
        pending.values.clear()
        where = ground()
        if where == "none":
            self._limits.add(
                "values inside of reductions and kernels: not tapped (their programs may hold no callback)"
            )
        elif values:
            names, arrays = zip(*values, strict=True)
            if self._rings is not None and self._put(self._rings, names, arrays):
                return
            anchors = [array for array in pending.anchors if belongs_here(array)]
            tap(self._site_of(names), arrays, anchors=anchors, ordered=where == "ordered")

    def _put(self, rings: Rings, names: tuple[Name, ...], arrays: tuple[Any, ...]) -> bool:
        reason = rings.refusal(arrays)
        if reason is None:
            rings.put(names, arrays)
        else:
            self._limits.add(
                f"no ring for {names[0].name} in {names[0].function}: {reason}; a callback is used instead"
            )
        return reason is None

    def _site_of(self, names: tuple[Name, ...]) -> Site:
        site = self._sites.get(names)
        if site is None:
            site = self._sites[names] = self._site(names)
        return site

    def _within_budget(self, name: Name) -> bool:
        if name in self._names or not self._wanted.everything or len(self._names) < MOST_NAMES:
            self._names.add(name)
            return True
        self._limits.add(f"without names the first {MOST_NAMES} variables are tapped; name those that are missing")
        return False

    def _arrays(self, value: Any, cap: int) -> Iterator[tuple[Steps, Any]]:
        return _leaves((), value, self._policy.owns, [cap, _MOST_PARTS], 0)


class _Tapped:
    """What of one function may be wanted, by its bytecode."""

    def __init__(self, function: Function, may_match: Callable[[str, str], bool]) -> None:
        self.function = function
        self.name = function.name.rpartition("<locals>.")[2]
        self.suspends = bool(function.code.co_flags & _SUSPENDS) or function.is_module
        """What it holds is sent line by line, since it may not end for long, or go on in another trace."""
        self.parameters = {name for name in function.parameters if may_match(self.name, name)}
        found = {
            line: tuple(store for store in stores if may_match(self.name, store.name))
            for line, stores in function.stores.items()
        }
        self.lines = {line: stores for line, stores in found.items() if stores}
        self.returns = function.returns and may_match(self.name, RETURN)


def _value(store: Store, frame: FrameType) -> Any:
    values = frame.f_globals if store.is_global else frame.f_locals
    value = values.get(store.base or store.name, MISSING)
    return attribute(value, store.attribute) if store.attribute and value is not MISSING else value


def _leaves(
    path: Steps, value: Any, owns: Callable[[type], bool], left: list[int], depth: int
) -> Iterator[tuple[Steps, Any]]:
    """The JAX arrays in a value, each with the steps that lead to it, without running any code of the user's."""
    if issubclass(type(value), Tracer | Array):
        left[0] -= 1
        yield path, value
        return
    parts = children(value, owns) if depth < _DEEPEST else None
    for step, part in parts or ():
        left[1] -= 1
        if min(left) <= 0:
            return
        yield from _leaves((*path, step), part, owns, left, depth + 1)


def _is_traced(array: Any) -> bool:
    return issubclass(type(array), Tracer)


def _is_traced_value(array: Any) -> bool:
    return _is_traced(array) and not jax_internals.is_reference(array)
