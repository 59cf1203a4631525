"""The engine without a notebook: `with jaxmagic.trace() as t:`, `@jaxmagic.nojit()`, `with jaxmagic.tap("loss"):`."""

import sys
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any, Self

from jaxmagic import text
from jaxmagic.core.cells import Cells
from jaxmagic.core.names import names_of
from jaxmagic.core.nojit.scope import NoJitOptions
from jaxmagic.core.recording import Options, Recording
from jaxmagic.core.rules import RuleInfo
from jaxmagic.core.rules import rules as _rules
from jaxmagic.core.session import Session
from jaxmagic.core.tapping import Tapped, Tapping
from jaxmagic.core.taps.delivery import TapStopped as TapStopped
from jaxmagic.core.taps.series import Series
from jaxmagic.core.taps.taps import TapOptions
from jaxmagic.records import Report


class Recorder(ContextDecorator):
    """Records while its block (or the decorated function) runs.

    Attributes:
        report: What was seen, once the block has ended; of the latest run, for a decorator.
    """

    def __init__(self, make: Callable[[Cells], Session]) -> None:
        self._make = make
        self._session: Session | None = None
        self.report: Report | None = None

    def __enter__(self) -> Self:
        if self._session is not None:
            raise RuntimeError("this recorder is already recording; make a second one")
        frame = sys._getframe(1)
        self._session = self._make(Cells(_numbers_of_cells().get, namespace=names_of(frame)))
        self._session.start(frame)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        done, self._session = self._session, None
        if done is not None:
            done.stop(error)
            self.report = done.report()
            self.ended(done)

    def ended(self, session: Session) -> None:
        """Takes what a session has beside its report."""

    def __str__(self) -> str:
        if self.report is None:
            return "a recorder that has not finished: use it as `with jaxmagic.trace() as t: ...`, then print(t)"
        return text.render(self.report)


def _numbers_of_cells() -> dict[str, int]:
    """The execution counts of notebook cells by the file names of their code; none in a script."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(getattr(shell, "compile", None), "_filename_map", {})


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
    return _recorder(Options(**options))


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
    return _recorder(Options(**{"title": "jaxmagic.nojit()", "hlo": False} | options, nojit=nojit))


def _recorder(options: Options) -> Recorder:
    return Recorder(lambda cells: Recording(options, cells))


class Tap(Recorder):
    """Taps named values while its block (or the decorated function) runs.

    Attributes:
        tapped: The series by name, once the block has ended: `t.tapped["loss"]`, or `t["loss"]` for short.
    """

    tapped: Tapped | None = None

    def ended(self, session: Session) -> None:
        self.tapped = session.tapped if isinstance(session, Tapping) else None

    def __getitem__(self, name: str) -> Series:
        if self.tapped is None:
            raise KeyError(f"{name!r}: the block has not ended, or has not run")
        return self.tapped[name]


def tap(*names: str, modules: Sequence[str] = (), backend: str | None = None, **options: Any) -> Tap:
    """Streams values out of running jitted code by name, without editing it.

    Args:
        *names: `"loss"`, `"step.w"`, `"model.*"`, `"params['w1']"`; none: every array of your functions, in a budget.
        modules: Installed packages to treat as your own code.
        backend: Device for new arrays and computations: `cpu`, `gpu:1`.
        **options: The fields of `jaxmagic.core.taps.taps.TapOptions`: `grad`, `keep`, `when`, `stop_when`, `alert`,
            `every`, `first`, `last`, `replace`, `call`, `ring`, `budget`.

    Returns:
        A `Tap`: context manager and decorator; after it, `t["loss"].values` is an array of `[steps, *shape]`, and
        `t.report` holds a `Report`.

    Raises:
        TypeError: An option has another name.
        TapStopped: Within the block, the condition given as `stop_when` held.

    Example:
        >>> with jaxmagic.tap("loss", grad=True) as t:
        ...     train(w, xs)
        >>> t["loss"].values
        array([0.9, 0.7, 0.6], dtype=float32)
    """
    asked = TapOptions(**options)
    return Tap(lambda cells: Tapping(names, asked, modules=tuple(modules), backend=backend, cells=cells))


def rules() -> tuple[RuleInfo, ...]:
    """Every rule that can give a finding: id, severity, what it sees."""
    return _rules()
