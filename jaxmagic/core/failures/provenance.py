"""Where a value came from: the lines that wrote it, and on into the callers through their arguments."""

import ast
from collections.abc import Iterator
from typing import Protocol

from jaxmagic.core.failures.operands import Scope
from jaxmagic.core.failures.sites import Site
from jaxmagic.core.lines import values
from jaxmagic.core.source.nodes import bound_by, loaded, stored
from jaxmagic.records import Hint

MOST = 8
"""Hints per operand."""
_DEEPEST = 5
_LEAVES = 4


class Written(Protocol):
    """What `LineRecord` knows of a name: the nearest line before `before_line` that wrote it."""

    def written(self, file: str, function: str, name: str, before_line: int) -> Hint | None: ...


class Provenance:
    """Follows names back, from the innermost frame outwards."""

    def __init__(self, sites: tuple[Site, ...], lines: Written | None) -> None:
        self._sites = sites
        self._lines = lines

    def of(self, node: ast.AST) -> tuple[Hint, ...]:
        """What wrote the names in an expression of the innermost frame, nearest first."""
        if not self._sites:
            return ()
        found: list[Hint] = []
        for hint in self._follow(0, node, self._sites[0].span.line, set(), _DEEPEST):
            found.append(hint)
            if len(found) == MOST:
                break
        return tuple(found)

    def _follow(self, level: int, node: ast.AST, line: int, seen: set[object], depth: int) -> Iterator[Hint]:
        site = self._sites[level]
        for name in sorted(loaded(node), key=lambda name: _place(node, name)):
            hint = self._hint(site, name, line)
            if hint is None or (hint.span, name) in seen or depth == 0:
                continue
            seen.add((hint.span, name))
            yield hint
            if hint.role == "argument":
                yield from self._caller(level, name, seen, depth - 1)
            elif (source := _right_side(site, name, hint.span.line)) is not None:
                yield from self._follow(level, source, hint.span.line, seen, depth - 1)

    def _caller(self, level: int, name: str, seen: set[object], depth: int) -> Iterator[Hint]:
        """The expression that the calling frame passed for a parameter."""
        if level + 1 >= len(self._sites):
            return
        caller = self._sites[level + 1]
        given = argument_given(self._sites[level], caller, name)
        if given is not None:
            yield from self._follow(level + 1, given, caller.span.line, seen, depth)

    def _hint(self, site: Site, name: str, line: int) -> Hint | None:
        recorded = None
        if self._lines is not None:
            recorded = self._lines.written(site.file, site.function, name, _until(site, name, line))
        return recorded or _from_source(site, name, line)


def _until(site: Site, name: str, line: int) -> int:
    """The line above which a name was written: in a loop that writes it, the pass before counts, to the loop's end."""
    loops = [node for node in site.around if isinstance(node, ast.For | ast.While) and node.lineno <= line]
    ends = [loop.end_lineno or line for loop in loops if name in stored(*loop.body)]
    return max([line, *(end + 1 for end in ends)])


def _place(node: ast.AST, name: str) -> tuple[int, int]:
    return min(
        (part.lineno, part.col_offset) for part in ast.walk(node) if isinstance(part, ast.Name) and part.id == name
    )


def _body(site: Site) -> ast.AST | None:
    """The function that the frame runs, or the whole module."""
    return site.definition or (site.around[-1] if site.around else None)


def _assignments(site: Site, name: str, line: int) -> list[ast.stmt]:
    body = _body(site)
    if body is None or isinstance(body, ast.Lambda):
        return []
    statements = [node for node in ast.walk(body) if isinstance(node, ast.stmt) and node.lineno < line]
    return [statement for statement in statements if name in stored(*bound_by(statement))]


def _right_side(site: Site, name: str, line: int) -> ast.expr | None:
    match next(iter(_assignments(site, name, line + 1)[-1:]), None):
        case ast.Assign(value=value) | ast.AugAssign(value=value) | ast.For(iter=value):
            return value
    return None


def _from_source(site: Site, name: str, line: int) -> Hint | None:
    """Without a line record: the last assignment above the line, with what the name holds now."""
    held = _held(site.scope, name)
    if held is None:
        return None
    leaves, hidden = values.leaves(held, _LEAVES)
    if not leaves:
        return None
    above = _assignments(site, name, line)
    if above:
        span = site.span_of(bound_by(above[-1])[0])
        return Hint(span, site.function, -1, name, "assigned", leaves, hidden)
    parameter = _parameter(site, name)
    if parameter is None:
        return None
    return Hint(site.span_of(parameter), site.function, -1, name, "argument", leaves, hidden)


def _held(scope: Scope, name: str) -> object:
    return scope.locals.get(name, scope.globals.get(name))


def _parameter(site: Site, name: str) -> ast.arg | None:
    if site.definition is None:
        return None
    return next((arg for arg in _all_parameters(site.definition) if arg.arg == name), None)


def _all_parameters(definition: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    arguments = definition.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def argument_given(callee: Site, caller: Site, name: str) -> ast.expr | None:
    """What a call passes for a parameter. JAX's transformations keep the order of arguments; a function that is
    itself passed (to scan, say) gets arguments from elsewhere, so nothing is claimed.
    """
    call, definition = caller.node, callee.definition
    if not isinstance(call, ast.Call) or definition is None or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    order = [arg.arg for arg in (*definition.args.posonlyargs, *definition.args.args)]
    order = order[1:] if order[:1] == ["self"] else order
    if name not in order or len(call.args) > len(order) or _passes_functions(call, caller.scope):
        return None
    index = order.index(name)
    return call.args[index] if index < len(call.args) else None


def _passes_functions(call: ast.Call, scope: Scope) -> bool:
    return any(isinstance(arg, ast.Lambda) or callable(scope.get(arg)) for arg in call.args)
