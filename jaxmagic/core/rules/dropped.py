"""Results that nobody takes: updates of arrays that were meant to change them."""

import ast
from collections.abc import Iterator

from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.ran import ran

_METHODS = ("set", "add", "subtract", "multiply", "mul", "divide", "power", "min", "max", "apply")


@on_cell("update-dropped", "wrong-result", "the result of x.at[…].set(…) is not used")
def update_dropped(observed: Observed) -> Iterator[Cause]:
    """`x.at[i].set(v)` returns a changed copy; `x` stays as it was. As a statement on its own it does nothing.

    Sure: the statement ran, and has no other effect. The last expression of a cell is not reported, as its value
    is displayed.
    """
    for piece in ran(observed):
        for node in piece.own:
            match node:
                case ast.Expr(
                    value=ast.Call(
                        func=ast.Attribute(
                            attr=method, value=ast.Subscript(value=ast.Attribute(attr="at", value=array))
                        )
                    )
                ) if method in _METHODS and not (isinstance(piece.node, ast.Module) and node is piece.body[-1]):
                    update, name = piece.text(node), piece.text(array)
                    yield Cause(
                        title=f"the result of `{update}` is not used",
                        explanation=f"`.at[…].{method}` returns a changed copy and leaves `{name}` as it was. Bind the "
                        "result to the name.",
                        span=piece.span_of(node),
                        fix=f"{name} = {update}" if isinstance(array, ast.Name | ast.Attribute) else "",
                        replaces=piece.span_of(node),
                    )
