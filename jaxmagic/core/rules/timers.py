"""Other ways of taking the time than two readings of a clock: `with timer():`, `timeit`, `%timeit`, a decorator."""

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

from jaxmagic.core.lines.attributes import class_attribute
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.functions_called import function_behind, function_of, is_jitted
from jaxmagic.core.rules.ran import Ran, dotted
from jaxmagic.core.rules.scopes import binder
from jaxmagic.core.source import spans as source

Test = Callable[[Ran, ast.AST], bool]

_OPTIONS = re.compile(r"^(?:\s*-(?:[nr]\s*\d+|[a-zA-Z]+))*\s*")
_TIMEIT = ("timeit.timeit", "timeit.repeat", "timeit.Timer")


def timed_blocks(observed: Observed, piece: Ran, is_clock: Test, is_wait: Test) -> Iterator[ast.With]:
    """`with` statements whose manager is the user's, reads a clock and waits for nothing."""
    for node in piece.own:
        if isinstance(node, ast.With) and isinstance(node.items[0].context_expr, ast.Call):
            managers = list(_manager(observed, piece, node.items[0].context_expr.func))
            inside = [(each, part) for each in managers for part in ast.walk(each.node)]
            clocks = sum(is_clock(each, part) for each, part in inside)
            if clocks >= 2 and not any(is_wait(each, part) for each, part in inside):
                yield node


def _manager(observed: Observed, piece: Ran, function: ast.expr) -> Iterator[Ran]:
    """The generator, or the methods, of a context manager."""
    found = function_behind(observed, piece, function)
    if found is not None and found.name != "__init__":
        yield found
    elif isinstance(function, ast.Name):
        kind = observed.namespace.get(function.id)
        if not isinstance(kind, type):
            return
        for name in ("__enter__", "__exit__"):
            method = function_of(class_attribute(kind, name), name)
            yield from [method] if method is not None else []


def timed_code(observed: Observed, piece: Ran) -> Iterator[tuple[ast.Call, ast.expr, bool]]:
    """Calls that time a piece of code: what runs, and whether it stands in a string."""
    for node in piece.own:
        if isinstance(node, ast.Call) and dotted(observed, piece, node.func) in _TIMEIT and node.args:
            match node.args[0]:
                case ast.Lambda(body=body):
                    yield node, body, False
                case ast.Constant(value=str(code)) if (parsed := _expression(code)) is not None:
                    yield node, parsed, True
        elif isinstance(node, ast.Call) and (code := _magic(node)):
            parsed = _expression(code)
            if parsed is not None:
                yield node, parsed, True


def _magic(node: ast.Call) -> str:
    """`f(x)` of `%timeit -n 10 f(x)`."""
    match node:
        case ast.Call(
            func=ast.Attribute(attr="run_line_magic" | "run_cell_magic"),
            args=[ast.Constant(value="timeit" | "time"), *_, ast.Constant(value=str(code))],
        ):
            return _OPTIONS.sub("", code)
    return ""


def _expression(code: str) -> ast.expr | None:
    """The last thing that a piece of code computes."""
    try:
        last = ast.parse(code.strip()).body[-1:]
    except SyntaxError:
        return None
    found: Any = getattr(last[0], "value", None) if last else None
    return found if isinstance(found, ast.expr) else None


def decorates_jitted(observed: Observed, piece: Ran, function: ast.expr) -> bool:
    """Whether a wrapper calls the function that its decorator was given, and that was a jitted one."""
    outer = binder(piece, function.id) if isinstance(function, ast.Name) else None
    tree = source.tree(piece.file)
    if outer is None or tree is None or not isinstance(outer.node, ast.FunctionDef):
        return False
    home = Ran(piece.file, tree, "<module>", ())
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(decorator_list=[*around]):
                names = [each.id if isinstance(each, ast.Name) else "" for each in around]
                if outer.name in names and any(
                    "jax.jit" in (dotted(observed, home, part) for part in ast.walk(each))
                    for each in around[names.index(outer.name) + 1 :]
                ):
                    return True
            case ast.Call(func=ast.Name(id=name), args=[given]) if name == outer.name and is_jitted(observed, given):
                return True
    return False
