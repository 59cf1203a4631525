"""Runs a failing program as cells of a notebook would, explains it, and puts its fix in place."""

import ast
import itertools
import linecache
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax

from jaxmagic.core.cells import Cells
from jaxmagic.core.failures.explain import explain
from jaxmagic.core.limits import Limits
from jaxmagic.core.source.spans import text_of
from jaxmagic.records import Failure, Finding, Span

_numbers = itertools.count()


@dataclass
class Notebook:
    """Cells that share a namespace; each is known to `linecache`, as IPython's are."""

    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    cells: dict[str, str] = field(default_factory=dict)

    def number(self, file: str) -> int | None:
        """The execution count of a cell; None for any other file."""
        return list(self.cells).index(file) + 1 if file in self.cells else None

    @property
    def told(self) -> Cells:
        return Cells(number=self.number, namespace=self.namespace)

    def run(self, cell: str, file: str = "") -> None:
        file = file or f"<ipython-input-{next(_numbers)}-test>"
        self.cells[file] = cell
        linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
        exec(compile(cell, file, "exec"), self.namespace)


@dataclass
class Failed:
    """A program that failed, and what was made of it."""

    notebook: Notebook
    failure: Failure
    error: BaseException
    limits: tuple[str, ...]

    @property
    def finding(self) -> Finding:
        assert len(self.failure.findings) == 1, (self.failure.message, self.limits)
        return self.failure.findings[0]

    @property
    def text(self) -> str:
        """The failing expression."""
        assert self.failure.span is not None
        return text_of(self.failure.span)

    @property
    def marked(self) -> str:
        """What the finding points at."""
        assert self.finding.span is not None
        return text_of(self.finding.span)

    @property
    def operands(self) -> dict[str, str]:
        return {operand.name: str(operand.aval) for operand in self.failure.operands if operand.aval is not None}

    @property
    def evidence(self) -> str:
        return "\n".join(evidence.text for evidence in self.finding.evidence)

    def fixed(self) -> Notebook:
        """All cells again in a new notebook, with the fix in the place it names."""
        assert self.finding.fix, self.finding
        assert self.finding.replaces is not None
        again = Notebook()
        for file, cell in self.notebook.cells.items():
            again.run(
                replaced(cell, self.finding.replaces, self.finding.fix) if file == self.finding.replaces.file else cell
            )
        return again


def failed(*cells: str) -> Failed:
    """Runs cells of which the last raises, and explains the exception."""
    notebook = Notebook()
    *before, last = [textwrap.dedent(cell).strip() + "\n" for cell in cells]
    for cell in before:
        notebook.run(cell)
    with _tracebacks_as_in_a_notebook():
        try:
            notebook.run(last)
        except Exception as error:  # noqa: BLE001 - the program is there to fail
            limits = Limits()
            return Failed(notebook, explain(error, limits=limits, cells=notebook.told), error, limits.lines())
    raise AssertionError("the program did not fail")


@contextmanager
def _tracebacks_as_in_a_notebook() -> Iterator[None]:
    """JAX hides its frames from IPython by marking them, and from anyone else by cutting them out."""
    before = jax.config.jax_traceback_filtering  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_traceback_filtering", "tracebackhide")
    try:
        yield
    finally:
        jax.config.update("jax_traceback_filtering", before)


def replaced(cell: str, span: Span, fix: str) -> str:
    """The cell with a span replaced by code; its further lines take the indentation of the first."""
    lines = cell.encode().splitlines(keepends=True)
    before = b"".join(lines[: span.line - 1]) + lines[span.line - 1][: span.column]
    after = lines[span.end_line - 1][span.end_column :] + b"".join(lines[span.end_line :])
    margin = " " * (len(lines[span.line - 1]) - len(lines[span.line - 1].lstrip()))
    first, *rest = fix.split("\n")
    code = "\n".join([first, *(margin + line for line in rest)])
    ast.parse(changed := before.decode() + code + after.decode())
    return changed
