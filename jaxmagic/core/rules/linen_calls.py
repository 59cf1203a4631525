"""Where the user's code enters a Flax Linen module: the call of `apply` or `init`, what it is given, and with what."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from jaxmagic.core.failures.sites import Site
from jaxmagic.core.lines.attributes import attribute
from jaxmagic.core.rules.calls import argument
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.held_keys import held_key
from jaxmagic.core.rules.rewrite import expression, replaced, text
from jaxmagic.core.source.nodes import name_called
from jaxmagic.records import Span

_ENTRIES = ("apply", "init", "init_with_output")
_PLAIN = (*_ENTRIES, "apply_fn")
"""Names of calls that take Flax's own keywords: those of a `jax.jit(model.apply)(…)` may be static."""


@dataclass(frozen=True)
class Entry:
    """A call of `model.apply(variables, …)` or `model.init(rngs, …)`."""

    site: Site
    node: ast.Call
    frame: FrameType
    """Flax's own function, whose variables are what it was given."""
    scopes: tuple[Site, ...]
    """The user's frame of the call, and those of the functions around it."""

    @property
    def span(self) -> Span:
        return self.site.span_of(self.node)

    @property
    def initial(self) -> bool:
        return self.frame.f_code.co_name != "apply"

    @property
    def plain(self) -> bool:
        return name_called(self.node) in _PLAIN

    @property
    def variables(self) -> Any:
        return self.frame.f_locals.get("variables")

    @property
    def first(self) -> ast.expr | None:
        """What is passed as the variables, or as the keys of `init`."""
        return argument(self.node, 0, "variables", "rngs") if self.initial else argument(self.node, 0, "variables")

    def with_first(self, new: ast.AST) -> str:
        """The call with other variables."""
        return "" if self.first is None else text(replaced(self.node, self.first, new))

    def with_keyword(self, name: str, value: ast.expr) -> str:
        kept = [word for word in self.node.keywords if word.arg != name]
        return text(ast.Call(self.node.func, self.node.args, [*kept, ast.keyword(name, value)])) if self.plain else ""

    def keyword(self, name: str) -> ast.expr | None:
        return next((word.value for word in self.node.keywords if word.arg == name), None)

    def collection(self, name: str) -> ast.expr | None:
        """Where the code can reach a collection of variables: `variables["batch_stats"]`, `state.batch_stats`."""
        for known, value in _named(self.scopes):
            if isinstance(value, Mapping) and isinstance(value.get(name), Mapping):
                return expression(f"{known}[{name!r}]")
            if isinstance(attribute(value, name), Mapping):
                return expression(f"{known}.{name}")
        return None

    def all_variables(self) -> str:
        return next((name for name, value in _named(self.scopes) if is_variables(value)), "")

    def key(self) -> str:
        """A random key among the variables of the function; empty where it has none."""
        return held_key(self.site)


def is_variables(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("params"), Mapping)


def entry(failing: Failing) -> Entry | None:
    """The innermost call into a Linen module from the user's code; None outside of one."""
    for at, site in enumerate(failing.sites):
        frames = reversed(failing.machinery) if at == 0 else _between(failing.sites[at - 1].frame, site.frame)
        for frame in frames:
            if _enters(frame):
                around = [outer for outer in failing.sites[at + 1 :] if outer.definition in site.around]
                return Entry(site, site.node, frame, (site, *around)) if isinstance(site.node, ast.Call) else None
    return None


def variables_in(site: Site) -> str:
    """The name of variables that `init` has made."""
    return next((name for name, value in _named((site,)) if is_variables(value)), "")


def _between(inner: FrameType, outer: FrameType) -> Iterator[FrameType]:
    frame = inner.f_back
    while frame is not None and frame is not outer:
        yield frame
        frame = frame.f_back


def _enters(frame: FrameType) -> bool:
    linen = frame.f_globals.get("__name__") == "flax.linen.module"
    return linen and frame.f_code.co_name in _ENTRIES and "self" in frame.f_locals


def _named(scopes: tuple[Site, ...]) -> Iterator[tuple[str, Any]]:
    for site in scopes:
        yield from ((name, value) for name, value in site.scope.locals.items() if not name.startswith("_"))
    for name, value in reversed(list(scopes[0].scope.globals.items())):
        if not name.startswith("_"):
            yield name, value


def holds(tree: Any, path: list[str]) -> bool:
    """Whether nested mappings lead to something along a path."""
    for step in path:
        if not isinstance(tree, Mapping) or step not in tree:
            return False
        tree = tree[step]
    return True


def missing(tree: Any, path: list[str], name: str) -> tuple[str, str, list[str]]:
    """How far a path leads, spelled as subscripts; the first step that isn't there; and what is there instead."""
    gone = name
    for step in path:
        if not isinstance(tree, Mapping) or step not in tree:
            return gone, step, _keys(tree)
        gone, tree = f"{gone}[{step!r}]", tree[step]
    return gone, "", _keys(tree)


def _keys(tree: Any) -> list[str]:
    return [str(key) for key in tree] if isinstance(tree, Mapping) else []
