"""Random keys that a compiled function captures, where a new one is needed at every call."""

import ast
from collections.abc import Iterator

import jax

from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.key_inputs import key_for_each
from jaxmagic.core.rules.key_returns import module_of
from jaxmagic.core.rules.key_uses import LOOPS, Use, arguments_of, library_use
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import text, with_parameters
from jaxmagic.core.rules.scopes import binder
from jaxmagic.core.source.nodes import stored
from jaxmagic.records import Evidence, Span

_REPEATING = ("vmap", *LOOPS)
"""Transformations that run a function's operations more than once for one trace of it."""


@on_cell("key-captured", "wrong-result", "a compiled function uses a random key from outside")
def key_captured(observed: Observed) -> Iterator[Cause]:
    """A function under jit, vmap or scan that reads a key from outside has it as a constant: the same dropout mask
    at every step, and for every example of a batch. Assigning a new key to the variable changes nothing. Take the
    key as an argument, and split it for each step and each example.

    Sure: the key is not the function's own (a global, a variable of a function around it that is not traced itself,
    or an attribute of an object that is no argument), and a call of `jax.random` uses it. Possible only, where the
    key is made of a constant seed inside of the function, and the noise has the shape of an argument.
    """
    for piece in ran(observed):
        for node in piece.own if _is_transformed(piece) else ():
            key = library_use(observed, piece, node)
            if key is None:
                continue
            assert isinstance(node, ast.Call)
            if _is_from_outside(observed, piece, key):
                yield _captured(observed, piece, node, key)
            elif (made := _constant_seed(observed, piece, key)) and _is_noise(observed, piece, node):
                yield _seeded(piece, node, made)


def _is_from_outside(observed: Observed, piece: Ran, key: ast.expr) -> bool:
    if isinstance(key, ast.Name):
        return _is_outer_key(observed, piece, key.id)
    return isinstance(key, ast.Attribute) and _is_held(observed, piece, key)


def _is_transformed(piece: Ran) -> bool:
    return piece.compiled or any(word.startswith("vmap") for call in piece.calls for word in call.transforms)


def _is_outer_key(observed: Observed, piece: Ran, name: str) -> bool:
    """Whether a name from outside holds a key that is the same for every run of the function."""
    if name in piece.local | piece.shared:
        return False
    outer = binder(piece, name)
    if outer is None:
        return _is_key(observed.namespace.get(name))
    known = next((each for each in ran(observed) if each.node is outer.node), None)
    traced = known is not None and any(call.traced for call in known.calls)
    # The variables of a function that is being recorded itself stand in the namespace.
    named = not traced and _is_key(observed.namespace.get(name))
    if known is None or not _held_a_key(observed, known, name):
        return named
    # The key of a traced function is an argument there: only what repeats inside of that trace repeats the draw.
    repeats = _REPEATING if traced else (*_REPEATING, "jit")
    return any(word.startswith(repeats) for words in _added(piece, known) for word in words)


def _added(piece: Ran, outer: Ran) -> Iterator[tuple[str, ...]]:
    """The transformations that a function ran under and the function around it did not."""
    for call in piece.calls:
        ends = [each.transforms for each in outer.calls]
        added = [call.transforms[: len(call.transforms) - len(end)] for end in ends if _ends(call.transforms, end)]
        if added:
            yield min(added, key=len)


def _ends(words: tuple[str, ...], end: tuple[str, ...]) -> bool:
    return words[len(words) - len(end) :] == end


def _held_a_key(observed: Observed, piece: Ran, name: str) -> bool:
    avals = [
        leaf.aval
        for hint in observed.hints
        if (hint.function, hint.span.file, hint.name) == (piece.name, piece.file, name)
        for leaf in hint.leaves
    ]
    return any(aval.dtype.startswith("key") or (aval.dtype, aval.shape[-1:]) == ("uint32", (2,)) for aval in avals)


def _is_held(observed: Observed, piece: Ran, key: ast.Attribute) -> bool:
    """Whether `self.key` is an attribute of an object that was not traced itself."""
    match key:
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            leaves = [
                leaf
                for hint in observed.hints
                if (hint.function, hint.span.file, hint.name) == (piece.name, piece.file, owner)
                for leaf in hint.leaves
                if leaf.path == f".{name}"
            ]
            return bool(leaves) and all(leaf.kind == "array" for leaf in leaves)
    return False


def _constant_seed(observed: Observed, piece: Ran, key: ast.expr) -> ast.Call | None:
    """`jax.random.key(0)`, where a key is made so in the function that draws from it."""
    if not isinstance(key, ast.Name) or not piece.compiled:
        return None
    made = [node.value for node in piece.own if isinstance(node, ast.Assign) and key.id in stored(*node.targets)]
    match made:
        case [ast.Call(args=[ast.Constant()]) as call]:
            known = dotted(observed, piece, call.func) in ("jax.random.key", "jax.random.PRNGKey")
            return call if known else None
    return None


def _is_noise(observed: Observed, piece: Ran, node: ast.Call) -> bool:
    """Whether the shape is that of an argument, and a program with it ran more than once."""
    parameters = {arg.arg for arg in ast.walk(arguments_of(piece)) if isinstance(arg, ast.arg)}
    shapes = [
        each for each in (*node.args[1:], *(word.value for word in node.keywords)) if _is_shape_of(each, parameters)
    ]
    runs = sum(
        trace.calls for one in observed.compiled if one.span == piece.span_of(piece.node) for trace in one.traces
    )
    return bool(shapes) and runs > 1


def _is_shape_of(node: ast.expr, names: set[str]) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="shape"):
            return name in names
    return False


def _seeded(piece: Ran, node: ast.Call, made: ast.Call) -> Cause:
    fix, replaces = _without(piece, made)
    return Cause(
        title=f"`{piece.name}` makes its key of a constant: the same numbers at every call",
        explanation=f"`{piece.text(made)}` is the same key each time, so `{piece.text(node)}` gives the same numbers. "
        "Take the key as an argument; split it for each step.",
        span=piece.span_of(node),
        evidence=(Evidence(f"made here: {piece.text(made)}", piece.span_of(made)),),
        fix=fix,
        replaces=replaces,
        sure=False,
    )


def _without(piece: Ran, made: ast.Call) -> tuple[str, Span | None]:
    """The header with the key as a parameter, in the place of it and of the line that makes the key."""
    match piece.body:
        case [ast.Assign(targets=[ast.Name(id=name)], value=value) as first, _, *_] if value is made:
            fix, header = _as_argument(piece, name)
            end = piece.span_of(first)
            return fix, header and Span(header.file, header.line, header.column, end.end_line, end.end_column)
    return "", None


def _captured(observed: Observed, piece: Ran, node: ast.Call, key: ast.expr) -> Cause:
    name = text(key)
    jitted = not any(word.startswith(_REPEATING) for call in piece.calls for word in call.transforms[:1])
    fix, replaces = "", None
    if isinstance(key, ast.Name):
        random = module_of(Use(piece, node, key))
        fix, replaces = _as_argument(piece, name) if jitted else key_for_each(observed, piece, node, key, random)
    return Cause(
        title=f"`{piece.name}` draws from `{name}`, a key from outside",
        explanation=f"The key is a constant of the compiled program: `{piece.text(node)}` gives the same numbers at "
        "every call, and for every example under vmap. Take the key as an argument; split it for each step, and for "
        "each example with `jax.random.split(key, n)`.",
        span=piece.span_of(node),
        fix=fix,
        replaces=replaces,
    )


def _as_argument(piece: Ran, name: str) -> tuple[str, Span | None]:
    """The header of the function with the key as a parameter."""
    if isinstance(piece.node, ast.FunctionDef) and piece.node.body[0].lineno > piece.node.lineno:
        return with_parameters(piece.file, piece.node, [name])
    return "", None


def _is_key(value: object) -> bool:
    if not isinstance(value, jax.Array):
        return False
    return str(value.dtype).startswith("key<") or (value.shape[-1:] == (2,) and str(value.dtype) == "uint32")
