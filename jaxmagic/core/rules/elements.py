"""Loops over single elements of an array, each of them an operation of its own on the device."""

import ast
from collections.abc import Iterator

import numpy as np

from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.exact import Exact
from jaxmagic.core.rules.functions_called import is_jitted, own_function
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import text
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.records import Evidence

MANY = 100
"""Passes of a loop that are worth a finding."""


@on_cell("element-loop", "slow", "a Python loop takes an array apart, one operation for each element")
def element_loop(observed: Observed) -> Iterator[Cause]:
    """Outside of jit each `x[i]` and each `x.at[i].set(v)` is sent to the device on its own: 10 to 100 microseconds,
    some thousand times what NumPy needs, and an update copies the whole array. Write the loop as array operations,
    with `jax.vmap` or `jax.lax.scan`; or convert to NumPy first, where the work is Python's anyway.

    Sure: of the number of passes and that an element is taken in each. Loops that call a function of the user's
    or a jitted one are left alone: the element may be a small part of their work.
    """
    for piece in ran(observed):
        if not piece.compiled and not any(call.traced for call in piece.calls):
            for loop in piece.own:
                if isinstance(loop, ast.For):
                    yield from _slow(observed, piece, loop)


def _slow(observed: Observed, piece: Ran, loop: ast.For) -> Iterator[Cause]:
    shapes = Shapes(observed, piece)
    whole = shapes.sizes(loop.iter) if isinstance(loop.iter, ast.Name) else None
    passes = whole[0] if whole is not None and len(whole) == 1 else _passes(observed, piece, loop)
    if passes < MANY or _has_other_work(observed, piece, loop):
        return
    element = next((node for node in _inside(loop) if _is_element(shapes, loop, node)), None)
    if element is None and not whole:
        return
    fix = f"np.asarray({text(loop.iter)})" if whole else ""
    yield Cause(
        title=f"{passes:,} passes take one element each, as operations of their own",
        explanation="Outside of jit every element is fetched or updated by a program of its own, 10 to 100 µs each. "
        "Use array operations, `jax.vmap` or `jax.lax.scan`, or NumPy where the loop has to stay.",
        span=piece.span_of(loop.iter),
        evidence=(Evidence(f"in every pass: {piece.text(element)}", piece.span_of(element)),) if element else (),
        fix=fix,
        replaces=piece.span_of(loop.iter),
    )


def _passes(observed: Observed, piece: Ran, loop: ast.For) -> int:
    match loop.iter:
        case ast.Call(func=ast.Name(id="range"), args=bounds):
            exact = Exact(observed, piece)
            values = [exact.get(bound) for bound in bounds]
            if all(isinstance(value, int | np.integer) for value in values):
                return len(range(*(int(value) for value in values)))
    return 0


def _inside(loop: ast.For) -> Iterator[ast.expr]:
    for statement in loop.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript):
                yield node


def _has_other_work(observed: Observed, piece: Ran, loop: ast.For) -> bool:
    for statement in loop.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and (
                is_jitted(observed, node.func)
                or own_function(observed, piece, node.func) is not None
                or dotted(observed, piece, node.func).startswith(("jax.lax.", "jax.grad", "jax.random."))
            ):
                return True
    return False


def _is_element(shapes: Shapes, loop: ast.For, node: ast.expr) -> bool:
    """Whether a single element is read or written, at a place that the loop's variable says."""
    if not isinstance(node, ast.Subscript) or not isinstance(loop.target, ast.Name):
        return False
    name = loop.target.id
    array = node.value.value if isinstance(node.value, ast.Attribute) and node.value.attr == "at" else node.value
    aval = shapes.aval(array)
    if aval is None or aval.dtype.startswith("key") or shapes.sizes(array) is None:
        return False
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    by_loop = any(isinstance(part, ast.Name) and part.id == name for each in parts for part in ast.walk(each))
    whole = len(parts) == len(aval.shape) and not any(isinstance(part, ast.Slice) for part in parts)
    return by_loop and whole
