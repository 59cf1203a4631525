"""Diffrax, Lineax and Optimistix: solvers that are given a plain function or matrix, or lack a setting."""

import ast
import math
import re
from collections.abc import Callable

from jaxmagic.core.rules.calls import Fix, argument
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import Function, function_of, made_from
from jaxmagic.core.rules.rewrite import alias, call, copied, expression, replaced, text
from jaxmagic.core.rules.wording import listed
from jaxmagic.core.source.nodes import name_called
from jaxmagic.records import Evidence

_LIBRARIES = ("diffrax", "lineax", "optimistix")
_TAKES = {"diffrax": ["t", "y", "args"], "optimistix": ["y", "args"]}


def library_of(failing: Failing, node: ast.AST | None) -> str:
    """Which of the libraries a called function belongs to; empty for any other."""
    function = failing.scope.get(node.func) if isinstance(node, ast.Call) else None
    module = getattr(function, "__module__", "")
    found = module.partition(".")[0] if isinstance(module, str) else ""
    return found if found in _LIBRARIES else ""


@on_error("solver-call", "a solver of Diffrax, Lineax or Optimistix gets something it can't use, or lacks a setting")
def solver_call(failing: Failing) -> Cause | None:
    """`diffeqsolve` takes a term (`ODETerm(f)` with `f(t, y, args)`), a solver object and a `SaveAt`; adaptive steps
    need a solver with an error estimate. `lineax.linear_solve` takes an operator, with a tag for what is known of it.
    Optimistix calls its function with `(y, args)`.

    Sure: the library refused the call, for what is said here.
    """
    node = failing.node
    library = library_of(failing, node)
    if not library or not isinstance(node, ast.Call):
        return None
    for pattern, explained in _EXPLAINED:
        if found := failing.says(pattern):
            return explained(failing, node, found)
    return _not_as_they_are(failing, node) if name_called(node) == "diffeqsolve" else None


def with_keyword(node: ast.Call, name: str, value: ast.expr) -> str:
    kept = [word for word in node.keywords if word.arg != name]
    return text(copied(ast.Call(node.func, node.args, [*kept, ast.keyword(name, value)])))


def without_keyword(node: ast.Call, name: str) -> str:
    return text(copied(ast.Call(node.func, node.args, [word for word in node.keywords if word.arg != name])))


def _not_as_they_are(failing: Failing, node: ast.Call) -> Cause | None:
    """A function for a term, a class for a solver, an array for a `SaveAt`."""
    diffrax = alias(failing.scope, "diffrax")
    terms, solver = argument(node, 0, "terms"), argument(node, 1, "solver")
    saved = next((word.value for word in node.keywords if word.arg == "saveat"), None)
    if terms is not None and (isinstance(terms, ast.Lambda) or function_of(failing.site, terms) is not None):
        made, what = call(f"{diffrax}.ODETerm", terms), "is a function, and `diffeqsolve` takes a term"
        return _swapped(failing, node, terms, made, what, "`ODETerm(f)` is the term of `dy/dt = f(t, y, args)`.")
    if solver is not None and isinstance(failing.scope.get(solver), type):
        made, what = ast.Call(copied(solver), [], []), "is the class of the solver, and not a solver"
        return _swapped(failing, node, solver, made, what, "It was not called.")
    if saved is not None and failing.aval(saved) is not None:
        made, what = call(f"{diffrax}.SaveAt", ts=saved), "is an array, and `saveat` takes a `SaveAt`"
        return _swapped(failing, node, saved, made, what, "`SaveAt(ts=…)` saves at these times.")
    return None


def _swapped(failing: Failing, node: ast.Call, old: ast.expr, new: ast.expr, what: str, why: str) -> Cause:
    return Cause(
        title=f"`{failing.text(old)}` {what}",
        explanation=why,
        evidence=(Evidence("given here", failing.site.span_of(old)),),
        fix=text(replaced(node, old, new)),
        replaces=failing.span,
    )


def _told(failing: Failing, title: str, explanation: str, fix: str = "") -> Cause:
    return Cause(title=title, explanation=explanation, fix=fix, replaces=failing.span)


_Found = re.Match[str]


def _no_step(failing: Failing, node: ast.Call, found: _Found) -> Cause:
    control = call(f"{alias(failing.scope, 'diffrax')}.PIDController", rtol=ast.Constant(1e-3), atol=ast.Constant(1e-6))
    return _told(
        failing,
        "`dt0` is None, and steps of a constant size need one",
        "An adaptive controller chooses the first step itself; a constant step is given as `dt0`.",
        with_keyword(node, "stepsize_controller", control),
    )


def _no_estimate(failing: Failing, node: ast.Call, found: _Found) -> Cause:
    solver = argument(node, 1, "solver")
    heun = ast.Call(expression(f"{alias(failing.scope, 'diffrax')}.Heun"), [], [])
    return _told(
        failing,
        f"`{failing.text(solver) if solver else 'the solver'}` has no error estimate, which adaptive steps need",
        "A controller changes the step by the error of the last one. `Heun`, `Tsit5` and other pairs estimate it; "
        "without a controller the steps are all of size `dt0`.",
        text(replaced(node, solver, heun)) if solver is not None else "",
    )


def _backwards(failing: Failing, node: ast.Call, found: _Found) -> Cause:
    dt0 = argument(node, 4, "dt0")
    return _told(
        failing,
        f"the time goes from {found['t0']} back to {found['t1']}, and `dt0` is {found['dt0']}",
        "Backwards in time the steps are negative.",
        text(replaced(node, dt0, ast.UnaryOp(ast.USub(), copied(dt0)))) if dt0 is not None else "",
    )


def _too_many_steps(failing: Failing, node: ast.Call, found: _Found) -> Cause:
    t0, t1, dt0 = (argument(node, at, name) for at, name in ((2, "t0"), (3, "t1"), (4, "dt0")))
    numbers = [failing.scope.get(each) for each in (t0, t1, dt0)]
    constant = not any(word.arg == "stepsize_controller" for word in node.keywords)
    known = constant and all(type(each) in (int, float) for each in numbers) and numbers[2]
    needed = math.ceil((numbers[1] - numbers[0]) / numbers[2]) + 1 if known else 0
    if not needed:
        return _told(
            failing,
            f"`{failing.text(node.func)}` did not get to its end in as many steps as `max_steps` allows",
            "A larger `max_steps` allows more; where it does not converge, or the steps get ever smaller, look at the "
            "problem itself. `throw=False` returns what there is.",
        )
    return _told(
        failing,
        f"`{failing.text(node.func)}` needs more steps than `max_steps` allows",
        f"{needed - 1} steps of {numbers[2]} lead from {numbers[0]} to {numbers[1]}.",
        with_keyword(node, "max_steps", ast.Constant(needed)),
    )


def _unbounded(failing: Failing, node: ast.Call, found: _Found) -> Cause:
    return _told(
        failing,
        "`max_steps=None` leaves the number of steps open, and what is saved here needs a bound",
        "Saving every step, and derivatives in reverse, take memory for each step that there may be.",
        without_keyword(node, "max_steps"),
    )


def _no_operator(failing: Failing, node: ast.Call, found: _Found) -> Cause | None:
    matrix = argument(node, 0, "operator")
    if matrix is None:
        return None
    made = call(f"{alias(failing.scope, 'lineax')}.MatrixLinearOperator", matrix)
    what = "is an array, and `linear_solve` takes an operator"
    return _swapped(failing, node, matrix, made, what, "`MatrixLinearOperator` is the operator of a matrix.")


def _not_square(failing: Failing, node: ast.Call, found: _Found) -> Cause:
    auto = call(f"{alias(failing.scope, 'lineax')}.AutoLinearSolver", well_posed=ast.Constant(False))
    operator = argument(node, 0, "operator")
    shown = failing.text(operator) if operator is not None else "the operator"
    return _told(
        failing,
        f"`{shown}` is not square, so there is no solution, or are many",
        "`well_posed=False` finds the one of least squares, and of these the smallest.",
        with_keyword(node, "solver", auto) if len(node.args) < 3 else text(replaced(node, node.args[2], auto)),
    )


def _untagged(failing: Failing, node: ast.Call, found: _Found) -> Cause:
    operator, tag = argument(node, 0, "operator"), f"{alias(failing.scope, 'lineax')}.positive_semidefinite_tag"
    fix = ""
    if isinstance(operator, ast.Call) and name_called(operator) == "MatrixLinearOperator" and len(operator.args) == 1:
        tagged = ast.Call(operator.func, [*operator.args, expression(tag)], operator.keywords)
        fix = text(replaced(node, operator, copied(tagged)))
    return _told(
        failing,
        f"`{found[1]}` works on positive definite operators, and this one is not said to be one",
        "Lineax does not look at the numbers: a tag says what is known of the matrix. Where that is not so, "
        "`lineax.AutoLinearSolver(well_posed=True)` solves it.",
        fix,
    )


def _other_size(failing: Failing, node: ast.Call, found: _Found) -> Cause:
    operator, vector = argument(node, 0, "operator"), argument(node, 1, "vector")
    evidence = failing.evidence(*(each for each in (vector,) if each is not None))
    return Cause(
        title=f"the vector has shape {found[1]}, and the operator gives {found[2]}",
        explanation="A linear system has as many rows as the right-hand side.",
        evidence=(*evidence, *([Evidence("the operator", failing.site.span_of(operator))] if operator else [])),
    )


def _function(failing: Failing, node: ast.Call) -> Function | None:
    """The vector field, or the function that is minimised."""
    given = node.args[0] if node.args else None
    while isinstance(given, ast.Call) and given.args:
        given = given.args[0]
    if isinstance(given, ast.Name) and function_of(failing.site, given) is None:
        found = next((value for _, value in made_from(failing, given) if isinstance(value, ast.Call)), None)
        given = found.args[0] if found is not None and found.args else given
    return function_of(failing.site, given)


def _other_arguments(failing: Failing, node: ast.Call, found: _Found) -> Cause | None:
    function, takes = _function(failing, node), _TAKES.get(library_of(failing, node), [])
    if (
        function is None
        or found[1].rpartition(".")[2] not in (function.name, f"<{function.name}>")
        or len(function.parameters) >= len(takes)
    ):
        return None
    names = function.parameters
    order = [next((name for name in names if name == usual), "") for usual in takes]
    if sum(map(bool, order)) < len(names):
        order = [*names, *takes[len(names) :]]
    order = [name or usual for name, usual in zip(order, takes, strict=True)]
    fix, replaces = _header(function, order)
    return Cause(
        title=f"`{name_called(node)}` calls its function with {listed(takes)}, and `{function.name}` takes "
        f"{listed(names) or 'none'}",
        explanation="The last one is what is given as `args=`, None unless it is.",
        span=function.span_of(function.node) if not isinstance(function.node, ast.Lambda) else None,
        evidence=(Evidence("called from here", failing.span),),
        fix=fix,
        replaces=replaces,
    )


def _header(function: Function, names: list[str]) -> Fix:
    """The function with these parameters, of which it has some."""
    arguments = function.node.args
    if function.bound or arguments.posonlyargs or arguments.kwonlyargs or arguments.defaults or arguments.vararg:
        return "", None
    known = {arg.arg: arg for arg in arguments.args}
    changed = ast.arguments([], [copied(known.get(name, ast.arg(name))) for name in names], None, [], [], None, [])
    first, last = arguments.args[0], arguments.args[-1]
    span = function.span_of(first)
    end = function.span_of(last)
    return text(changed), type(span)(span.file, span.line, span.column, end.end_line, end.end_column)


def _other_structure(failing: Failing, node: ast.Call, found: _Found) -> Cause | None:
    function = _function(failing, node)
    y0 = argument(node, 5, "y0")
    if function is None or y0 is None or name_called(node) != "diffeqsolve":
        return None
    shown = [*function.returned()][:3]
    return Cause(
        title=f"the vector field `{function.name}` gives something of another shape than the state "
        f"`{failing.text(y0)}`" + (f" ({failing.aval(y0)})" if failing.aval(y0) else ""),
        explanation="A derivative for each number of the state: the same containers, and arrays of the same shapes.",
        span=function.span_of(shown[0]) if shown else None,
        evidence=(*failing.evidence(y0), Evidence("solved here", failing.span)),
    )


_EXPLAINED: tuple[tuple[str, Callable[[Failing, ast.Call, _Found], Cause | None]], ...] = (
    (r"Constant step size solvers cannot select step size automatically", _no_step),
    (r"Cannot use adaptive step sizes with a solver that does not provide error", _no_estimate),
    (r"Must have \(t1 - t0\) \* dt0 >= 0.*?t1 with value (?P<t1>\S+) .*?t0 with value (?P<t0>\S+) .*?dt0 with value "
     r"(?P<dt0>\S+) ", _backwards),
    (r"maximum number of (?:solver )?steps was reached", _too_many_steps),
    (r"`max_steps=None` is incompatible with saving", _unbounded),
    (r"should be an `AbstractLinearOperator`, not a raw JAX array", _no_operator),
    (r"Cannot use `AutoLinearSolver\(well_posed=True\)` with a non-square operator", _not_square),
    (r"^`(\w+)\(.*?\)` may only be used for positive or negative definite", _untagged),
    (r"Vector and operator structures do not match.*?shape=(\([\d, ]*\)).*?shape=(\([\d, ]*\))", _other_size),
    (r"^([\w.<>]+)\(\) takes \d+ positional arguments? but \d+ (?:was|were) given", _other_arguments),
    (r"must return a pytree with the same structure as `y0`|Incompatible \w+ for broadcasting", _other_structure),
)  # fmt: skip
