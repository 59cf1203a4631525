"""Loops over single elements of an array, each of them an operation of its own on the device."""

import ast
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.exact import Exact
from jaxmagic.core.rules.functions_called import is_jitted, own_function
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import call, copied, text
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.core.source.nodes import is_definition, loaded, stored
from jaxmagic.records import Evidence

MANY = 100
"""Passes of a loop that are worth a finding."""
_FOLDS = ("sum", "max", "min", "any", "all")


@on_cell("element-loop", "slow", "a Python loop takes an array apart, one operation for each element")
def element_loop(observed: Observed) -> Iterator[Cause]:
    """Outside of jit each `x[i]` and each `x.at[i].set(v)` is sent to the device on its own: 10 to 100 microseconds,
    some thousand times what NumPy needs, and an update copies the whole array. Write the loop as array operations,
    with `jax.vmap` or `jax.lax.scan`; or convert to NumPy first, where the work is Python's anyway.

    Sure: of the number of passes, those of loops inside of loops multiplied, and that an element is taken in each.
    Loops that call a function of the user's or a jitted one are left alone: the element may be a small part of their
    work. Python's own `sum`, `max`, `min`, `any` and `all` take an array apart as well.
    """
    for piece in ran(observed):
        if not piece.compiled and not any(each.traced for each in piece.calls):
            found = [_slow(observed, piece, loop) for loop in _loops(piece)]
            yield from _one_of_a_nest([each for each in found if each is not None])
            yield from _folded(observed, piece)


class _Loop(NamedTuple):
    """A loop, or a comprehension, with the loops around it in the same function."""

    heads: tuple[tuple[ast.expr, ast.expr], ...]
    """Targets and what they run over, outermost first."""
    body: tuple[ast.AST, ...]
    """What runs in every pass, without the loops inside."""
    whole: tuple[ast.AST, ...]
    """The same with them."""

    @property
    def over(self) -> ast.expr:
        return self.heads[-1][1]

    @property
    def names(self) -> set[str]:
        return set(stored(*(target for target, _ in self.heads)))


def _loops(piece: Ran) -> Iterator[_Loop]:
    yield from _loops_in(piece.body, ())
    for node in piece.own:
        match node:
            case ast.ListComp(elt=elt) | ast.SetComp(elt=elt) | ast.GeneratorExp(elt=elt):
                if not any(each.ifs for each in node.generators):
                    yield _Loop(tuple((each.target, each.iter) for each in node.generators), (elt,), (elt,))


def _loops_in(block: Iterable[ast.stmt], heads: tuple[tuple[ast.expr, ast.expr], ...]) -> Iterator[_Loop]:
    for statement in block:
        if is_definition(statement):
            continue
        around = heads
        if isinstance(statement, ast.For):
            around = (*heads, (statement.target, statement.iter))
            own = tuple(each for each in statement.body if not isinstance(each, ast.For))
            yield _Loop(around, own, tuple(statement.body))
        for name in ("body", "orelse", "finalbody"):
            yield from _loops_in(getattr(statement, name, ()), around)


def _one_of_a_nest(found: list[tuple[_Loop, Cause]]) -> Iterator[Cause]:
    """The innermost of loops inside of each other."""
    for loop, cause in found:
        if not any(other.heads[: len(loop.heads)] == loop.heads and other is not loop for other, _ in found):
            yield cause


def _slow(observed: Observed, piece: Ran, loop: _Loop) -> tuple[_Loop, Cause] | None:
    shapes = Shapes(observed, piece)
    counts = [_passes(observed, piece, shapes, over) for _, over in loop.heads]
    passes, arrays = math.prod(count for count in counts if count), _arrays(shapes, loop.over)
    if not counts[-1] or passes < MANY or _has_other_work(observed, piece, loop.whole):
        return None
    element = next((node for node in _inside(loop) if _is_element(shapes, loop.names, node)), None)
    if element is None and not arrays:
        return None
    made: dict[int, ast.AST] = {id(each): call("np.asarray", each) for each in arrays}
    return loop, Cause(
        title=f"{passes:,} passes take one element each, as operations of their own",
        explanation="Outside of jit every element is fetched or updated by a program of its own, 10 to 100 µs each. "
        "Use array operations, `jax.vmap` or `jax.lax.scan`, or NumPy where the loop has to stay.",
        span=piece.span_of(loop.over),
        evidence=(Evidence(f"in every pass: {piece.text(element)}", piece.span_of(element)),) if element else (),
        fix=text(copied(loop.over, made)) if arrays else "",
        replaces=piece.span_of(loop.over),
    )


def _arrays(shapes: Shapes, over: ast.expr) -> list[ast.expr]:
    """The arrays of one axis that a loop runs over: itself, or within `enumerate`, `zip` and `reversed`."""
    match over:
        case ast.Name():
            sizes = shapes.sizes(over)
            return [over] if sizes is not None and len(sizes) == 1 else []
        case ast.Call(func=ast.Name(id="enumerate" | "zip" | "reversed"), args=args):
            return [array for each in args for array in _arrays(shapes, each)]
    return []


def _passes(observed: Observed, piece: Ran, shapes: Shapes, over: ast.expr) -> int:
    match over:
        case ast.Call(func=ast.Name(id="range"), args=bounds):
            exact = Exact(observed, piece)
            values = [exact.get(bound) for bound in bounds]
            if all(isinstance(value, int | np.integer) for value in values):
                return len(range(*(int(value) for value in values)))
    sizes = [shapes.sizes(array) for array in _arrays(shapes, over)]
    return min((size[0] for size in sizes if size), default=0)


def _inside(loop: _Loop) -> Iterator[ast.expr]:
    for statement in loop.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript):
                yield node


def _folded(observed: Observed, piece: Ran) -> Iterator[Cause]:
    """`sum(x)` of an array."""
    shapes = Shapes(observed, piece)
    for node in piece.own:
        match node:
            case ast.Call(func=ast.Name(id=name), args=[ast.Name() as array], keywords=[]) if name in _FOLDS:
                sizes = shapes.sizes(array) if name not in observed.namespace and name not in piece.local else None
                if sizes is not None and len(sizes) == 1 and sizes[0] >= MANY:
                    yield Cause(
                        title=f"Python's `{name}` takes {sizes[0]:,} elements one by one",
                        explanation=f"Outside of jit every step is a program of its own. `{array.id}.{name}()` is one "
                        "for all.",
                        span=piece.span_of(node),
                        fix=f"{array.id}.{name}()",
                        replaces=piece.span_of(node),
                    )


def _has_other_work(observed: Observed, piece: Ran, body: tuple[ast.AST, ...]) -> bool:
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and (
                is_jitted(observed, node.func)
                or own_function(observed, piece, node.func) is not None
                or dotted(observed, piece, node.func).startswith(("jax.lax.", "jax.grad", "jax.random."))
            ):
                return True
    return False


def _is_element(shapes: Shapes, names: set[str], node: ast.expr) -> bool:
    """Whether a single element is read or written, at a place that a loop's variable says."""
    if not isinstance(node, ast.Subscript):
        return False
    array = node.value.value if isinstance(node.value, ast.Attribute) and node.value.attr == "at" else node.value
    aval = shapes.aval(array)
    if aval is None or aval.dtype.startswith("key") or shapes.sizes(array) is None:
        return False
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    by_loop = bool(names & loaded(node.slice))
    whole = len(parts) == len(aval.shape) and not any(isinstance(part, ast.Slice) for part in parts)
    return by_loop and whole
