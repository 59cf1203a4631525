"""Prints that show something else than what was meant: tracers, and shapes as arrays."""

import ast
import re
from collections.abc import Iterator

from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.debug_print import apart, call_at, in_its_place, is_shape, values_of, with_static_shapes
from jaxmagic.core.rules.ran import Ran, ran
from jaxmagic.records import Printed, Span

_ENTRY = r"Array\((\d+), dtype=u?int\d+(?:, weak_type=True)?\)"
_SHAPE = re.compile(rf"\((?:{_ENTRY}, )*{_ENTRY},?\)")
_TRACER = re.compile(r"\b(Jit|Vmap|Grad|DynamicJaxpr|Batch|Linearize|JVP)Tracer\b|Traced<")


@on_cell("print-of-tracer", "note", "a print shows a tracer: it runs once for each trace")
def print_of_tracer(observed: Observed) -> Iterator[Cause]:
    """A `print` in a compiled function runs while the function is traced, once for each trace, and shows a tracer:
    shape and dtype, no value. `jax.debug.print` prints the value every time the program runs. Under vmap or grad
    without jit the value is inside the tracer, and the print shows it.

    Sure: the printed line holds a tracer. A print of plain text is not reported.
    """
    for printed in observed.printed:
        if printed.traced and _TRACER.search(printed.text):
            yield _cause(printed, compiled=_is_compiled(observed, printed))


@on_cell("tracer-in-f-string", "note", "an f-string given to jax.debug.print shows a tracer")
def tracer_in_f_string(observed: Observed) -> Iterator[Cause]:
    """`jax.debug.print(f"x = {x}")` makes its text while the function is traced, when x is a tracer: the same text,
    without a value, is printed each time. The format and the values have to be given apart.

    Sure: the printed line holds a tracer.
    """
    for printed in observed.printed:
        if printed.source == "jax.debug.print" and _TRACER.search(printed.text):
            node = call_at(printed.span)
            yield Cause(
                title="this f-string was made while tracing, and shows a tracer",
                explanation=f"It printed `{printed.text[:120]}`: Python made the text once, before there was a value. "
                "Give `jax.debug.print` the format and the values apart, and it fills them in every time.",
                span=printed.span,
                fix=apart(node) if node is not None else "",
                replaces=printed.span,
            )


@on_cell("shape-printed-as-arrays", "note", "jax.debug.print showed the entries of a shape as arrays")
def shape_printed_as_arrays(observed: Observed) -> Iterator[Cause]:
    """`jax.debug.print("{}", x.shape)` sends the entries of the shape to the device and back like any other value, and
    prints arrays. A shape is known while tracing: an f-string shows it as it is.

    Sure: where the call is known and a shape stands in it. Otherwise a tuple of integers that were computed would
    read the same.
    """
    for printed in observed.printed:
        found = _SHAPE.search(printed.text) if printed.source == "jax.debug.print" else None
        if found is None:
            continue
        node = call_at(printed.span)
        if node is None or any(map(is_shape, values_of(node))):
            yield _shape(printed, found[0], node)


def _shape(printed: Printed, shown: str, node: ast.Call | None) -> Cause:
    sizes = tuple(map(int, re.findall(_ENTRY, shown)))
    return Cause(
        title=f"the shape is {sizes}: its entries were printed as arrays",
        explanation=f"`{shown}` is `{sizes}`. `jax.debug.print` turns all that it is given into arrays, also what is "
        "known while tracing. An f-string shows a shape as it is.",
        span=printed.span,
        fix=with_static_shapes(node) if node is not None else "",
        replaces=printed.span,
        sure=node is not None,
    )


def _is_compiled(observed: Observed, printed: Printed) -> bool:
    """Whether the line ran for a program; under vmap or grad alone it runs at every call."""
    span = printed.span
    inside = [piece for piece in ran(observed) if span is not None and piece.file == span.file and _holds(piece, span)]
    innermost = max(inside, key=lambda piece: getattr(piece.node, "lineno", 0), default=None)
    return innermost is None or innermost.compiled


def _holds(piece: Ran, span: Span) -> bool:
    if isinstance(piece.node, ast.Module):
        return True
    return piece.node.lineno <= span.line <= (piece.node.end_lineno or 0)


def _cause(printed: Printed, *, compiled: bool) -> Cause:
    fix, replaces = in_its_place(printed.span) if printed.span is not None else ("", None)
    shown = f"It printed `{printed.text[:120]}` "
    if compiled:
        told = (
            "while its function was traced. Only shape and dtype are known then, and the line does not run again when "
            "the program does. `jax.debug.print` prints the value every time."
        )
    elif re.search("primal ?=", printed.text):
        told = "under grad, without jit: the value is there, as `primal`. `jax.debug.print` prints it alone."
    else:
        told = "under vmap, without jit: it stands for all examples at once. `jax.debug.print` prints each one's value."
    return Cause(
        title="this line printed a tracer, not a value",
        explanation=shown + told,
        span=printed.span,
        fix=fix,
        replaces=replaces,
    )
