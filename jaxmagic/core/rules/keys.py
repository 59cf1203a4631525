"""Random keys that are used twice, and split keys that nobody takes."""

import ast
from collections.abc import Iterator

from jaxmagic.core.rules.catalogue import Cause, on_cell, on_error
from jaxmagic.core.rules.contexts import Failing, Observed
from jaxmagic.core.rules.key_returns import handed_back, module_of
from jaxmagic.core.rules.key_uses import COMPARED, LOOPS, Folded, Use, Walk, arguments_of, is_split, path_of
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import alias, replaced, text
from jaxmagic.core.source.nodes import loaded, stored
from jaxmagic.core.source.spans import lines_of
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span


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
    reported; `fold_in` and copies don't count, but a `fold_in` that gives the same key in every pass of a loop is said.
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
                yield _cause(first, second)


def _cause(first: Use, second: Use) -> Cause:
    if first.back is not None:
        return handed_back(first, second)
    return _folded_alike(first, first.folded) if first.folded is not None else _reused(first, second)


def _folded_alike(use: Use, folded: Folded) -> Cause:
    """A key made by `fold_in` of what doesn't change in the loop."""
    piece, made, count = use.piece, folded.made, _count_of(folded.loop)
    fix = text(replaced(made, made.args[1], ast.Name(count, ast.Load()))) if count and len(made.args) == 2 else ""
    return Cause(
        title=f"key `{text(use.key)}` is the same in every pass of the loop",
        explanation=f"`{piece.text(made)}` depends on nothing that changes in the loop, and `{piece.text(use.node)}` "
        "draws the same numbers each time. Fold in the number of the pass.",
        span=piece.span_of(use.node),
        evidence=(Evidence("made here, from the same key and number", piece.span_of(made)),),
        fix=fix,
        replaces=piece.span_of(made) if fix else None,
        sure=use.kind not in COMPARED,
    )


def _count_of(loop: ast.For | ast.While) -> str:
    """The variable that counts the passes."""
    match loop:
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"))):
            return name
        case ast.For(target=ast.Tuple(elts=[ast.Name(id=name), _]), iter=ast.Call(func=ast.Name(id="enumerate"))):
            return name
    return ""


def _carried(walk: Walk) -> Iterator[tuple[Use, Use]]:
    """Keys that the body of a compiled loop draws from and hands to the next pass as they are."""
    piece = walk.piece
    inner = {call.transforms[0] for call in piece.calls if call.transforms}
    if not inner or not all(word.startswith(LOOPS) for word in inner) or isinstance(piece.node, ast.Module):
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
    stores = [node for node in piece.own if isinstance(node, ast.Assign) and name in stored(*node.targets)]
    if not stores:
        return name in parameters
    return len(stores) == 1 and bool(loaded(stores[0].value) & parameters)


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
        sure=where.file == piece.file and not any(use.function or use.kind in COMPARED for use in (first, second)),
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
