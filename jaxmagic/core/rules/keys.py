"""Random keys that are used twice, or captured where a new one is needed at every call."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

import jax

from jaxmagic.core.rules.catalogue import Cause, on_cell, on_error
from jaxmagic.core.rules.contexts import Failing, Observed
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import alias, replaced, text
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import stored
from jaxmagic.core.source.spans import lines_of
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span

_NOT_A_USE = ("key", "PRNGKey", "fold_in", "wrap_key_data", "key_data", "clone", "key_impl", "default_prng_impl")


def _use(observed: Observed, piece: Ran, node: ast.AST) -> ast.Name | None:
    """The name of the key that a call of `jax.random` consumes."""
    if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Name):
        return None
    name = dotted(observed, piece, node.func)
    used = name.startswith("jax.random.") and name.rpartition(".")[2] not in _NOT_A_USE
    return node.args[0] if used else None


_Use = tuple[Ran, ast.Call]
"""A call that consumes a key, and the code that it stands in."""


@dataclass
class _Path:
    """Keys consumed on the way to a statement, with the call that did."""

    piece: Ran
    observed: Observed
    used: dict[str, _Use] = field(default_factory=dict)

    def through(self, block: list[ast.stmt]) -> Iterator[tuple[_Use, _Use]]:
        """Pairs of calls that consume the same key, in the order they run."""
        for statement in block:
            yield from self._statement(statement)

    def _statement(self, statement: ast.stmt) -> Iterator[tuple[_Use, _Use]]:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        yield from self._uses(statement)
        for name in stored(*_bound(statement)):
            self.used.pop(name, None)
        if isinstance(statement, ast.For | ast.While):
            yield from self._loop(statement)
        elif isinstance(statement, ast.If):
            yield from self._either(statement)
        else:
            for block in (getattr(statement, name, []) for name in ("body", "orelse", "finalbody")):
                yield from self.through(block)

    def _uses(self, statement: ast.stmt) -> Iterator[tuple[_Use, _Use]]:
        if isinstance(statement, ast.Expr) and _is_split(self.observed, self.piece, statement.value):
            return  # its result is dropped, which is a finding of its own
        for node in _evaluated(statement):
            key = _use(self.observed, self.piece, node)
            if key is not None and isinstance(node, ast.Call):
                first = self.used.setdefault(key.id, (self.piece, node))
                if first[1] is not node:
                    yield first, (self.piece, node)

    def _loop(self, loop: ast.For | ast.While) -> Iterator[tuple[_Use, _Use]]:
        """A key from outside that the body uses and does not replace is used again in the next pass."""
        before = dict(self.used)
        yield from self.through(loop.body)
        renewed = stored(*loop.body)
        for name, use in list(self.used.items()):
            if name not in before and name not in renewed and name not in stored(*_bound(loop)):
                yield use, use

    def _either(self, choice: ast.If) -> Iterator[tuple[_Use, _Use]]:
        before = dict(self.used)
        yield from self.through(choice.body)
        after, self.used = self.used, before
        yield from self.through(choice.orelse)
        ends = bool(choice.body) and isinstance(choice.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
        self.used = self.used if ends else after | self.used


def _bound(statement: ast.stmt) -> list[ast.expr]:
    match statement:
        case ast.Assign(targets=targets):
            return targets
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target) | ast.For(target=target):
            return [target]
    return []


def _evaluated(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions a statement evaluates itself, without its blocks and without lambdas."""
    waiting: list[ast.AST] = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    while waiting:
        node = waiting.pop(0)
        if not isinstance(node, ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp):
            yield node
            waiting += ast.iter_child_nodes(node)


@on_cell("key-reused", "wrong-result", "the same random key is used twice")
def key_reused(observed: Observed) -> Iterator[Cause]:
    """A key gives the same numbers every time it is used: weights and noise drawn from one key are identical, or at
    least dependent. Split it, and use each part once. Both kinds of keys are seen, `jax.random.key` and
    `jax.random.PRNGKey`; JAX's own checker knows the first only.

    Sure: both uses are calls of `jax.random` on one path through one function (or one cell), and the name is not
    bound again in between. Possible only, where the first use is in an earlier cell: the cells are taken in the
    order they last ran. Uses by other functions are not followed, `fold_in` and copies don't count.
    """
    for piece in ran(observed):
        path = _Path(piece, observed)
        if isinstance(piece.node, ast.Module) and "random" in "".join(lines_of(piece.file)):
            path.used = _used_before(observed)
        for first, second in path.through(piece.body):
            yield _reused(first, second)


def _used_before(observed: Observed) -> dict[str, _Use]:
    """Keys that earlier cells have consumed and not renewed."""
    path = _Path(Ran("", ast.Module([], []), "<module>", ()), observed)
    for file in observed.earlier:
        tree = source.tree(file)
        if tree is not None:
            path.piece = Ran(file, tree, "<module>", ())
            for _ in path.through(tree.body):
                pass
    return path.used


def _reused(first: _Use, second: _Use) -> Cause:
    (where, before), (piece, again) = first, second
    name = text(before.args[0])
    there = f"in an earlier cell (its line {before.lineno})" if where.file != piece.file else f"on line {before.lineno}"
    now = "in every pass of the loop" if before is again else f"on line {again.lineno}"
    fix, replaces = _split(where, before) if before is not again else ("", None)
    return Cause(
        title=f"key `{name}` is used {there} and again {now}",
        explanation=f"`{piece.text(again)}` draws from a key that `{where.text(before)}` has used: the same "
        "key gives the same numbers. Split it before each use."
        + ("" if where.file == piece.file else " Cells are taken in the order they last ran, which may be wrong."),
        span=piece.span_of(again),
        evidence=(
            Evidence(f"first use: {where.text(before)}", where.span_of(before)),
            Evidence(f"again: {piece.text(again)}", piece.span_of(again)),
        ),
        fix=fix,
        replaces=replaces,
        sure=where.file == piece.file,
    )


@on_cell("key-dropped", "wrong-result", "the keys that split returns are not taken")
def key_dropped(observed: Observed) -> Iterator[Cause]:
    """`jax.random.split(key)` returns new keys and leaves `key` as it was, as all of JAX's functions do. As a
    statement of its own it does nothing, and the next draw repeats the last.

    Sure: the statement ran, and its value is neither bound nor displayed.
    """
    for piece in ran(observed):
        for node in piece.own:
            if isinstance(node, ast.Expr) and not (isinstance(piece.node, ast.Module) and node is piece.body[-1]):
                key = _use(observed, piece, node.value)
                if key is not None and _is_split(observed, piece, node.value):
                    yield Cause(
                        title=f"`{piece.text(node)}` leaves `{key.id}` as it was",
                        explanation="Splitting returns new keys and changes nothing. Bind them: one to go on with, one "
                        "to draw from.",
                        span=piece.span_of(node),
                        fix=f"{key.id}, {key.id}_1 = {piece.text(node)}",
                        replaces=piece.span_of(node),
                    )


def _is_split(observed: Observed, piece: Ran, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and dotted(observed, piece, node.func) == "jax.random.split"


def _split(piece: Ran, first: ast.Call) -> tuple[str, Span | None]:
    """The statement of the first use, drawing from a part of the key; the rest goes on under the old name."""
    statement = next(
        (node for node in piece.own if isinstance(node, ast.Assign | ast.Expr) and first in list(ast.walk(node))),
        None,
    )
    if statement is None:
        return "", None
    name = text(first.args[0])
    drawn = replaced(statement, first.args[0], ast.Name(f"{name}_1", ast.Load()))
    return f"{name}, {name}_1 = jax.random.split({name})\n{text(drawn)}", piece.span_of(statement)


@on_cell("key-captured", "wrong-result", "a compiled function uses a random key from outside")
def key_captured(observed: Observed) -> Iterator[Cause]:
    """A function under jit, vmap or scan that reads a key from outside has it as a constant: the same dropout mask
    at every step, and for every example of a batch. Assigning a new key to the variable changes nothing. Take the
    key as an argument, and split it for each step and each example.

    Sure: the name is not the function's own, its value is a key, and a call of `jax.random` uses it.
    """
    for piece in ran(observed):
        mapped = any(word.startswith("vmap") for call in piece.calls for word in call.transforms)
        if not piece.compiled and not mapped:
            continue
        own = piece.local | piece.shared
        for node in piece.own:
            key = _use(observed, piece, node)
            if key is not None and key.id not in own and _is_key(observed.namespace.get(key.id)):
                yield _captured(piece, node, key.id)


def _captured(piece: Ran, node: ast.AST, name: str) -> Cause:
    fix, replaces = "", None
    if isinstance(piece.node, ast.FunctionDef):
        arguments = ", ".join([*(arg.arg for arg in piece.node.args.args), name])
        first = piece.node.body[0]
        line = piece.node.lineno
        if first.lineno > line:
            fix, replaces = f"def {piece.node.name}({arguments}):", _header(piece, piece.node)
    return Cause(
        title=f"`{piece.name}` draws from `{name}`, a key from outside",
        explanation=f"The key is a constant of the compiled program: `{piece.text(node)}` gives the same numbers at "
        "every call, and for every example under vmap. Take the key as an argument; split it for each step, and for "
        "each example with `jax.random.split(key, n)`.",
        span=piece.span_of(node),
        fix=fix,
        replaces=replaces,
    )


def _header(piece: Ran, node: ast.FunctionDef) -> Span:
    ends = [arg.end_lineno or node.lineno for arg in ast.walk(node.args) if isinstance(arg, ast.arg)]
    line = max([node.lineno, *ends])
    last = lines_of(piece.file)[line - 1].encode().rstrip()
    return Span(piece.file, node.lineno, node.col_offset, line, len(last))


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
