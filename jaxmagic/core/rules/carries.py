"""Loops whose carry does not come out as it went in: scan, while_loop, fori_loop."""

import ast
import re

from jaxmagic.core.rules.calls import Fix, argument, made_varying, short_type, varies_over
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.containers import contained_as, spelled
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import Function, at_path, function_of
from jaxmagic.core.rules.rewrite import alias, call, text
from jaxmagic.core.rules.wording import listed
from jaxmagic.core.source.nodes import name_called
from jaxmagic.records import Evidence

_CARRY = re.compile(
    r"(scan|while_loop|fori_loop) body function carry input and carry output must have equal types.*?"
    r"input carry (?:component )?(?P<path>\S+) has type (?P<before>\S+) but the corresponding output carry component "
    r"has type (?P<after>\S+?),? so the (?P<what>[\w ]+) do not match",
    re.DOTALL,
)
_STRUCTURE = re.compile(
    r"(scan|while_loop|fori_loop) body function carry input .*? same pytree structure.*?\n\n(.*?)\n\n", re.S
)
_BODY = {"scan": 0, "while_loop": 1, "fori_loop": 2}
"""Which argument is the body."""
_INIT = {"scan": 1, "while_loop": 2, "fori_loop": 3}


@on_error("carry-type", "a loop's carry comes out with another shape or dtype than it went in with")
def carry_type(failing: Failing) -> Cause | None:
    """The body of `scan`, `while_loop` or `fori_loop` must return the carry with the shapes and dtypes that it got,
    since one compiled body serves every step. The usual reasons: an operand of a wider dtype promotes the result,
    an integer start value with float steps, or an array that grows.

    Sure: JAX compared the types. The expression named is the one in the body's `return` at the same place; the fix
    casts it, or makes the start value a float.
    """
    match = _CARRY.search(failing.message)
    node = failing.node
    if match is None or not isinstance(node, ast.Call):
        return None
    loop = name_called(node)
    body = function_of(failing.site, argument(node, _BODY.get(loop, 0), "f", "body_fun"))
    path = _carry_path(match["path"], loop)
    leaving = _leaving(body, loop, path)
    name = _name_inside(body, loop, path)
    where = f"`{name}`" if name else f"`carry{path}`"
    span = body.span_of(leaving) if body is not None and leaving is not None else None
    fix, replaces = "", None
    if body is not None and leaving is not None and name and match["what"] == "dtypes":
        fix, replaces = _cast(failing, node, loop, path, body, leaving, name, match)
    over = [axis for axis in varies_over(match["after"]) if axis not in varies_over(match["before"])]
    if over:
        fix, replaces = _varying(failing, node, loop, path, over)
    return Cause(
        title=f"the carry {where} enters as {short_type(match['before'])} and leaves as {short_type(match['after'])}",
        explanation=f"Every step of `{loop}` runs the same compiled body, so the carry must keep its type"
        + (f", but `{body.text(leaving)}` changes it" if body and leaving is not None else "")
        + (
            f": it enters the same on all devices of {listed(over)}."
            if over
            else f": its {match['what']} do not match."
        ),
        span=span,
        evidence=_carry_evidence(failing, node, loop, path, body, leaving, match),
        fix=fix,
        replaces=replaces,
    )


def _varying(failing: Failing, node: ast.Call, loop: str, path: str, axes: list[str]) -> Fix:
    """The start value as one that may differ from device to device."""
    init = argument(node, _INIT.get(loop, 1), "init", "init_val")
    start = at_path(init, path) if init is not None else None
    if start is None:
        return "", None
    return made_varying(alias(failing.scope, "jax.lax"), start, axes), failing.site.span_of(start)


def _carry_path(said: str, loop: str) -> str:
    """JAX's path without the parameter's name; in a `fori_loop` the carry is number 1 beside the index."""
    path = re.sub(r"^\w+", "", said)
    return path.removeprefix("[1]") if loop == "fori_loop" and said.startswith("loop_carry") else path


def _leaving(body: Function | None, loop: str, path: str) -> ast.expr | None:
    """The expression that the body returns for this part of the carry."""
    if body is None or len(body.returned()) != 1:
        return None
    (result,) = body.returned()
    carry = at_path(result, "[0]") if loop == "scan" else result
    if isinstance(carry, ast.Name):
        carry = body.assigned(carry.id) or carry
    part = at_path(carry, path) if carry is not None else None
    return (body.assigned(part.id) or part) if isinstance(part, ast.Name) else part


def _name_inside(body: Function | None, loop: str, path: str) -> str:
    """What the body calls this part of the carry: the parameter, or the name it is unpacked to."""
    index = 1 if loop == "fori_loop" else 0
    if body is None or len(body.parameters) <= index:
        return ""
    parameter = body.parameters[index]
    if not path:
        return parameter
    for node in ast.walk(body.node):
        match node:
            case ast.Assign(targets=[ast.Tuple() as names], value=ast.Name(id=name)) if name == parameter:
                part = at_path(names, path)
                return part.id if isinstance(part, ast.Name) else parameter + path
    return parameter + path


def _cast(
    failing: Failing,
    node: ast.Call,
    loop: str,
    path: str,
    body: Function,
    leaving: ast.expr,
    name: str,
    match: re.Match[str],
) -> Fix:
    """Integers must start as floats, or the fraction would be cut off; floats are cast back where they widened."""
    init = argument(node, _INIT.get(loop, 1), "init", "init_val")
    start = at_path(init, path) if init is not None else None
    if "int" in match["before"]:
        if start is None:
            return "", None
        jnp = alias(failing.scope, "jax.numpy")
        dtype = match["after"].partition("[")[0]
        return text(call(f"{jnp}.asarray", start, ast.Constant(dtype))), failing.site.span_of(start)
    dtype = ast.parse(f"{name}.dtype", mode="eval").body
    return text(ast.Call(ast.Attribute(leaving, "astype"), [dtype], [])), body.span_of(leaving)


def _carry_evidence(
    failing: Failing,
    node: ast.Call,
    loop: str,
    path: str,
    body: Function | None,
    leaving: ast.expr | None,
    match: re.Match[str],
) -> tuple[Evidence, ...]:
    init = argument(node, _INIT.get(loop, 1), "init", "init_val")
    start = at_path(init, path) if init is not None else None
    found = []
    if start is not None:
        found.append(
            Evidence(f"enters as {short_type(match['before'])}: {failing.text(start)}", failing.site.span_of(start))
        )
    if body is not None and leaving is not None:
        text_of = body.text(leaving)
        found.append(Evidence(f"leaves as {short_type(match['after'])}: {text_of}", body.span_of(leaving)))
    steps = argument(node, 2, "xs") if loop == "scan" else None
    if steps is not None and (aval := failing.aval(steps)) is not None:
        found.append(Evidence(f"each step gets one row of {failing.text(steps)}: {aval}", failing.site.span_of(steps)))
    return tuple(found)


@on_error("carry-structure", "a loop's carry comes out as another kind of tree, or scan's body is no pair")
def carry_structure(failing: Failing) -> Cause | None:
    """The body of a loop must return the carry with the structure it got: a tuple of as many parts, a dict of the
    same keys. `scan`'s body returns a pair, the carry and the output of the step.

    Sure: JAX compared the structures.
    """
    pair = failing.says(r"scan body output must be a pair, got (.*?)\.?$")
    match = _STRUCTURE.search(failing.message)
    node = failing.node
    if not isinstance(node, ast.Call) or not (pair or match):
        return None
    loop = name_called(node)
    body = function_of(failing.site, argument(node, _BODY.get(loop, 0), "f", "body_fun"))
    results = body.returned() if body is not None else []
    span = body.span_of(results[0]) if body is not None and len(results) == 1 else None
    if pair:
        plain = body is not None and span is not None and not isinstance(results[0], ast.Tuple)
        return Cause(
            title="scan's body must return a pair: the carry and the output of the step",
            explanation=f"It returned {pair[1]}. Return `None` as the second part where there is no output.",
            span=span,
            fix=f"({body.text(results[0])}, None)" if plain and body is not None else "",
            replaces=span,
        )
    assert match is not None
    fix, replaces = _contained(failing, node, body, results) if body is not None else ("", None)
    return Cause(
        title=f"the carry of `{loop}` leaves the body with another structure than it entered with",
        explanation=" ".join(match[2].split()),
        span=span,
        evidence=(Evidence(f"returned: {body.text(results[0])}", span),) if body is not None and span else (),
        fix=fix,
        replaces=replaces,
    )


def _contained(failing: Failing, node: ast.Call, body: Function, results: list[ast.expr]) -> Fix:
    """The carry in the container that it came in."""
    loop = name_called(node)
    init = argument(node, _INIT.get(loop, 1), "init", "init_val")
    leaving = results[0] if len(results) == 1 else None
    if loop == "scan":
        leaving = leaving.elts[0] if isinstance(leaving, ast.Tuple) and len(leaving.elts) == 2 else None
    name = body.parameters[loop == "fori_loop" :][:1]
    if init is None or leaving is None or not name:
        return "", None
    fixed = contained_as(leaving, spelled(init, failing.value(init)), name[0])
    return (text(fixed), body.span_of(leaving)) if fixed is not None else ("", None)
