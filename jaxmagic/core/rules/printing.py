"""Prints that show tracers: they ran while a function was traced, not when its program ran."""

import ast
import re
from collections.abc import Iterator

from jaxmagic.core import source
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.rewrite import text
from jaxmagic.records import Printed, Span

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
            yield _cause(printed)


def _cause(printed: Printed) -> Cause:
    fix, replaces = _debug_print(printed.span) if printed.span is not None else ("", None)
    inside = "primal=" in printed.text or "batched=" in printed.text
    return Cause(
        title="this line printed a tracer, not a value",
        explanation=f"It printed `{printed.text[:120]}` while its function was traced. "
        + ("Only shape and dtype are known then" if not inside else "The text shows what the tracer carries")
        + ", and the line does not run again when the program does. `jax.debug.print` prints the value every time.",
        span=printed.span,
        fix=fix,
        replaces=replaces,
    )


def _debug_print(span: Span) -> tuple[str, Span | None]:
    """`print("x =", x)` as `jax.debug.print("x = {}", x)`."""
    statement = source.node_at(span) or source.statement_at(span.file, span.line)
    for node in ast.walk(statement) if statement is not None else ():
        match node:
            case ast.Call(func=ast.Name(id="print"), args=[*args], keywords=[]):
                pattern, values = [], []
                for arg in args:
                    literal = arg.value if isinstance(arg, ast.Constant) and isinstance(arg.value, str) else None
                    pattern.append("{}" if literal is None else literal.replace("{", "{{").replace("}", "}}"))
                    values += [] if literal is not None else [arg]
                if any(isinstance(value, ast.JoinedStr | ast.Starred) for value in values):
                    return "", None
                shown = ast.Call(
                    ast.parse("jax.debug.print", mode="eval").body, [ast.Constant(" ".join(pattern)), *values], []
                )
                return text(shown), Span(
                    span.file, node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0
                )
    return "", None
