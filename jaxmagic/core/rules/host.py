"""The old `host_callback`: what its calls are called today."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from jaxmagic.core.host_calls import Use
from jaxmagic.core.rules.calls import argument
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.rewrite import call, expression, text
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span

_LASTING = "jaxmagic brings `host_callback` back only while it is loaded; a script without it can't import the module."


@on_cell("host-callback-used", "note", "host_callback was called: JAX has other names for it today")
def host_callback_used(observed: Observed) -> Iterator[Cause]:
    """`jax.experimental.host_callback` was removed from JAX in 2024. While jaxmagic is loaded its calls work, over
    `io_callback` and `jax.debug.callback`. The fix is the same call in today's spelling.

    Sure: the call was made.
    """
    for use in dict.fromkeys(observed.host_calls):
        today = _today(use)
        yield Cause(
            title=f"host_callback.{use.function} is {today.name} today",
            explanation=f"{_LASTING} {today.difference}",
            span=use.span,
            evidence=(Evidence("The host function gets JAX arrays then: `np.asarray(x)` before computing with one."),)
            if use.function in ("call", "id_tap")
            else (),
            fix=today.fix,
            replaces=today.replaces,
        )


class _Today(NamedTuple):
    name: str
    difference: str
    fix: str = ""
    replaces: Span | None = None


def _today(use: Use) -> _Today:
    node = source.node_at(use.span)
    known = node if isinstance(node, ast.Call) else None
    match use.function:
        case "call":
            said = "It needs the type of its result beforehand, and can't be differentiated either."
            return _Today("jax.experimental.io_callback", said, *_call(use, known))
        case "id_tap":
            return _Today("jax.debug.callback", "It returns nothing: go on with the value itself.", *_tap(use, known))
        case "id_print":
            return _Today("jax.debug.print", "It returns nothing: go on with the value itself.", *_print(use, known))
    return _Today("jax.effects_barrier", "", "jax.effects_barrier()", use.span)


_Fix = tuple[str, Span | None]


def _call(use: Use, node: ast.Call | None) -> _Fix:
    function, value = _arguments(node)
    if node is None or function is None or value is None:
        return "", None
    shape = argument(node, 2, "result_shape")
    if shape is None:
        array = ast.unparse(value)
        simple = isinstance(value, ast.Name | ast.Attribute)
        like = f"jax.ShapeDtypeStruct({array}.shape, {array}.dtype)" if simple else f"jax.eval_shape(lambda: {array})"
        shape = expression(like)
    return text(call("jax.experimental.io_callback", function, shape, value)), use.span


def _tap(use: Use, node: ast.Call | None) -> _Fix:
    function, value = _arguments(node)
    if node is None or function is None or value is None:
        return "", None
    return _around(use, node, text(call("jax.debug.callback", function, value, ast.Tuple([], ast.Load()))), value)


def _print(use: Use, node: ast.Call | None) -> _Fix:
    value = argument(node, 0, "arg") if node is not None else None
    if node is None or value is None:
        return "", None
    pattern, values = [], []
    for keyword in node.keywords:
        if keyword.arg in ("result", "output_stream", "arg", None):
            continue
        literal = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        pattern.append(f"{keyword.arg}: {{}}" if literal is None else f"{keyword.arg}: {literal}")
        values += [keyword.value] if literal is None else []
    shown = call("jax.debug.print", ast.Constant("  ".join([*pattern, "{}"])), *values, value)
    return _around(use, node, text(shown), value)


def _arguments(node: ast.Call | None) -> tuple[ast.expr | None, ast.expr | None]:
    if node is None:
        return None, None
    return argument(node, 0, "callback_func", "tap_func"), argument(node, 1, "arg")


def _around(use: Use, node: ast.Call, today: str, value: ast.expr) -> _Fix:
    """The call in the place of its statement, whose value is what was tapped; where it is inside of more, none."""
    file = use.span.file
    statement = source.statement_at(file, use.span.line, use.span.column)
    result = ast.unparse(argument(node, len(node.args), "result") or value)
    match statement:
        case ast.Expr(value=whole) if span_of(file, whole) == use.span:
            return today, span_of(file, statement)
        case ast.Assign(value=whole, targets=[target]) if span_of(file, whole) == use.span:
            return f"{today}\n{ast.unparse(target)} = {result}", span_of(file, statement)
        case ast.Return(value=ast.expr() as whole) if span_of(file, whole) == use.span:
            return f"{today}\nreturn {result}", span_of(file, statement)
    return today, None
