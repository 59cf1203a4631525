"""The engine without a notebook: `with jaxmagic.trace() as t:`, `@jaxmagic.nojit()`."""

import sys
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any, Self

from jaxmagic import text
from jaxmagic.core.cells import Cells
from jaxmagic.core.nojit.scope import NoJitOptions
from jaxmagic.core.recording import Options, Recording
from jaxmagic.core.rules import RuleInfo
from jaxmagic.core.rules import rules as _rules
from jaxmagic.records import Report


class Recorder(ContextDecorator):
    """Records while its block (or the decorated function) runs.

    Attributes:
        report: What was seen, once the block has ended; of the latest run, for a decorator.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._recording: Recording | None = None
        self.report: Report | None = None

    def __enter__(self) -> Self:
        if self._recording is not None:
            raise RuntimeError("this recorder is already recording; make a second one")
        frame = sys._getframe(1)
        names = frame.f_globals if self._options.nojit else {}  # in which functions are looked up
        self._recording = Recording(self._options, Cells(namespace=names))
        self._recording.start(frame)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        done, self._recording = self._recording, None
        if done is not None:
            done.stop(error)
            self.report = done.report()

    def __str__(self) -> str:
        if self.report is None:
            return "a recorder that has not finished: use it as `with jaxmagic.trace() as t: ...`, then print(t)"
        return text.render(self.report)


def trace(**options: Any) -> Recorder:
    """Records shapes, compiled functions and findings while a block runs.

    Args:
        **options: The fields of `jaxmagic.core.recording.Options`: `functions`, `modules`, `retrace`, `hlo`,
            `max_traces`, `backend`, `title`.

    Returns:
        A `Recorder`: context manager and decorator; after it, `.report` holds a `Report` and `str()` is readable.

    Raises:
        TypeError: An option has another name or type.

    Example:
        >>> with jaxmagic.trace() as t:
        ...     jax.jit(lambda x: x * 2)(jnp.ones(3))
        >>> t.report.compiled[0].name
        '<lambda>'
    """
    return Recorder(Options(**options))


def nojit(
    *only: Callable[..., Any] | str,
    excluded: Sequence[Callable[..., Any] | str] = (),
    budget: float | None = None,
    **options: Any,
) -> Recorder:
    """Runs a block without jit, and records what that shows: real values at the lines, what stayed traced, the cost.

    Args:
        *only: Functions to run in plain Python, as objects or by name; all else stays compiled. None: everything
            runs in Python but JAX's own functions.
        excluded: Functions that stay compiled, all others running in Python.
        budget: Seconds after which `OverBudget` is raised, between two lines.
        **options: Further fields of `jaxmagic.core.recording.Options`: `modules`, `backend`, `title`.

    Returns:
        A `Recorder`: context manager and decorator; `.report.nojit` holds what only a run without jit can show.

    Raises:
        ValueError: Both `only` and `excluded` are given, or the budget is not positive.

    Example:
        >>> @jax.jit
        ... def f(x):
        ...     return x * 2
        >>> with jaxmagic.nojit() as n:
        ...     f(3.0)
        >>> n.report.nojit.functions[0].name
        'f'
    """
    nojit = NoJitOptions(only=only, excluded=tuple(excluded), budget=budget)
    return Recorder(Options(**{"title": "jaxmagic.nojit()", "hlo": False} | options, nojit=nojit))


def rules() -> tuple[RuleInfo, ...]:
    """Every rule that can give a finding: id, severity, what it sees."""
    return _rules()
