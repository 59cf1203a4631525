"""A step that draws from a key and hands the same key back: what is said, and the key split inside of it."""

import ast

from jaxmagic.core.rules.catalogue import Cause
from jaxmagic.core.rules.handed_back import Kept, copied_but
from jaxmagic.core.rules.key_uses import Returned, Use
from jaxmagic.core.rules.ran import Ran, imports
from jaxmagic.core.rules.rewrite import Edit, copied, extended, merged, replaced, text
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import own_nodes
from jaxmagic.records import Evidence, Span


def module_of(use: Use) -> str:
    """How the code spells `jax.random`."""
    known = imports(use.piece.file)
    for name, meaning in known.items():
        if meaning == "jax.random":
            return name
    return next((f"{name}.random" for name, meaning in known.items() if meaning == "jax"), "jax.random")


def handed_back(use: Use, again: Use) -> Cause:
    """The key is the same after the call as before it."""
    assert use.back is not None
    assert use.drawn is not None
    assert use.function is not None
    drawn, name, function = use.drawn, text(use.key), use.function.name
    key = text(drawn.key)
    fix, replaces = _fix(drawn, use.function, use.back)
    when = "in every pass of the loop" if use is again else f"again on line {again.node.lineno}"
    same = again.function is not None and again.function.node is use.function.node
    where = (
        f"`{name}` is the same key {when}: the same numbers at every step."
        if same or use is again
        else (f"`{again.piece.text(again.node)}` draws from it {when}: the same numbers.")
    )
    return Cause(
        title=f"`{function}` draws from `{key}` and returns it as it was",
        explanation=f"{where} Split the key in `{function}`, draw from one part and return the other.",
        span=drawn.piece.span_of(drawn.node),
        evidence=(
            Evidence(f"called here: {use.piece.text(use.node)}", use.piece.span_of(use.node)),
            Evidence(f"returned here: {text(use.back.kept.node)}", drawn.piece.span_of(use.back.kept.node)),
        ),
        fix=fix,
        replaces=replaces,
    )


def _fix(drawn: Use, function: Ran, back: Returned) -> tuple[str, Span | None]:
    """The key split before the statement that draws from it; what is returned is the other part."""
    statement = _statement_in(function, drawn.node)
    if statement is None or not isinstance(
        statement, ast.Assign | ast.AugAssign | ast.Expr | ast.Return | ast.FunctionDef
    ):
        return "", None
    name = text(drawn.key)
    plain = isinstance(drawn.key, ast.Name)
    key = name if plain else _free(function, "key")
    part = f"{key}_1"
    begin = f"{key}, {part} = {module_of(drawn)}.split({name})\n"
    handed = back.kept.node
    new = None if plain else _returned(back.kept, key, name)
    if not plain and new is None:
        return "", None
    drew = ast.Name(part, ast.Load())
    if isinstance(statement, ast.FunctionDef):
        inside = next(
            each
            for each in reversed(list(own_nodes(drawn.piece.node)))
            if isinstance(each, ast.stmt) and drawn.node in ast.walk(each)
        )
        edits = [
            *_before(function, statement, begin),
            (function.span_of(inside), text(replaced(inside, drawn.key, drew))),
        ]
    elif new is not None and handed in ast.walk(statement):
        inside = drawn.key in ast.walk(handed)
        changed = _returned(back.kept, key, name, replaced(handed, drawn.key, drew) if inside else handed)
        both: dict[int, ast.AST] = {id(handed): changed or handed}
        if not inside:
            both[id(drawn.key)] = drew
        return begin + text(copied(statement, both)), function.span_of(statement)
    else:
        edits = [(function.span_of(statement), begin + text(replaced(statement, drawn.key, drew)))]
    last = _statement_in(function, handed)
    if new is not None and last is not None:
        edits.append((function.span_of(last), text(replaced(last, handed, new))))
    return merged(edits, in_lines=True)


def _statement_in(function: Ran, node: ast.AST) -> ast.stmt | None:
    """The statement right in the function's own body that holds a node."""
    return next((each for each in function.body if node in ast.walk(each)), None)


def _before(function: Ran, statement: ast.stmt, code: str) -> list[Edit]:
    """A line before a statement."""
    first = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])
    line = source.lines_of(function.file)[first - 1].rstrip("\n")
    margin = len(line) - len(line.lstrip())
    whole = Span(function.file, first, margin, first, len(line.encode()))
    return [(whole, code + line.lstrip())]


def _free(function: Ran, name: str) -> str:
    return name if name not in function.local else f"new_{name}"


def _returned(kept: Kept, key: str, name: str, node: ast.expr | None = None) -> ast.expr | None:
    """What a function returns, with the new key in it."""
    node = node or kept.node
    if text(kept.node) == name:
        return ast.Name(key, ast.Load())
    copy = copied_but(kept.node)
    step = name.removeprefix(text(copy[0])) if copy is not None else ""
    value = ast.Name(key, ast.Load())
    match node:
        case ast.Call() if step.startswith(".") and step[1:].isidentifier():
            return extended(node, **{step[1:]: value})
        case ast.Dict() if step.startswith("["):
            index = ast.parse(step[1:-1], mode="eval").body
            return ast.Dict([*node.keys, index], [*node.values, value])
    return None
