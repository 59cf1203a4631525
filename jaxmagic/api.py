"""The engine without a notebook: `with jaxmagic.trace() as t:` and `@jaxmagic.trace()`."""

import sys
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any, Self

from jaxmagic import text
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
            raise RuntimeError("this recorder is already recording; make a second one with jaxmagic.trace()")
        self._recording = Recording(self._options)
        self._recording.start(sys._getframe(1))
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


def rules() -> tuple[RuleInfo, ...]:
    """Every rule that can give a finding: id, severity, what it sees."""
    return _rules()
