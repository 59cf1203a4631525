"""Runs texts as notebook cells, with or without a capture."""

import itertools
import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import dedent
from typing import Any

import jax

from jaxmagic.core.capture.capture import Capture
from jaxmagic.core.capture.entries import Stale
from jaxmagic.core.limits import Limits
from jaxmagic.records import Compiled, Trace

STEP = """
    @jax.jit
    def step(params, x):
        return {"loss": ((x @ params["w"]) ** 2).sum()}
    x, params = jnp.ones(8), {"w": jnp.ones((8, 4)), "b": jnp.ones(4)}
"""
"""A cell with a jitted function and arguments for it."""

_numbers = itertools.count(1)


def is_user(file: str) -> bool:
    return file.startswith("<cell ")


class Notebook:
    """Cells that share their variables, as in a kernel."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"jax": jax, "jnp": jax.numpy, "__name__": "__main__"}

    def run(self, text: str) -> None:
        file, text = f"<cell {next(_numbers)}>", dedent(text).lstrip("\n")
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), self.names)

    def trace(self, text: str, **options: Any) -> "Seen":
        """Runs a cell under a capture. An exception of the cell's is kept, not raised."""
        limits = Limits()
        capture = Capture(limits, is_user=is_user, **options)
        error = None
        capture.start()
        try:
            self.run(text)
        except Exception as raised:  # noqa: BLE001 - whatever the cell raises is the user's
            error = raised
        finally:
            capture.stop()
        stale = capture.stale()
        return Seen(capture.compiled(is_user), stale, limits, error)


class Seen:
    """What a capture saw of a cell."""

    def __init__(
        self, functions: tuple[Compiled, ...], stale: tuple[Stale, ...], limits: Limits, error: Exception | None
    ) -> None:
        self.functions = functions
        self.stale = stale
        self.limits = limits
        self.error = error

    def of(self, name: str, kind: str = "jit") -> Compiled:
        found = [each for each in self.functions if (each.name, each.kind) == (name, kind)]
        assert len(found) == 1, [(each.name, each.kind) for each in self.functions]
        return found[0]

    def only(self, name: str, kind: str = "jit") -> Trace:
        traces = self.of(name, kind).traces
        assert len(traces) == 1, [str(trace.reason) for trace in traces]
        return traces[0]

    def names(self) -> list[str]:
        return [each.name for each in self.functions if not each.library]


def inputs(trace: Trace) -> list[str]:
    """`x: f32[3]` for arrays, `n = 3` for static arguments."""
    return [f"{each.name}: {each.aval}" if each.aval else f"{each.name} = {each.static}" for each in trace.inputs]


def outputs(trace: Trace) -> list[str]:
    return [f"{each.name}: {each.aval}" for each in trace.outputs]


@contextmanager
def events() -> Iterator[list[str]]:
    """Names of what JAX measures meanwhile: traces, lowerings, compilations."""
    seen: list[str] = []

    def happened(event: str, duration_secs: float, **_: Any) -> None:
        seen.append(event.rpartition("/")[2])

    jax.monitoring.register_event_duration_secs_listener(happened)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(happened)
