"""A captured key as an input of each pass or example: `split` for what is mapped, `fold_in` by the number of a pass."""

import ast
from collections.abc import Iterator

from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.ran import Ran, dotted
from jaxmagic.core.rules.rewrite import Edit, merged, replaced, text
from jaxmagic.core.rules.scopes import binder
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import path_to
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Span

Fix = tuple[str, Span | None]
Function = ast.FunctionDef | ast.Lambda


def key_for_each(observed: Observed, piece: Ran, draw: ast.Call, key: ast.Name, random: str) -> Fix:
    """A key of its own for each pass of the loop, or each example, that the function is run for; empty if unsure."""
    tree = source.tree(piece.file)
    if tree is None or not isinstance(piece.node, Function) or _is_odd(piece.node):
        return "", None
    users = list(_users(tree, piece.node))
    if len(users) != 1:
        return "", None
    user, home = users[0], Ran(piece.file, tree, "<module>", ())
    around = Ran(piece.file, _function_around(tree, user), "", ())
    if not _is_seen(piece, around, key.id):
        return "", None
    arguments, where = piece.node.args.args, dotted(observed, home, user.func)
    match where, user.args, len(arguments):
        case "jax.lax.fori_loop", _, 2:
            return _folded(piece, draw, key, random, arguments[0].arg)
        case "jax.lax.scan", [_, _, ast.Call(func=ast.Attribute(attr="arange"))], 2:
            return _folded(piece, draw, key, random, arguments[1].arg)
        case "jax.lax.scan", [_, _, ast.Constant(value=None)], 2 if arguments[1].arg not in _read(piece):
            length = next((each.value for each in user.keywords if each.arg == "length"), None)
            split = f"{random}.split({key.id}, {text(length)})" if length is not None else ""
            keywords = [(span_of(piece.file, user.args[2]), split), (span_of(piece.file, arguments[1]), key.id)]
            return merged([*keywords, *_handed_in(around, key.id)], in_lines=True) if split else ("", None)
        case "jax.lax.scan", [_, _, xs], 2 if isinstance(piece.node, ast.FunctionDef):
            return _paired(observed, around, piece.node, key.id, xs, random)
        case "jax.vmap", [_], _ if not user.keywords:
            return _mapped(observed, around, tree, piece.node, user, key.id, random)
    return "", None


def _is_odd(node: Function | ast.AsyncFunctionDef) -> bool:
    given = node.args
    return bool(given.defaults or given.vararg or given.kwarg or given.kwonlyargs or not given.args)


def _users(tree: ast.Module, function: Function) -> Iterator[ast.Call]:
    """Calls that a function is passed to."""
    name = getattr(function, "name", "")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for given in node.args:
                if given is function or (isinstance(given, ast.Name) and given.id == name):
                    yield node


def _function_around(tree: ast.Module, node: ast.AST) -> ast.FunctionDef | ast.Lambda | ast.Module:
    around = [each for each in path_to(tree, node)[1:] if isinstance(each, ast.FunctionDef | ast.Lambda)]
    return around[0] if around else tree


def _is_seen(piece: Ran, around: Ran, name: str) -> bool:
    """Whether the key has its name where the loop is started too."""
    outer = binder(piece, name)
    if isinstance(around.node, ast.Module):
        return outer is None
    return outer.node is around.node if outer is not None else name not in around.local


def _read(piece: Ran) -> set[str]:
    return {node.id for node in ast.walk(piece.node) if isinstance(node, ast.Name)}


def _folded(piece: Ran, draw: ast.Call, key: ast.Name, random: str, number: str) -> Fix:
    new = ast.parse(f"{random}.fold_in({key.id}, {number})", mode="eval").body
    return text(replaced(draw, key, new)), piece.span_of(draw)


def _length(observed: Observed, around: Ran, node: ast.expr) -> str:
    """How many passes a loop over an array has, or the first of several."""
    first = node.elts[0] if isinstance(node, ast.Tuple) and node.elts else node
    known = isinstance(first, ast.Name | ast.Attribute) and Shapes(observed, around).sizes(first)
    if known or (isinstance(first, ast.Call) and isinstance(node, ast.Call)):
        return f"len({text(first)})" if known else ""
    return f"{text(first)}.shape[0]" if isinstance(first, ast.Name) else ""


def _paired(observed: Observed, around: Ran, function: ast.FunctionDef, key: str, xs: ast.expr, random: str) -> Fix:
    """The scan goes over the inputs and as many keys."""
    given, length, first = function.args.args[1], _length(observed, around, xs), function.body[0]
    if not length or first.lineno == function.lineno:
        return "", None
    file = around.file
    line = source.lines_of(file)[first.lineno - 1].rstrip("\n")
    begin = Span(file, first.lineno, first.col_offset, first.lineno, len(line.encode()))
    edits: list[Edit] = [
        (span_of(file, given), f"{given.arg}_and_key"),
        (begin, f"{given.arg}, {key} = {given.arg}_and_key\n{line.lstrip()}"),
        (span_of(file, xs), f"({text(xs)}, {random}.split({key}, {length}))"),
    ]
    return merged([*edits, *_handed_in(around, key)], in_lines=True)


def _mapped(
    observed: Observed, around: Ran, tree: ast.Module, function: Function, user: ast.Call, key: str, random: str
) -> Fix:
    """`jax.vmap(f)(x)` gets a key for each example."""
    call = next((each for each in path_to(tree, user)[1:] if isinstance(each, ast.Call) and each.args), None)
    while call is not None and not _calls(call, user):
        call = next((each for each in path_to(tree, call)[1:] if isinstance(each, ast.Call) and each.args), None)
    length = _length(observed, around, call.args[0]) if call is not None and not call.keywords else ""
    if call is None or not length:
        return "", None
    file = around.file
    edits = [
        (_behind(span_of(file, function.args.args[-1])), f", {key}"),
        (_behind(span_of(file, call.args[-1])), f", {random}.split({key}, {length})"),
    ]
    return merged([*edits, *_handed_in(around, key)], in_lines=True)


def _handed_in(around: Ran, key: str) -> list[Edit]:
    """A function that starts the loop with a key of the notebook's takes it as an argument: it may be jitted itself."""
    if isinstance(around.node, ast.Module) or key in around.local or binder(around, key) is not None:
        return []
    if _is_odd(around.node):
        return []
    return [(_behind(span_of(around.file, around.node.args.args[-1])), f", {key}")]


def _calls(call: ast.Call, user: ast.Call) -> bool:
    """Whether what is called is made of the mapped function: `vmap(f)(…)`, `jit(vmap(f))(…)`."""
    return user in ast.walk(call.func)


def _behind(span: Span) -> Span:
    return Span(span.file, span.end_line, span.end_column, span.end_line, span.end_column)
