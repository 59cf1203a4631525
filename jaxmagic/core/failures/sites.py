"""The user's frames in a traceback: where each stood, in what syntax, and which transformations lay between."""

import ast
import itertools
from functools import cached_property
from types import FrameType
from typing import Any

from jaxmagic.core import jax_internals
from jaxmagic.core.failures.operands import Scope
from jaxmagic.core.failures.tracebacks import Entries
from jaxmagic.core.lines.attributes import module_of
from jaxmagic.core.lines.containers import children
from jaxmagic.core.programs.stacks import span_of
from jaxmagic.core.source import spans as source
from jaxmagic.core.source import syntax
from jaxmagic.core.source.nodes import path_to, smallest
from jaxmagic.records import Span

_TRANSFORMS = {
    "vmap_f": "vmap",
    "value_and_grad_f": "grad",
    "jacfun": "jacobian",
    "jvp": "jvp",
    "fun_remat": "checkpoint",
    "scan": "scan body",
    "while_loop": "while_loop",
    "fori_loop": "fori_loop",
    "cond": "cond branch",
    "switch": "switch branch",
    "shard_map": "shard_map",
    "make_jaxpr_f": "make_jaxpr",
    "eval_shape": "eval_shape",
    "cache_miss": "jit",
    "jit_trace": "jit",
    "vjp": "vjp",
    "_vjp": "vjp",
}
"""By the name of JAX's function that is on the stack while it calls the user's."""

_MADE_OF = {
    "grad": ("vjp",),
    "jacobian": ("vmap", "jvp", "vjp", "jacobian"),
    "fori_loop": ("scan body", "while_loop"),
}
"""What a transformation uses inside: not to be told apart from it."""

_IN_PYTHON = {
    "jaxmagic.core.nojit.switch": ("jit",),
    "jaxmagic.core.nojit.loops": (
        "scan body",
        "while_loop",
        "fori_loop",
        "cond branch",
        "switch branch",
        "checkpoint",
    ),
}
"""By modules of ours that call the user's function in Python: what JAX then only seems to do with it."""


class Site:
    """One user frame of a traceback, at the instruction that raised."""

    def __init__(self, frame: FrameType, instruction: int) -> None:
        self.frame = frame
        self.file = frame.f_code.co_filename
        self.function: str = frame.f_code.co_qualname
        self.entered: tuple[str, ...] = ()
        """What its function was called through from the user frame around it, innermost first: `vmap`, `jit step`."""
        self._instruction = span_of(frame.f_code, instruction)

    @property
    def span(self) -> Span:
        """The source of `node`; that of the instruction where there is no such node."""
        return self._instruction if self.node is None or hasattr(self.node, "body") else self.span_of(self.node)

    @cached_property
    def scope(self) -> Scope:
        return Scope.of(self.frame)

    @cached_property
    def node(self) -> ast.AST | None:
        """The expression (or statement) that was being evaluated."""
        place = self._instruction
        node = source.node_at(place) or (
            self.tree and smallest(self.tree, place.line, place.column, place.end_line, place.end_column)
        )
        # Python 3.11 has the jump of `if x:` stand for the whole statement.
        node = node.test if isinstance(node, ast.If | ast.While | ast.Assert | ast.IfExp) else node
        return self._looked_into(node) or node

    def _looked_into(self, node: ast.AST | None) -> ast.expr | None:
        """What is taken apart by the names of `a, b = x`, or compared by a `case`: Python points at those instead."""
        around = path_to(self.tree, node)[1:] if self.tree is not None and node is not None else ()
        if isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Store):
            match next(iter(around), None):
                case ast.Assign(value=value) | ast.For(iter=value):
                    return value
        for outer in around:
            match outer:
                case ast.Match(subject=subject, cases=cases) if any(_within(node, case.pattern) for case in cases):
                    return subject
                case ast.stmt():
                    break
        return None

    @cached_property
    def tree(self) -> ast.Module | None:
        return source.tree(self.file)

    @cached_property
    def around(self) -> tuple[ast.AST, ...]:
        """What encloses `node`, innermost first, out to the module."""
        if self.tree is None or self.node is None:
            return ()
        return tuple(path_to(self.tree, self.node))[1:]

    @cached_property
    def definition(self) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None:
        """The `def` or `lambda` that the frame runs."""
        node = syntax.definition(self.frame.f_code)
        return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) else None

    @property
    def parameters(self) -> list[str]:
        """Names of the positional and keyword parameters of the frame's function."""
        code = self.frame.f_code
        return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

    @property
    def statement(self) -> ast.stmt | None:
        nodes = (self.node, *self.around)
        return next((node for node in nodes if isinstance(node, ast.stmt)), None)

    def text(self, node: ast.AST) -> str:
        """The source of a node of this file, as written."""
        return source.text_of(self.span_of(node))

    def span_of(self, node: ast.AST) -> Span:
        return syntax.span_of(self.file, node)


class Stack:
    """A traceback, split into the user's frames and the library's between and below them."""

    def __init__(self, entries: Entries, policy: source.Policy) -> None:
        self.sites: tuple[Site, ...] = ()
        """User frames, innermost first."""
        self.transforms: tuple[str, ...] = ()
        """What the innermost user frame ran under, innermost first: `scan body`, `jit step`, …"""
        self.machinery: tuple[FrameType, ...] = ()
        """Library frames below the innermost user frame, outermost first."""
        below: list[FrameType] = []
        for frame, instruction in entries:
            if policy.is_user(frame.f_code.co_filename):
                site = Site(frame, instruction)
                if self.sites:
                    site.entered = tuple(_transforms(frame, self.sites[0].frame))
                self.transforms = (*site.entered, *self.transforms)
                self.sites = (site, *self.sites)
                below = []
            elif self.sites:
                below.append(frame)
        self.machinery = tuple(below)
        self.equation = _equation(below, policy)


def _equation(machinery: list[FrameType], policy: source.Policy) -> Span | None:
    """Where the equation that a transformation was working on was written by the user."""
    for frame in reversed(machinery):
        traceback = jax_internals.traceback_of(frame.f_locals.get("eqn"))
        if traceback is not None:
            for code, offset in jax_internals.frames_within_trace(traceback):
                if policy.is_user(code.co_filename):
                    return span_of(code, offset)
    return None


def _transforms(inner: FrameType, outer: FrameType) -> list[str]:
    """Of the library frames that led from one user frame to the next, innermost first.

    From the frames' own chain, since JAX cuts its frames out of tracebacks outside IPython.
    """
    named: list[str] = []
    untraced: set[str] = set()
    frame = inner.f_back
    while frame is not None and frame is not outer:
        untraced.update(_IN_PYTHON.get(frame.f_globals.get("__name__", ""), ()))
        transform = _transform(frame)
        if transform and transform not in untraced:
            while named and named[-1] in _MADE_OF.get(transform, ()):
                named.pop()
            named.append(f"jit {inner.f_code.co_name}" if transform == "jit" else transform)
        frame = frame.f_back
    return [name for name, _ in itertools.groupby(named)]


def _transform(frame: FrameType) -> str:
    if not is_jax(frame, (*_TRANSFORMS, "wrapped")):
        return ""
    module = frame.f_globals["__name__"].rpartition(".")[2]
    return _TRANSFORMS.get(frame.f_code.co_name, module if module in ("shard_map", "pmap") else "")


def _within(node: ast.AST | None, outer: ast.AST) -> bool:
    return any(part is node for part in ast.walk(outer))


def is_jax(frame: FrameType, names: Any) -> bool:
    """Whether it is a frame of JAX's, of a function of one of these names."""
    return frame.f_code.co_name in names and frame.f_globals.get("__name__", "").split(".")[0] == "jax"


def arguments_of(frame: FrameType) -> list[Any]:
    """What a library function was called with, by position, as far as its frame still tells."""
    code, values = frame.f_code, frame.f_locals
    names = code.co_varnames[: code.co_argcount]
    given = [values[name] for name in names if name in values]
    if code.co_flags & 0x04:  # *args
        extra = values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        given += extra if isinstance(extra, tuple) else ()
    return given


def path_of(value: Any, container: Any, name: str, depth: int = 4) -> str | None:
    """How to reach `value` (the very object) from a container: `params[1][0]`, `self.layers[2].weight`."""
    if value is container:
        return name
    if depth == 0:
        return None
    for step, part in itertools.islice(children(container, _holds_data) or (), 200):
        if found := path_of(value, part, name + step, depth - 1):
            return found
    return None


def _holds_data(kind: type) -> bool:
    return module_of(kind).partition(".")[0] not in ("jax", "jaxlib", "numpy", "builtins")
