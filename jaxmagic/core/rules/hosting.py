"""Host callbacks that will not do what they look like: JAX inside of them, results dropped, exceptions renamed."""

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.equations import chosen
from jaxmagic.core.rules.functions_called import own_function
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.rewrite import copied, text
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.core.source.nodes import name_called
from jaxmagic.records import Evidence

_CALLBACKS = ("jax.pure_callback", "jax.debug.callback", "jax.experimental.io_callback")
_HARMLESS = ("jax.device_get", "jax.tree", "jax.debug", "jax.block_until_ready")
BRANCHING = ("jax.lax.cond", "jax.lax.switch")
_EFFECTS = (*_CALLBACKS[1:], "jax.debug.print")


class _Callback(NamedTuple):
    """A call that registers a function to be run on the host."""

    piece: Ran
    node: ast.Call
    kind: str
    function: Ran | None


def _callbacks(observed: Observed) -> Iterator[_Callback]:
    for piece in ran(observed):
        for node in piece.own:
            if isinstance(node, ast.Call) and node.args:
                kind = dotted(observed, piece, node.func)
                if kind in _CALLBACKS:
                    yield _Callback(piece, node, kind, own_function(observed, piece, node.args[0]))


@on_cell("jax-in-callback", "wrong-result", "a host callback calls JAX, which may hang")
def jax_in_callback(observed: Observed) -> Iterator[Cause]:
    """A callback runs while the device waits for it. JAX work inside of it waits for the device: on a machine with
    few cores, or with large arrays, neither goes on. JAX's documentation forbids it. Use NumPy; arguments arrive
    as JAX arrays, so that even `a + b` is JAX's work: convert them with `np.asarray` first.

    Sure: the function that is registered calls a function of JAX's. Whether it hangs depends on sizes and cores.
    """
    for callback in _callbacks(observed):
        own = callback.function
        calls = [node for node in _all(own) if _is_jax(observed, own, node)] if own is not None else []
        if own is not None and calls:
            shown = own.text(calls[0])
            yield Cause(
                title=f"`{own.name}` runs on the host and calls `{shown}`",
                explanation="A callback runs while the device waits for it; work of JAX's in it waits for the device. "
                "With large arrays or few cores this hangs. Use NumPy, and convert the arguments with "
                "`np.asarray` first.",
                span=own.span_of(calls[0]),
                evidence=(Evidence(f"registered here: {callback.kind}", callback.piece.span_of(callback.node)),),
                fix=_with_numpy(observed, own, calls),
                replaces=own.span_of(own.node),
            )


@on_cell("array-in-callback", "note", "a host callback computes with the JAX arrays that it was handed")
def array_in_callback(observed: Observed) -> Iterator[Cause]:
    """A host callback gets JAX arrays, so that an operator on them, even `a == b`, is work for the device, which waits
    for the callback: with large arrays or few cores neither goes on. `np.asarray(x)` first makes it NumPy's work.

    Sure: a parameter of the registered function is an operand, is more than one number, and was not converted. A note,
    since small arrays do no harm; a call of a function of JAX's own is `jax-in-callback`.
    """
    for callback in _callbacks(observed):
        own = callback.function
        if own is None or any(_is_jax(observed, own, node) for node in _all(own)):
            continue
        arrays = _arrays(observed, callback, own)
        found = next(((node, name) for node in own.own if (name := _operand(node, arrays))), None)
        if found is not None:
            node, name = found
            shown = " ".join(own.text(node).split())
            converted = _AsNumpy(name.id).visit(copied(node))
            yield Cause(
                title=f"`{shown}` in the callback `{own.name}` is computed by JAX",
                explanation=f"`{name.id}` arrives as a JAX array; a callback that gives the device work may wait for "
                f"ever. Convert it first: `np.asarray({name.id})`.",
                span=own.span_of(node),
                evidence=(Evidence(f"registered here: {callback.kind}", callback.piece.span_of(callback.node)),),
                fix=text(converted),
                replaces=own.span_of(node),
            )


class _AsNumpy(ast.NodeTransformer):
    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.parse(f"np.asarray({node.id})", mode="eval").body if node.id == self.name else node


def _arrays(observed: Observed, callback: _Callback, own: Ran) -> set[str]:
    """Parameters that are handed more than a single number, and are not bound anew."""
    assert not isinstance(own.node, ast.Module)
    stored = {each.id for each in own.own if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    names = [arg.arg for arg in own.node.args.args if arg.arg != "self"]
    given = callback.node.args[1 if callback.kind == "jax.debug.callback" else 2 :]
    shapes = Shapes(observed, callback.piece)
    avals = {name: shapes.aval(value) for name, value in zip(names, given, strict=False)}
    return {name for name, aval in avals.items() if aval is not None and aval.shape} - stored


def _operand(node: ast.AST, arrays: set[str]) -> ast.Name | None:
    """The parameter that an operator, or a method of arrays, is applied to as it came."""
    match node:
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            operands = [left, right]
        case ast.Call(func=ast.Attribute(value=owner, attr="sum" | "mean" | "max" | "min" | "dot" | "reshape")):
            operands = [owner]
        case _:
            return None
    return next((each for each in operands if isinstance(each, ast.Name) and each.id in arrays), None)


def _all(own: Ran | None) -> list[ast.Call]:
    return [node for node in own.own if isinstance(node, ast.Call)] if own is not None else []


def _is_jax(observed: Observed, own: Ran | None, node: ast.Call) -> bool:
    name = dotted(observed, own, node.func) if own is not None else ""
    return name.startswith("jax.") and not name.startswith(_HARMLESS)


def _with_numpy(observed: Observed, own: Ran, calls: list[ast.Call]) -> str:
    """The function with NumPy's twins in the place of `jax.numpy`; empty where one has none."""
    memo: dict[int, Any] = {}
    changed = copied(own.node, memo=memo)
    for node in calls:
        _, found, name = dotted(observed, own, node.func).partition("jax.numpy.")
        if not found or not _in_numpy(name):
            return ""
        memo[id(node)].func = ast.parse(f"np.{name}", mode="eval").body
    return text(changed)


def _in_numpy(name: str) -> bool:
    value: Any = np
    for part in name.split("."):
        value = getattr(value, part, None)
    return value is not None


@on_cell("callback-dropped", "wrong-result", "a pure_callback whose result is not used never runs")
def callback_dropped(observed: Observed) -> Iterator[Cause]:
    """`jax.pure_callback` promises a function without effects, so a call whose result is not used is left out of the
    program: it never runs, and the line that it should log or check is missing. `jax.debug.callback` and
    `io_callback` are kept for their effects.

    Sure: the call stands as a statement of its own, or its result is never read, in a compiled function.
    """
    for callback in _callbacks(observed):
        piece = callback.piece
        statement = next((each for each in piece.own if _drops(piece, each, callback.node)), None)
        if callback.kind == "jax.pure_callback" and piece.compiled and statement is not None:
            shown = piece.text(callback.node.args[0])
            given = [callback.node.args[0], *callback.node.args[2:]]
            keeps = ast.Call(ast.parse("jax.debug.callback", mode="eval").body, given, [])
            yield Cause(
                title=f"`{shown}` never runs: the result of this pure_callback is not used",
                explanation="A pure callback has no effects by definition, so one without a reader is dropped when the "
                "program is compiled. Use the result, or `jax.debug.callback` if the effect is what counts.",
                span=piece.span_of(callback.node),
                fix=text(keeps),
                replaces=piece.span_of(statement),
            )


def _drops(piece: Ran, statement: ast.AST, node: ast.Call) -> bool:
    match statement:
        case ast.Expr(value=value):
            return value is node
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is node:
            loads = (each for each in ast.walk(piece.node) if isinstance(each, ast.Name))
            return not any(each.id == name and isinstance(each.ctx, ast.Load) for each in loads)
    return False


@on_cell("except-never-matches", "wrong-result", "an except clause waits for an exception that a callback raises")
def except_never_matches(observed: Observed) -> Iterator[Cause]:
    """An exception that a host callback raises reaches the program as a `JaxRuntimeError`, its own type only a line
    in the text, and often at a later line: where the result is waited for. An `except` clause with the
    exception's own class never matches.

    Sure: the clause names a class that a registered callback raises, and the `try` does not raise it otherwise.
    """
    raised = {name: (callback, node) for callback in _callbacks(observed) for name, node in _raises(callback.function)}
    for piece in ran(observed) if raised else ():
        for handler in piece.own:
            if isinstance(handler, ast.ExceptHandler) and isinstance(handler.type, ast.Name):
                name = handler.type.id
                if name in raised and raised[name][0].function is not None:
                    yield _never_matches(piece, handler, handler.type, *raised[name])


@on_cell("callback-raises", "note", "a host callback raises an exception that arrives as another, and later")
def callback_raises(observed: Observed) -> Iterator[Cause]:
    """What a host callback raises becomes a `JaxRuntimeError` whose text is a traceback from the inside of JAX; the
    exception's own class and message are its last line. It surfaces where something waits for the result, which
    may be lines below the call, or another cell.

    Sure: a registered callback has a `raise`. Whether it is reached is not looked at.
    """
    seen = set()
    for callback in _callbacks(observed) if observed.failure is None else ():
        for name, node in _raises(callback.function):
            if callback.function is not None and (name, node) not in seen:
                seen.add((name, node))
                yield _renamed(name, node, callback, callback.function)


def _renamed(name: str, node: ast.Raise, callback: _Callback, function: Ran) -> Cause:
    return Cause(
        title=f"{name} from the callback `{function.name}` arrives as a JaxRuntimeError",
        explanation=f"`{function.text(node)}` runs on the host. The program is ended with a JaxRuntimeError where "
        "something waits for its result, perhaps lines below the call; its last line has the class and message. "
        "Wait with `jax.block_until_ready` inside of the `try`.",
        span=function.span_of(node),
        evidence=(Evidence("registered here", callback.piece.span_of(callback.node)),),
    )


def _raises(function: Ran | None) -> Iterator[tuple[str, ast.Raise]]:
    for node in function.own if function is not None else ():
        match node:
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name)) | ast.Name(id=name)):
                yield name, node


def _never_matches(piece: Ran, handler: ast.ExceptHandler, kind: ast.Name, callback: _Callback, node: Any) -> Cause:
    function = callback.function
    assert function is not None
    return Cause(
        title=f"`except {kind.id}` never matches: the callback's exception arrives as a JaxRuntimeError",
        explanation=f"`{function.name}` raises {kind.id} on the host; what reaches this line is a "
        "`jax.errors.JaxRuntimeError` with its text, perhaps lines later, where the result is waited for. Catch that, "
        "after `jax.block_until_ready`, or return a flag and raise outside.",
        span=piece.span_of(kind),
        evidence=(
            Evidence(f"raised here, in `{function.name}`", function.span_of(node)),
            Evidence("registered here", callback.piece.span_of(callback.node)),
        ),
        fix="jax.errors.JaxRuntimeError",
        replaces=piece.span_of(kind),
    )


@on_cell("effect-in-every-lane", "wrong-result", "a guarded print or callback runs for every example under vmap")
def effect_in_every_lane(observed: Observed) -> Iterator[Cause]:
    """Under vmap a `cond` with a batched predicate becomes a `select`: both branches run for all examples, and with
    them their prints and callbacks. A line that should appear for one bad example appears for all. Decide inside
    the callback, on the host.

    Sure: the predicate was batched when the line ran, or the program has the effect without the branch.
    """
    for piece in ran(observed):
        mapped = any(word.startswith("vmap") for call in piece.calls for word in call.transforms)
        for node in piece.own if mapped else ():
            if isinstance(node, ast.Call) and dotted(observed, piece, node.func) in BRANCHING:
                effect = effect_in(observed, piece, node)
                batched = effect is not None and is_batched(observed, piece, node.args[0])
                if effect is not None and (batched or _runs_unasked(observed, piece, node, effect)):
                    yield _every_lane(piece, node, effect)


def _runs_unasked(observed: Observed, piece: Ran, node: ast.Call, effect: ast.Call) -> bool:
    """Whether a program has the effect that stands in a branch, and a choice in the place of the branching."""
    inside = piece.span_of(effect)
    return any(places[0] == inside for found in chosen(observed, piece.span_of(node)) for _, places in found)


def effect_in(observed: Observed, piece: Ran, node: ast.Call) -> ast.Call | None:
    """A print or a callback in a branch of a `cond`."""
    for branch in node.args[1:3]:
        own = own_function(observed, piece, branch)
        for each in _all(own):
            if own is not None and dotted(observed, own, each.func) in _EFFECTS:
                return each
    return None


def is_batched(observed: Observed, piece: Ran, predicate: ast.expr) -> bool:
    """Whether an expression differs from example to example."""
    names = {part.id for part in ast.walk(predicate) if isinstance(part, ast.Name)}
    return any(
        leaf.lanes
        for hint in observed.hints
        if hint.name in names and (hint.function, hint.span.file) == (piece.name, piece.file)
        for leaf in hint.leaves
    )


def _every_lane(piece: Ran, node: ast.Call, effect: ast.Call) -> Cause:
    return Cause(
        title=f"under vmap `{name_called(effect)}` in this {name_called(node)} runs for every example",
        explanation=f"`{piece.text(node.args[0])}` differs from example to example, so both branches are computed for "
        "all of them and the right result is selected; effects happen in both. Hand the predicate to the callback and "
        "decide there, or map with `jax.lax.map`.",
        span=piece.span_of(node),
        evidence=(Evidence(f"runs whatever the predicate is: {piece.text(effect)}", piece.span_of(effect)),),
        fix=_decided_on_the_host(node),
        replaces=piece.span_of(node),
    )


def _decided_on_the_host(node: ast.Call) -> str:
    """`cond(p, lambda v: debug.print(…, v), lambda v: None, x)` as a callback that looks at the predicate."""
    match node.args:
        case [predicate, ast.Lambda() as printing, ast.Lambda(body=ast.Constant(value=None)), *operands]:
            names = [each.arg for each in printing.args.args]
            told, shown = _format(printing.body)
            if told and len(names) == len(operands):
                printed = f"print({told}.format({', '.join(shown)})) if wanted else None"
                given = ", ".join(map(text, [predicate, *operands]))
                return f"jax.debug.callback(lambda wanted, {', '.join(names)}: {printed}, {given})"
    return ""


def _format(node: ast.expr) -> tuple[str, list[str]]:
    """The pattern and the values of a `jax.debug.print`."""
    match node:
        case ast.Call(args=[ast.Constant(value=str()) as told, *values], keywords=[]):
            return text(told), list(map(text, values))
    return "", []
