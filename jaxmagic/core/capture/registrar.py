"""Writes down what JAX traced: one entry per program, with its arguments, its reason and its place."""

import sys
import threading
from typing import Any

import jax
import numpy as np

from jaxmagic.core import jax_internals
from jaxmagic.core.capture.arguments import inputs_of, outputs_of, placed
from jaxmagic.core.capture.entries import Entries, Entry
from jaxmagic.core.capture.ownership import IsUser
from jaxmagic.core.capture.reasons import compare, history
from jaxmagic.core.capture.renaming import Naming
from jaxmagic.core.capture.signatures import Signature, jit_options, signature_from, signature_of, static_arguments
from jaxmagic.core.limits import Limits
from jaxmagic.core.lines.attributes import inherits
from jaxmagic.core.lines.values import aval_from
from jaxmagic.core.source.positions import definition, user_frame
from jaxmagic.core.source.spans import position
from jaxmagic.records import Argument, Reason


class Registrar:
    """Completes entries and puts them among the others of a recording."""

    def __init__(self, entries: Entries, is_user: IsUser, limits: Limits) -> None:
        self._entries = entries
        self._is_user = is_user
        self._limits = limits
        self._past = _Past()

    def look_back(self) -> None:
        """Called before the first trace, so that no trace of this recording, on any thread, is taken for an older."""
        with self._limits.guard("traces made before the recording"):
            self._past.look()

    def traced(self, entry: Entry, answer: tuple, fun: Any, info: Any, args: tuple, kwargs: dict) -> None:
        """A call that JAX has looked up, and its answer. Says why it was traced, if it was."""
        params, values = answer
        entry.info, entry.jaxpr = info, params.params["jaxpr"]
        self._locate(entry)
        entry.names = _arrays_around(entry.subject.reference())
        entry.outputs = outputs_of(entry.jaxpr)
        raw = (*placed(inputs_of(params), values), *static_arguments(info, args, kwargs))
        entry.inputs = raw
        naming = Naming(fun, entry.subject.reference())
        with self._limits.guard(f"the names of the arguments of {entry.subject.name}"):
            entry.outputs = naming.outputs(entry.outputs, args, info)
            entry.inputs = naming.inputs(raw, args, info)
        with self._limits.guard(f"why {entry.subject.name} was traced"):
            signature = signature_of(entry.inputs, params, info, args, kwargs)
            past = self._past_of(fun, signature, naming, raw)
            if entry.cached:
                history.note(fun, entry.subject, signature, past)
                entry.reason = Reason("unknown", text="traced before this recording began")
            else:
                entry.reason = history.reason(fun, entry.subject, signature, past, entry.jaxpr)
        self._entries.add(entry)

    def failed(self, entry: Entry, trace: Any, fun: Any, info: Any, args: tuple, kwargs: dict) -> None:
        """A call whose trace raised: of its arguments JAX knows the names and avals, but not how they were nested."""
        entry.failed, entry.info = True, info
        self._locate(entry)
        arrays = tuple(Argument(name, aval_from(aval)) for name, aval in jax_internals.arguments_of_trace(trace))
        raw = (*arrays, *static_arguments(info, args, kwargs))
        entry.inputs = raw
        naming = Naming(fun, entry.subject.reference())
        with self._limits.guard(f"the names of the arguments of {entry.subject.name}"):
            entry.inputs = naming.inputs(raw, args, info)
        signature = Signature(
            arrays={each.name: each.aval for each in entry.inputs if each.aval is not None},
            statics={each.name: each.static for each in entry.inputs if each.aval is None},
            keywords=frozenset(kwargs),
            trees=(),
            jit=jit_options(info),
            options={},
        )
        earlier = history.of(fun) or self._past_of(fun, signature, naming, raw)
        if not earlier:
            entry.reason = Reason("first call", text="first call")
        elif arrays or not (args or kwargs):
            entry.reason = compare(earlier, signature)
        else:
            entry.reason = Reason("unknown", text="stopped before JAX had looked at its arguments")
        self._entries.add(entry)

    def _past_of(self, fun: Any, signature: Signature, naming: Naming, raw: tuple[Argument, ...]) -> list[Signature]:
        """Signatures for which JAX holds a trace of this function, but for the one it has just made."""
        past = []
        for earlier in self._past.of(fun):
            names, statics = naming.earlier(earlier, raw) or (tuple(signature.arrays), None)
            past.append(signature_from(earlier, names, statics))
        return [each for each in past if not _same_call(each, signature)]

    def _locate(self, entry: Entry) -> None:
        """Notes where the function is defined, and the call that the innermost user frame is evaluating."""
        subject, frame = entry.subject, user_frame(sys._getframe(1), self._is_user)
        entry.span = definition(subject.code, subject.owner) if subject.code is not None else None
        entry.call = position(frame) if frame is not None else None


def _same_call(one: Signature, other: Signature) -> bool:
    if any(one.options[name] != other.options[name] for name in one.options.keys() & other.options.keys()):
        return False
    parts = ((each.arrays, each.statics, each.keywords, each.jit) for each in (one, other))
    return next(parts) == next(parts)


class _Past:
    """What JAX's cache of traces held when it was first looked into; of no use after the recording."""

    def __init__(self) -> None:
        self._index: dict[int, list[tuple]] | None = None
        self._lock = threading.Lock()

    def look(self) -> dict[int, list[tuple]]:
        with self._lock:
            if self._index is None:
                self._index = jax_internals.earlier_traces()
            return self._index

    def of(self, fun: Any) -> list[jax_internals.Earlier]:
        found = map(jax_internals.earlier, self.look().get(id(fun), ()))
        return [each for each in found if each.function() is fun]


def _arrays_around(function: Any) -> dict[int, str]:
    """Names of the arrays in a function's closure and of the globals it uses, by `id`."""
    code = getattr(function, "__code__", None)
    if code is None:
        return {}
    variables = getattr(function, "__globals__", {})
    values = {name: variables[name] for name in code.co_names if name in variables}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return dict(_named_arrays(values))


def _named_arrays(values: dict[str, Any]) -> Any:
    for name, value in values.items():
        # Of the type: a proxy of the user's may compute its `__class__`, and raise.
        if inherits(type(value), jax.Array) or inherits(type(value), np.ndarray):
            yield id(value), name
        elif type(value) is dict:
            yield from ((id(part), f"{name}[{key!r}]") for key, part in value.items() if type(key) is str)
