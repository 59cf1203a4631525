"""What a recording holds of each program while it runs. Holds objects of JAX, so it lives no longer than its report."""

import copy
import itertools
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from jaxmagic.core.capture.ownership import Subject
from jaxmagic.core.capture.second_look import Drift
from jaxmagic.core.capture.seconds import Seconds
from jaxmagic.core.limits import Limits
from jaxmagic.core.programs.parameters import opened
from jaxmagic.records import Argument, Reason, Span

MOST_TRACES = 200
"""Programs kept of one function; a loop that jits a lambda makes one each time round."""

MOST_OF_A_LIBRARY = 20
"""The same for a library's function: flax makes one for each parameter of a model."""


class Stale(NamedTuple):
    """A cached program that is not what the function's code would give now."""

    name: str
    span: Span | None
    """Definition of the function."""
    call: Span | None
    """The call that was served from the cache."""
    text: str
    drifts: tuple[Drift, ...] = ()


class Entry:
    """One program: one tracing of one function, or what became of it under other shardings."""

    def __init__(self, subject: Subject, kind: str, span: Span | None = None) -> None:
        self.subject = subject
        self.kind = kind
        self.span = span
        """Definition of the function."""
        self.call: Span | None = None
        self.parent: Entry | None = None
        self.at_top = False
        """Called outside of any trace at least once."""
        self.ahead = False
        """Lowered by hand, and not called."""
        self.derived = False
        """A program derived from it by vmap or grad ran in its place."""
        self.devices = ""
        self.nested = False
        """Only ever called inside of other programs."""
        self.reason = Reason("unknown")
        self.cached = False
        self.failed = False
        """Its trace, compilation or a run of it raised."""
        self.inputs: tuple[Argument, ...] = ()
        self.outputs: tuple[Argument, ...] = ()
        self.info: Any = None
        """JAX's `PjitInfo`, the options of the jit."""
        self.jaxpr: Any = None
        self.shown: Any = None
        """The same program from a second look, whose lines are those of the source as it is now."""
        self.executable: Any = None
        self.lowered: Any = None
        self.stale: Stale | None = None
        self.names: dict[int, str] = {}
        """Of the user's arrays in closures and globals, by `id`."""
        self.trace_s = 0.0
        self.run_s = 0.0
        self.seconds = Seconds()
        self.calls = 0
        self.ticks = itertools.count()
        """Advanced by each call that JAX dispatches in C++: atomic, and the fastest counter there is."""
        self.calls_exact = True

    def settle(self) -> None:
        """Adds the calls dispatched in C++ to the others, once there can be no more of them."""
        self.calls += next(self.ticks)
        self.ticks = itertools.count()

    def drifted(self, drifts: tuple[Drift, ...]) -> None:
        """Notes that the program is cached and that its function would give another one."""
        text = "the cached program is not what the code would give now"
        self.stale = Stale(self.subject.name, self.span, self.call, text, drifts)

    def compiled_again(self, executable: Any) -> "Entry":
        """The same trace under another executable."""
        other = copy.copy(self)
        other.executable, other.seconds = executable, Seconds()
        other.ticks = itertools.count()
        other.calls, other.run_s, other.trace_s, other.stale = 0, 0.0, 0.0, None
        return other

    @property
    def group(self) -> tuple:
        """Equal for programs of one function."""
        return (self.kind_in_the_end, self.subject.name, self.subject.identity)

    @property
    def kind_in_the_end(self) -> str:
        if self.kind != "jit" or self.nested or self.failed or self.derived:
            return self.kind
        return "ahead of time" if self.ahead else "jit" if self.executable is not None else "abstract"


class Entries:
    """All programs of one recording, found again by the objects that JAX passes around."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._all: list[Entry] = []
        self._counts: dict[tuple, int] = {}
        self._by_key: dict[tuple[int, int], Entry] = {}
        self._by_jaxpr: dict[int, list[Entry]] = {}
        self._by_source: dict[str, Entry] = {}
        self._by_info: dict[int, list[Entry]] = {}
        self._by_function: dict[int, list[Entry]] = {}
        self._lock = threading.RLock()

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._all))

    def add(self, entry: Entry) -> Entry:
        """Keeps an entry, unless there are too many of its function: then it is only counted."""
        identity = (entry.kind, entry.subject.identity)
        with self._lock:
            number = self._counts[identity] = self._counts.get(identity, 0) + 1
            if number > self._most(entry):
                if entry.subject.owner == "user":
                    self._limits.add(f"{entry.subject.name}: a trace beyond the first {MOST_TRACES} is not listed")
                return entry
            self._all.append(entry)
            if entry.jaxpr is not None:
                # By `id`, which is safe as long as the entry keeps the object.
                self._by_key.setdefault((id(entry.jaxpr), id(entry.info)), entry)
                self._by_jaxpr.setdefault(id(entry.jaxpr), []).append(entry)
                source = _source(entry.jaxpr)
                if entry.kind == "jit" and source is not None:
                    self._by_source[source] = entry
        return entry

    def is_full(self, entry: Entry) -> bool:
        """Whether `add` would not keep it."""
        return self._counts.get((entry.kind, entry.subject.identity), 0) >= self._most(entry)

    def _most(self, entry: Entry) -> int:
        return MOST_TRACES if entry.subject.owner == "user" else MOST_OF_A_LIBRARY

    def traced(self, jaxpr: Any, info: Any) -> Entry | None:
        """The entry of what tracing under these options of a jit has given."""
        return self._by_key.get((id(jaxpr), id(info)))

    def of_jaxpr(self, jaxpr: Any) -> list[Entry]:
        return self._by_jaxpr.get(id(jaxpr), [])

    def origin(self, jaxpr: Any) -> Entry | None:
        """The entry of the function that a transformed jaxpr was derived from."""
        source = _source(jaxpr)
        return self._by_source.get(source) if source is not None else None

    def ran(self, entry: Entry) -> bool:
        """Notes that an entry has an executable, so that its calls can be counted; whether that is news."""
        if entry.info is None:
            return False
        with self._lock:
            programs = self._by_info.setdefault(id(entry.info), [])
            if entry in programs:
                return False
            programs.append(entry)
            self._by_function.setdefault(id(entry.subject.reference()), []).append(entry)
            return True

    def that_ran(self, info: Any) -> list[Entry]:
        """The programs that have run of one jitted function."""
        return self._by_info.get(id(info), [])

    def of_function(self, function: Any) -> list[Entry]:
        """The programs that have run of a function, whichever jit of it they were called by."""
        programs = self._by_function.get(id(function), []) if function is not None else []
        return [each for each in programs if each.subject.reference() is function]


def _source(jaxpr: Any) -> str | None:
    """`step at train.py:12`, which JAX hands on to every jaxpr that it derives from the one of `step`."""
    info = getattr(opened(jaxpr).debug_info, "func_src_info", None)
    return info if isinstance(info, str) and " at " in info else None
