"""What the solvers of Diffrax, Lineax and Optimistix return, and what of it was kept."""

import ast

from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import made_from
from jaxmagic.core.rules.rewrite import alias, call, replaced, text
from jaxmagic.core.rules.solvers import library_of, with_keyword, without_keyword
from jaxmagic.core.source.nodes import name_called, parts
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence

_RESULTS = {"diffrax": "ys", "lineax": "value", "optimistix": "value"}


@on_error("solution-not-array", "the Solution that a solver returns is used as if it were the array in it")
def solution_not_array(failing: Failing) -> Cause | None:
    """Solvers of Lineax and Optimistix return a `Solution`: `value` is the result, beside statistics. That of Diffrax
    has times `ts` and states `ys`.

    Sure: an operation refused the object.
    """
    node = failing.node
    if failing.kind != "TypeError" or not isinstance(node, ast.expr) or "Solution'" not in failing.message:
        return None
    for part in parts(node):
        value, library = failing.scope.get(part), library_of(failing, part)
        if type(value).__name__ == "Solution":
            library = type(value).__module__.partition(".")[0]
        if library in _RESULTS:
            name = _RESULTS[library]
            return Cause(
                title=f"`{failing.text(part)}` is a Solution, and its `{name}` is the array",
                explanation="Beside the result it says how it was found.",
                evidence=(Evidence("a Solution", failing.site.span_of(part)),),
                fix=text(replaced(node, part, ast.Attribute(part, name))),
                replaces=failing.span,
            )
    return None


@on_error(
    "solution-not-saved", "a Diffrax solution is evaluated between its times, or a derivative has no bound of steps"
)
def solution_not_saved(failing: Failing) -> Cause | None:
    """`diffeqsolve` keeps what `saveat` asks for: `SaveAt(dense=True)` to evaluate anywhere. Derivatives in reverse
    need a bound for the number of steps.

    Sure: Diffrax says so. The call that made the solution is changed.
    """
    node = failing.node
    if failing.says(r"^Dense solution has not been saved") and isinstance(node, ast.Call):
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        made = next((each for each in made_from(failing, owner) if isinstance(each[1], ast.Call)), None)
        dense = call(f"{alias(failing.scope, 'diffrax')}.SaveAt", dense=ast.Constant(True))
        fix = with_keyword(made[1], "saveat", dense) if made is not None and isinstance(made[1], ast.Call) else ""
        return Cause(
            title=f"`{failing.text(node)}` looks between the times that were saved",
            explanation="`SaveAt(dense=True)` keeps what interpolation needs.",
            evidence=(Evidence("solved here", span_of(*made)),) if made is not None else (),
            fix=fix,
            replaces=span_of(*made) if made is not None else None,
        )
    if not failing.says(r"^Cannot reverse-mode autodifferentiate when using `diffeqsolve\(\.\.\., max_steps=None"):
        return None
    found = [(file, node) for file, node in failing.nodes() if isinstance(node, ast.Call)]
    solved = next((each for each in found if name_called(each[1]) == "diffeqsolve" and _is_unbounded(each[1])), None)
    return Cause(
        title="`max_steps=None` leaves the number of steps open, and a derivative in reverse needs a bound",
        explanation="The memory for going back through the steps is set aside before. The usual bound is 4096; "
        "`adjoint=diffrax.BacksolveAdjoint()`, or `jax.jvp`, need none.",
        span=span_of(*solved) if solved else None,
        evidence=(Evidence("differentiated here", failing.span),),
        fix=without_keyword(solved[1], "max_steps") if solved else "",
        replaces=span_of(*solved) if solved else None,
    )


def _is_unbounded(node: ast.Call) -> bool:
    return any(word.arg == "max_steps" and getattr(word.value, "value", 0) is None for word in node.keywords)
