"""Which code of a session still matters: the newest version of each cell, and what variables lead to of older ones."""

import ast
import builtins
import linecache
import re
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import cache, lru_cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmagic.core.capture.ownership import values_of_cells
from jaxmagic.core.cells import Cells
from jaxmagic.core.lines.attributes import attribute, inherits, instance_dict, module_of
from jaxmagic.core.source.nodes import is_definition, loaded, own_nodes, stored
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.source.syntax import tree
from jaxmagic.core.source.texts import lines_of

_MOST_FILES = 100
_MOST_OBJECTS = 20_000
_MOST_ELEMENTS = 1_000
"""Of a container, looked into."""
_ALIKE = 0.75
"""How much of two cells' text is the same, where one is taken for a version of the other."""

_HISTORY = re.compile(r"_+|_(i+|[io]h|dh|i?\d+)|In|Out")
"""Variables in which IPython keeps what was typed and shown."""

_CONTAINERS = (dict, list, tuple, set, frozenset)
_JITTED = type(jax.jit(abs))
_PLAIN = (int, float, complex, str, bytes, type(None), np.ndarray, np.generic, jax.Array, CodeType)


class Living(NamedTuple):
    """A file, or a cell, of which at least a part matters."""

    file: str
    tree: ast.Module
    """Without the functions and classes that were defined anew since and that no variable leads to."""


def living(
    cells: Cells, policy: Policy, namespaces: Iterable[Mapping[str, Any]] = (), whole: Collection[str] = ()
) -> tuple[Living, ...]:
    """Modules and cells of the user's, modules first, then in the order the cells last ran.

    Args:
        cells: Those that ran, and the user's variables.
        policy: Whose file is it.
        namespaces: Further variables: those of the frames of a traceback.
        whole: Files that matter as they are: of the cell that runs, of frames.
    """
    reached = _reached((cells.namespace, *namespaces), policy)
    numbered = _in_order(cells)
    modules = [file for file in (*reached, *whole) if file not in numbered]
    found = [Living(file, parsed) for file in dict.fromkeys(modules) if (parsed := tree(file)) is not None]
    return (*found, *_of_cells(cells, numbered, lambda: reached, whole))[-_MOST_FILES:]


def before(cells: Cells, policy: Policy, files: Collection[str]) -> tuple[Living, ...]:
    """The cells that ran before these."""
    numbered = _in_order(cells)
    last = next((place for place, file in enumerate(numbered) if file in files), len(numbered))
    if not last:
        return ()
    reached = cache(lambda: _reached((cells.namespace,), policy))
    earlier = set(numbered[:last]).difference(files)
    return tuple(each for each in _of_cells(cells, numbered, reached, files) if each.file in earlier)


def _in_order(cells: Cells) -> list[str]:
    numbered = {file: number for file in list(linecache.cache) if (number := cells.number(file)) is not None}
    return sorted(numbered, key=lambda file: numbered[file])


def _of_cells(
    cells: Cells, files: list[str], reached: Callable[[], Mapping[str, set[int]]], whole: Collection[str]
) -> tuple[Living, ...]:
    """What matters of the cells; what variables lead to is looked up only where it makes a difference."""
    found: list[Living] = []
    newer: list[_Version] = []
    for file in reversed(files):
        parsed = tree(file)
        if parsed is None:
            continue
        version = _Version(file, parsed, cells.identity(file))
        replaced = any(version.is_replaced_by(other) for other in newer)
        again = {name for other in newer for name in other.names}
        newer.append(version)
        is_held = partial(_is_held, file, reached)
        kept = parsed.body if file in whole else list(_kept(parsed.body, replaced, again, is_held, cells.namespace))
        if kept:
            found.append(Living(file, parsed if kept == parsed.body else ast.Module(kept, [])))
    return tuple(reversed(found))


def _kept(
    body: list[ast.stmt],
    replaced: bool,
    again: set[str],
    is_held: Callable[[ast.stmt], bool],
    namespace: Mapping[str, Any],
) -> Iterator[ast.stmt]:
    for statement in body:
        names = bound(statement)
        if is_definition(statement):
            keeps = not replaced and any(name in namespace and name not in again for name in names)
        else:
            keeps = not replaced and (not namespace or all(name in namespace for name in names or _read(statement)))
        if keeps or is_held(statement):
            yield statement


def _is_held(file: str, reached: Callable[[], Mapping[str, set[int]]], statement: ast.stmt) -> bool:
    """Whether a variable leads to a function that the statement defines."""
    if not any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) for node in ast.walk(statement)):
        return False
    lines = range(_first_line(statement), (statement.end_lineno or 0) + 1)
    return not reached().get(file, set()).isdisjoint(lines)


class _Version:
    """A cell as it was run."""

    def __init__(self, file: str, parsed: ast.Module, identity: str | None) -> None:
        self.identity = identity
        self.text = "".join(lines_of(file))
        self.names = {name for statement in parsed.body for name in bound(statement) if not _reads_itself(statement)}
        self.all = {name for statement in parsed.body for name in bound(statement)}

    def is_replaced_by(self, newer: "_Version") -> bool:
        """Whether both are versions of one cell: so says the front end, or else they bind the same and read alike."""
        if self.identity is not None and newer.identity is not None:
            return self.identity == newer.identity
        same = self.all <= newer.all and bool(self.all) == bool(newer.all)
        return same and _read_alike(self.text, newer.text)


@lru_cache(maxsize=4096)
def _read_alike(one: str, other: str) -> bool:
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE and matcher.ratio() >= _ALIKE


def bound(statement: ast.stmt) -> set[str]:
    """Names that a statement of a module binds, imports left out."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    inside = [statement, *own_nodes(statement)]
    defined = [child for node in inside for child in ast.iter_child_nodes(node) if is_definition(child)]
    names = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names | {node.name for node in defined}  # pyright: ignore[reportAttributeAccessIssue]


def _read(statement: ast.stmt) -> set[str]:
    """Names of the module's that a statement reads."""
    own = {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
    return loaded(statement) - own - set(stored(statement)) - set(vars(builtins))


def _reads_itself(statement: ast.stmt) -> bool:
    """`w = step(w)`: what gave `w` its value before still matters."""
    return not is_definition(statement) and (
        isinstance(statement, ast.AugAssign) or bool(bound(statement) & loaded(statement))
    )


def _first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])


# ------------------------------------------------------------------------- what variables lead to


def _reached(namespaces: Iterable[Mapping[str, Any]], policy: Policy) -> dict[str, set[int]]:
    """The first lines of the user's functions that variables lead to, by file. Nothing of an object's class runs."""
    found: dict[str, set[int]] = {}
    waiting = deque(
        value for names in namespaces for name, value in list(names.items()) if not _HISTORY.fullmatch(name)
    )
    seen: set[int] = set()
    kept = []
    while waiting and len(seen) < _MOST_OBJECTS:
        value = waiting.popleft()
        if id(value) in seen or any(inherits(type(value), plain) for plain in _PLAIN):
            continue
        seen.add(id(value))
        kept.append(value)  # so that no other object gets its `id` meanwhile
        if isinstance(value, FunctionType) and policy.is_user(value.__code__.co_filename):
            found.setdefault(value.__code__.co_filename, set()).add(value.__code__.co_firstlineno)
        elif type(value) is ModuleType and _is_users(value, policy):
            found.setdefault(value.__file__, set())  # type: ignore[arg-type]
        waiting.extend(_inside(value, policy))
    return found


def _is_users(module: ModuleType, policy: Policy) -> bool:
    file = attribute(module, "__file__")
    return isinstance(file, str) and file.endswith(".py") and policy.is_user(file)


def _inside(value: Any, policy: Policy) -> Iterator[Any]:
    """What an object holds."""
    kind = type(value)
    if kind is FunctionType:
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
        yield from vars(value).values()
        yield from values_of_cells(value)
        yield sys.modules.get(value.__module__) if policy.is_user(value.__code__.co_filename) else None
    elif kind is MethodType:
        yield from (value.__func__, value.__self__)
    elif kind is partial:
        yield from (value.func, *value.args, *value.keywords.values())
    elif kind in (staticmethod, classmethod):
        yield value.__func__
    elif kind is property:
        yield from (value.fget, value.fset)
    elif kind in _CONTAINERS:
        yield from list(value.values() if kind is dict else value)[:_MOST_ELEMENTS]
    elif kind is ModuleType:
        yield from vars(value).values() if _is_users(value, policy) else ()
    elif inherits(kind, type):
        own = policy.owns(value)
        yield from (*vars(value).values(), *value.__bases__, sys.modules.get(module_of(value))) if own else ()
    else:
        yield kind
        yield getattr(value, "__wrapped__", None) if kind is _JITTED else None
        yield from list(instance_dict(value).values())
