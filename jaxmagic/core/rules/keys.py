"""Random keys that are used twice, or captured where a new one is needed at every call."""

import ast
from collections.abc import Iterator

import jax

from jaxmagic.core.rules.catalogue import Cause, on_cell, on_error
from jaxmagic.core.rules.contexts import Failing, Observed
from jaxmagic.core.rules.key_inputs import key_for_each
from jaxmagic.core.rules.key_returns import handed_back, module_of
from jaxmagic.core.rules.key_uses import Use, Walk, arguments_of, is_split, library_use, path_of
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import alias, replaced, text, with_parameters
from jaxmagic.core.rules.scopes import binder
from jaxmagic.core.source.nodes import loaded
from jaxmagic.core.source.spans import lines_of
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span

_MODELS = ("inference", "prediction")
_LOOPS = ("scan", "while", "fori_loop")
_REPEATING = ("vmap", *_LOOPS)
"""Transformations that run a function's operations more than once for one trace of it."""


@on_cell("key-reused", "wrong-result", "the same random key is used twice")
def key_reused(observed: Observed) -> Iterator[Cause]:
    """A key gives the same numbers every time it is used: weights and noise drawn from one key are identical, or at
    least dependent. Split it, and use each part once. Both kinds of keys are seen, `jax.random.key` and
    `jax.random.PRNGKey`; JAX's own checker knows the first only.

    Sure: both uses are calls of `jax.random`, layers of Equinox's that are made or drop out, or distributions of
    NumPyro's, on one path through one function (or one cell), and the key is not bound again in between; or a
    function draws from a key and returns it as it was, and is called with it again. Possible only, where a use is
    inside of a function that the key is passed to, is NumPyro's inference or prediction, or stands in an earlier
    cell: the cells are taken in the order they last ran. A function that is called twice with one key for the same
    randomness (a loss and its gradient, with and without jit, to take its time, the inference of two models) is not
    reported; `fold_in` and copies don't count.
    """
    files = (*observed.files, *(each.file for each in observed.earlier))
    if not any("random" in line for file in files for line in lines_of(file)):
        return
    before = Walk(Ran("", ast.Module([], []), "<module>", ()), observed)
    for file, tree in observed.earlier:
        before.piece = Ran(file, tree, "<module>", ())
        for _ in before.through(tree.body):
            pass
    for piece in ran(observed):
        top = isinstance(piece.node, ast.Module)
        walk = Walk(piece, observed, dict(before.used) if top else {}, known=before.known)
        dropped = {path_of(node.value.args[0]) for node in piece.own if _is_dropped(observed, piece, node)}  # pyright: ignore[reportAttributeAccessIssue]
        pairs = {(first.node, second.node): (first, second) for first, second in walk.through(piece.body)}
        for first, second in (*pairs.values(), *_carried(walk)):
            if path_of(first.key) not in dropped:
                yield _reused(first, second) if first.back is None else handed_back(first, second)


def _carried(walk: Walk) -> Iterator[tuple[Use, Use]]:
    """Keys that the body of a compiled loop draws from and hands to the next pass as they are."""
    piece = walk.piece
    inner = {call.transforms[0] for call in piece.calls if call.transforms}
    if not inner or not all(word.startswith(_LOOPS) for word in inner) or isinstance(piece.node, ast.Module):
        return
    carry = {arg.arg for arg in arguments_of(piece).args}
    for node in piece.own:
        match node:
            case ast.Return(value=ast.expr() as value):
                scan = any(word.startswith("scan") for word in inner)
                kept = value.elts[0] if scan and isinstance(value, ast.Tuple) and len(value.elts) == 2 else value
                for path, use in walk.used.items():
                    given = _is_given(piece, path, carry)
                    if given and path in loaded(kept) and not _in_a_call(kept, path):
                        yield use, use


def _is_given(piece: Ran, name: str, parameters: set[str]) -> bool:
    """Whether a name is a parameter, or taken out of one and not bound again."""
    stores = [node for node in piece.own if isinstance(node, ast.Assign) and name in _targets(node)]
    if not stores:
        return name in parameters
    return len(stores) == 1 and bool(loaded(stores[0].value) & parameters)


def _targets(node: ast.Assign) -> set[str]:
    return {part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)}


def _in_a_call(kept: ast.expr, name: str) -> bool:
    return any(name in loaded(node) for node in ast.walk(kept) if isinstance(node, ast.Call))


def _reused(first: Use, second: Use) -> Cause:
    where, piece, again = first.piece, second.piece, second.node
    name = text(first.key)
    there = (
        f"in an earlier cell (its line {first.node.lineno})"
        if where.file != piece.file
        else f"on line {first.node.lineno}"
    )
    now = "in every pass of the loop" if first is second else f"on line {again.lineno}"
    seen = _draws(first, "used") if first is second else (*_draws(first, "first use"), *_draws(second, "again"))
    fix, replaces = _fix(first)
    earlier = "" if where.file == piece.file else " Cells are taken in the order they last ran, which may be wrong."
    used = "used in the pass before" if first is second else f"that `{where.text(first.node)}` has used"
    return Cause(
        title=f"key `{name}` is used {there} and again {now}",
        explanation=f"`{piece.text(again)}` draws from a key {used}: the same key gives the same numbers. Split it "
        f"before each use.{earlier}",
        span=piece.span_of(again),
        evidence=tuple(seen),
        fix=fix,
        replaces=replaces,
        sure=where.file == piece.file and not any(use.function or use.kind in _MODELS for use in (first, second)),
    )


def _draws(use: Use, word: str) -> Iterator[Evidence]:
    """The call, and what draws in the function that it calls."""
    yield Evidence(f"{word}: {use.piece.text(use.node)}", use.piece.span_of(use.node))
    last = use.last
    if last is not use:
        yield Evidence(f"drawn there: {last.piece.text(last.node)}", last.piece.span_of(last.node))


def _fix(first: Use) -> tuple[str, Span | None]:
    """The statement of the first use, drawing from a part of the key; the rest goes on under the old name."""
    inside = first
    while inside.drawn is not None and isinstance(inside.key, ast.Attribute):
        inside = inside.drawn  # an object's own key is renewed where it is drawn from
    for node in inside.piece.own:
        if isinstance(node, ast.ListComp) and inside.node in ast.walk(node.elt):
            return _split_for_all(inside, node)
    return _split(inside)


def _split(use: Use) -> tuple[str, Span | None]:
    piece, key = use.piece, use.key
    statements = [node for node in piece.own if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Return)]
    statement = next((node for node in statements if use.node in ast.walk(node)), None)
    if statement is None or key not in ast.walk(statement) or isinstance(key, ast.Subscript):
        return "", None
    if any(isinstance(node, ast.Lambda) and use.node in ast.walk(node) for node in ast.walk(statement)):
        return "", None
    name = text(key)
    part = f"{name.rpartition('.')[2]}_1"
    drawn = replaced(statement, key, ast.Name(part, ast.Load()))
    return f"{name}, {part} = {module_of(use)}.split({name})\n{text(drawn)}", piece.span_of(statement)


def _split_for_all(use: Use, node: ast.ListComp) -> tuple[str, Span | None]:
    """`[normal(key, (n,)) for n in sizes]` with a part of the key for each."""
    (first, *more), name = node.generators, text(use.key)
    match first.iter:
        case _ if more or first.ifs or not isinstance(use.key, ast.Name):
            return "", None
        case ast.Call(func=ast.Name(id="range"), args=[count]):
            number = text(count)
        case ast.Tuple() | ast.List() | ast.Name() | ast.Attribute():
            number = f"len({text(first.iter)})"
        case _:
            return "", None
    part = f"{name}_1"
    element = replaced(node.elt, use.key, ast.Name(part, ast.Load()))
    pairs = f"zip({text(first.iter)}, {module_of(use)}.split({name}, {number}))"
    return f"[{text(element)} for {text(first.target)}, {part} in {pairs}]", use.piece.span_of(node)


@on_cell("key-dropped", "wrong-result", "the keys that split returns are not taken")
def key_dropped(observed: Observed) -> Iterator[Cause]:
    """`jax.random.split(key)` returns new keys and leaves `key` as it was, as all of JAX's functions do; so does
    `fold_in`. As a statement of its own it does nothing, and the next draw repeats the last.

    Sure: the statement ran, and its value is neither bound nor displayed.
    """
    for piece in ran(observed):
        for node in piece.own:
            if _is_dropped(observed, piece, node):
                assert isinstance(node, ast.Expr)
                assert isinstance(node.value, ast.Call)
                call, key = node.value, piece.text(node.value.args[0])
                shown = " ".join(piece.text(node).split())
                split = is_split(observed, piece, call)
                told = "Splitting returns new keys" if split else "`fold_in` returns a new key"
                bind = "Bind them: one to go on with, one to draw from." if split else "Bind it, and draw from it."
                name = path_of(call.args[0]) if isinstance(call.args[0], ast.Name | ast.Attribute) else ""
                part = f"{name.rpartition('.')[2]}_1"
                yield Cause(
                    title=f"`{shown}` leaves `{key}` as it was",
                    explanation=f"{told} and changes nothing. {bind}",
                    span=piece.span_of(node),
                    fix=_taken(name, part, call, shown, split=split) if name else "",
                    replaces=piece.span_of(node),
                )


def _taken(name: str, part: str, call: ast.Call, shown: str, *, split: bool) -> str:
    if not split:
        return f"{name} = {shown}"
    two = len(call.args) == 1 or (isinstance(call.args[1], ast.Constant) and call.args[1].value == 2)
    return f"{name}, {part} = {shown}" if two else f"{name}, *{part}s = {shown}"


def _is_dropped(observed: Observed, piece: Ran, node: ast.AST) -> bool:
    """A statement that is nothing but a `split` or `fold_in` of a key."""
    if not isinstance(node, ast.Expr) or (isinstance(piece.node, ast.Module) and node is piece.body[-1]):
        return False
    if not isinstance(node.value, ast.Call) or not node.value.args or not path_of(node.value.args[0]):
        return False
    return dotted(observed, piece, node.value.func) in ("jax.random.split", "jax.random.fold_in")


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
    made = [node.value for node in piece.own if isinstance(node, ast.Assign) and key.id in _targets(node)]
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


@on_error("key-used-twice", "JAX's key checker refused a key that was used before")
def key_used_twice(failing: Failing) -> Cause | None:
    """With `jax.debug_key_reuse(True)` JAX refuses a key that was consumed before. Its message names neither the
    variable nor the first use.

    Sure: JAX refused the key. The first use is the nearest call above that takes the same name.
    """
    if failing.kind != "KeyReuseError":
        return None
    node = failing.node
    key = node.args[0] if isinstance(node, ast.Call) and node.args else None
    name = failing.text(key) if key is not None else "the key"
    earlier = _earlier(failing, name)
    fix = ""
    if earlier is not None and isinstance(earlier[0], ast.Assign) and key is not None:
        statement, use = earlier
        drawn = replaced(statement, use.args[0], ast.Name(f"{name}_1", ast.Load()))
        fix = f"{name}, {name}_1 = {alias(failing.scope, 'jax')}.random.split({name})\n{text(drawn)}"
    return Cause(
        title=f"key `{name}` was used before",
        explanation="A key gives the same numbers every time. Split it before each use.",
        evidence=(Evidence(f"first use: {text(earlier[1])}", span_of(failing.site.file, earlier[1])),)
        if earlier
        else (),
        fix=fix,
        replaces=span_of(failing.site.file, earlier[0]) if earlier else None,
    )


def _earlier(failing: Failing, name: str) -> tuple[ast.stmt, ast.Call] | None:
    body = failing.site.definition or failing.site.tree
    found = None
    for statement in ast.walk(body) if body is not None else ():
        if isinstance(statement, ast.Assign | ast.Expr) and statement.lineno < failing.site.span.line:
            for call in ast.walk(statement):
                if isinstance(call, ast.Call) and call.args and text(call.args[0]) == name:
                    found = (statement, call)
    return found
