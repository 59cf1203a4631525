"""What a rule gets to see: an exception at its place, or a finished cell."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import FrameType
from typing import Any

from jaxmagic.core.capture.entries import Stale
from jaxmagic.core.failures.operands import Scope, aval_of, is_array, is_tracer
from jaxmagic.core.failures.sites import Site, arguments_of, is_jax
from jaxmagic.core.host_calls import Use
from jaxmagic.core.limits import Limits
from jaxmagic.core.lines.aliases import Alias
from jaxmagic.core.nonfinite.origins import Causes
from jaxmagic.core.source.living import Living
from jaxmagic.core.source.nodes import parts
from jaxmagic.records import Aval, Call, Compiled, Evidence, Failure, Hint, Printed, Span, TapSeries

_DERIVATIVES = ("grad", "jvp", "vjp", "jacobian")
_STAGED = {"DynamicJaxprTracer", "JitTracer"}
_CONVERSIONS = ("__bool__", "__int__", "__float__", "__complex__", "__index__", "__hash__", "__array__", "__iter__")


@dataclass(frozen=True)
class Failing:
    """An exception in the user's code: the objects live only as long as the explanation takes."""

    error: BaseException
    message: str
    sites: tuple[Site, ...]
    """User frames, innermost first; at least one."""
    transforms: tuple[str, ...]
    """What the innermost frame ran under, innermost first."""
    machinery: tuple[FrameType, ...]
    """Library frames between the failing expression and the `raise`, outermost first."""
    equation: Span | None = None
    """Where the equation was staged that a later transformation could not handle."""
    sources: tuple[Living, ...] = ()
    """Cells and modules of the user's that may have caused it, oldest first."""

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(each.file for each in self.sources)

    def nodes(self) -> Iterator[tuple[str, ast.AST]]:
        """Every node of the sources and its file, those of the newest cell first."""
        for file, tree in reversed(self.sources):
            yield from ((file, node) for node in ast.walk(tree))

    def own_first(self) -> list[Living]:
        """The sources, the failing line's own before the newest of the others."""
        newest_first = self.sources[::-1]
        own = [each for each in newest_first if each.file == self.site.file]
        return [*own, *(each for each in newest_first if each not in own)]

    @property
    def site(self) -> Site:
        return self.sites[0]

    @property
    def node(self) -> ast.AST | None:
        return self.site.node

    @property
    def scope(self) -> Scope:
        return self.site.scope

    @property
    def span(self) -> Span:
        return self.site.span

    @property
    def kind(self) -> str:
        """The exception's class, without its module."""
        return type(self.error).__qualname__

    def says(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, self.message, re.DOTALL)

    def text(self, node: ast.AST) -> str:
        """The source of a node; the code of one that isn't written there, such as an element of a list by name."""
        return ast.unparse(node) if getattr(node, "made_up", False) else self.site.text(node)

    @cached_property
    def received(self) -> dict[ast.expr, Any]:
        """Values of the operands as the library's first frame got them, where they can be told apart by position."""
        nodes = parts(self.node)
        if not self.machinery or not isinstance(self.node, ast.BinOp | ast.Call | ast.Subscript):
            return {}
        if is_jax(self.machinery[0], ("__bool__",)) and getattr(self.node, "func", None) is not None:
            return {}  # what a built-in function compared, which is none of its arguments
        given = arguments_of(self.machinery[0])
        if isinstance(self.node, ast.Call) and isinstance(self.node.func, ast.Attribute):
            given = given if given and is_array(given[0]) and not self._of_module(self.node.func) else [None, *given]
        return dict(zip(nodes, given, strict=False))

    def _of_module(self, function: ast.Attribute) -> bool:
        return type(self.scope.get(function.value)).__name__ == "module"

    def value(self, node: ast.AST) -> Any:
        """An operand's value, abstract where it is compound; None where it can't be told."""
        found = self.scope.get(node)
        return self.received.get(node) if found is None and isinstance(node, ast.expr) else found

    def aval(self, node: ast.AST) -> Aval | None:
        return aval_of(self.value(node))

    def traced(self, node: ast.AST) -> bool:
        return self.scope.traced(node) or is_tracer(self.value(node))

    @cached_property
    def first_traced(self) -> ast.expr | None:
        """The first operand that is a tracer."""
        return next((node for node in parts(self.node) if self.traced(node)), None)

    def shown(self, node: ast.AST) -> str:
        """Source and aval: `limit / n` (f32[])."""
        aval = self.aval(node)
        return f"`{self.text(node)}` ({aval})" if aval else f"`{self.text(node)}`"

    def evidence(self, *nodes: ast.AST) -> tuple[Evidence, ...]:
        """One line for each node that has a shape."""
        return tuple(
            Evidence(f"{self.text(node)}: {self.aval(node)}", self.site.span_of(node))
            for node in nodes
            if self.aval(node) is not None
        )

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The arguments of the traced function that JAX says the value depends on, where the user knows the names."""
        match = self.says(r"depends on the values? of the arguments? (.+?)\.(?:\s|$)")
        named = re.split(r", (?:and )?| and ", match[1]) if match else []
        known = {name for site in self.sites for name in site.parameters}
        return tuple(name for name in named if re.split(r"[.\[]", name)[0] in known)

    @cached_property
    def under(self) -> str:
        """The transformation because of which the value isn't known, in words; empty in eager code.

        A derivative's tracer knows its value unless something else traces too; only NumPy can't look into it.
        """
        kinds = {type(value).__name__ for value in self._tracers()}
        passed = () if self.kind == "TracerArrayConversionError" else _DERIVATIVES
        if kinds and kinds <= _STAGED:
            passed = (*_DERIVATIVES, "vmap")
        return next((each for each in self.transforms if each not in passed), next(iter(self.transforms), ""))

    @property
    def tracing(self) -> bool:
        """Whether the failing line ran inside of anything of JAX's, a transformation for one."""
        # From each of the user's frames, for that of a generator that has ended no longer knows who called it.
        return any(_is_of_jax(frame) for site in self.sites for frame in _callers(site.frame))

    def _tracers(self) -> list[Any]:
        """The tracers that the failing expression names."""
        nodes = ast.walk(self.node) if self.node is not None else ()
        found = [self.scope.get(node) for node in nodes if isinstance(node, ast.Name | ast.Attribute | ast.Subscript)]
        return [value for value in found if is_tracer(value)]

    @property
    def asked_by_python(self) -> bool:
        """Whether Python's own operator, keyword or built-in function wanted the value, and no library's code."""
        frame = self.machinery[0] if self.machinery else None
        return frame is not None and is_jax(frame, _CONVERSIONS)


def _callers(frame: FrameType) -> Iterator[FrameType]:
    outer = frame.f_back
    while outer is not None:
        yield outer
        outer = outer.f_back


def _is_of_jax(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] == "jax"


@dataclass(frozen=True)
class Observed:
    """A finished cell, as far as rules may look at it.

    A recording fills it from its line record (`calls`, `hints`), its capture (`compiled`), the user's namespace
    and the files that the user's functions stand in. Rules read `namespace` while they run and keep nothing of it.
    """

    limits: Limits
    calls: tuple[Call, ...] = ()
    hints: tuple[Hint, ...] = ()
    compiled: tuple[Compiled, ...] = ()
    files: tuple[str, ...] = ()
    """`co_filename` of the cell and of every module or cell whose functions ran."""
    earlier: tuple[Living, ...] = ()
    """Cells that ran before this one, in the order they last did."""
    modules: tuple[str, ...] = ()
    """Those whose own lines ran: the cell's, and modules that it imported."""
    namespace: Mapping[str, Any] = field(default_factory=dict)
    """The user's namespace as the cell left it."""
    printed: tuple[Printed, ...] = ()
    results: tuple[str, ...] = ()
    """The cell's value, as text."""
    stale: tuple[Stale, ...] = ()
    """From `Capture.stale()`."""
    aliases: tuple[Alias, ...] = ()
    """From `Aliases.found()`."""
    taps: tuple[TapSeries, ...] = ()
    """What came ashore, where values were tapped."""
    host_calls: tuple[Use, ...] = ()
    """Uses of the old `host_callback`, as often as it was called."""
    causes: Causes = field(default_factory=Causes)
    """Where NaN and infinities came from, for a cell that was watched for them."""
    asked: frozenset[str] = frozenset()
    """The conditions that it was watched for: `nan`, `inf`."""
    failure: Failure | None = None
    """What ended the cell: a cause that explains it is not reported a second time."""
