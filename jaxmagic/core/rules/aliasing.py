"""NumPy arrays that are written although a JAX array lies in the same memory."""

import ast
from collections.abc import Iterator

from jaxmagic.core.lines.aliases import Alias, is_buffer, shares_memory
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.ran import Ran, ran
from jaxmagic.core.rules.rewrite import expression, replaced, text
from jaxmagic.core.rules.stores import root_name
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import path_to
from jaxmagic.records import Evidence

_CHANGING = ("fill", "sort", "put", "partition", "resize", "itemset", "setfield", "byteswap")
_CHANGING_FIRST = ("copyto", "put", "place", "putmask", "shuffle", "fill_diagonal")


@on_cell("numpy-aliased", "wrong-result", "a NumPy array is written that a JAX array shares its memory with")
def numpy_aliased(observed: Observed) -> Iterator[Cause]:
    """On the CPU `jax.device_put` and `jnp.from_dlpack` take over the memory of a NumPy array, without a copy, if its
    address suits them. Writing into the NumPy array then changes the JAX array, which ought never to change, and
    whether it happens may differ from run to run. A buffer that is filled again for every batch is the usual way
    to meet it.

    Sure: the two were seen to share memory, and a line that writes into the buffer follows. Writes by other
    functions that get the buffer as an argument are not seen.
    """
    pieces = ran(observed)
    for alias in observed.aliases:
        piece = next((piece for piece in pieces if (piece.file, piece.name) == (alias.file, alias.function)), None)
        if piece is not None:
            made = source.node_at(alias.span)
            after = [node for node in _writes(piece, alias.buffer) if _after(piece, alias, node)]
            # Of a loop, a write below comes before one at the beginning of the next pass, which may have a new buffer.
            write = min(after, key=lambda node: _place(node) < _begin(alias), default=None)
            if write is not None and isinstance(made, ast.Assign | ast.AnnAssign):
                yield _cause(piece, alias, made, write)
    known = {(alias.array, alias.buffer) for alias in observed.aliases}
    yield from _of_earlier_cells(observed, pieces, known)


def _of_earlier_cells(observed: Observed, pieces: tuple[Ran, ...], known: set[tuple[str, str]]) -> Iterator[Cause]:
    """Variables that share memory since an earlier cell, or by what a function returned."""
    for piece in pieces:
        for name, buffer in list(observed.namespace.items()):
            written = is_buffer(buffer) and name not in piece.local
            if written and (write := next(_writes(piece, name), None)):
                names = [each for each, array in list(observed.namespace.items()) if shares_memory(array, buffer)]
                # A function may write before it makes the array; two arrays of one buffer were not made together.
                cells = isinstance(piece.node, ast.Module)
                for other in names if cells else names[:1] if len(names) > 1 else ():
                    if (other, name) not in known:
                        yield _written(piece, other, name, write)


def _after(piece: Ran, alias: Alias, node: ast.AST) -> bool:
    """Whether a write runs after the alias was made: below it, or in the same loop."""
    if _place(node) > _begin(alias):
        return True
    loops = [each for each in path_to(piece.node, node) if isinstance(each, ast.For | ast.While)]
    return any(loop.lineno <= alias.span.line <= (loop.end_lineno or 0) for loop in loops)


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _begin(alias: Alias) -> tuple[int, int]:
    return alias.span.line, alias.span.column


def _writes(piece: Ran, name: str) -> Iterator[ast.AST]:
    for node in piece.own:
        match node:
            case ast.Assign(targets=targets) if any(_into(target, name) for target in targets):
                yield node
            case ast.AugAssign(target=target) if root_name(target) == name:
                yield node
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=method)) if owner == name:
                if method in _CHANGING:
                    yield node
            case ast.Call(func=ast.Attribute(attr=method), args=[first, *_]) if method in _CHANGING_FIRST:
                if root_name(first) == name:
                    yield node
            case ast.keyword(arg="out", value=value) if root_name(value) == name:
                yield value


def _into(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Subscript) and root_name(target) == name


def _cause(piece: Ran, alias: Alias, made: ast.Assign | ast.AnnAssign, write: ast.AST) -> Cause:
    named = [node for node in ast.walk(made) if isinstance(node, ast.Name) and node.id == alias.buffer]
    reads = [node for node in named if isinstance(node.ctx, ast.Load)]
    fix = ""
    if len(reads) == 1 and made.value is not None:
        fix = text(replaced(made.value, reads[0], expression(f"{alias.buffer}.copy()")))
    found = _written(piece, alias.array, alias.buffer, write)
    return Cause(
        title=found.title,
        explanation=found.explanation,
        span=found.span,
        evidence=(Evidence(f"made here, without a copy: {piece.text(made)}", alias.span),),
        fix=fix,
        replaces=piece.span_of(made.value) if made.value is not None else None,
    )


def _written(piece: Ran, array: str, buffer: str, write: ast.AST) -> Cause:
    return Cause(
        title=f"writing into `{buffer}` changes the JAX array `{array}`, which shares its memory",
        explanation=f"`{array}` was made of the NumPy array `{buffer}` without a copy, as its address allowed it; "
        f"another run may copy. Hand over a copy: `{buffer}.copy()`, or `jnp.array({buffer})`.",
        span=piece.span_of(write),
    )
