"""Loops of JAX's that can't start: what they go over has no length, or several, or the body takes other arguments."""

import ast
import re

import jax

from jaxmagic.core.rules.calls import argument
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import Function, function_of
from jaxmagic.core.rules.rewrite import alias, call, copied, replaced, taking, text, with_parameters
from jaxmagic.core.rules.shardings import given
from jaxmagic.core.rules.wording import listed
from jaxmagic.core.source.nodes import name_called
from jaxmagic.records import Evidence, Span

Fix = tuple[str, Span | None]


@on_error(
    "scan-length", "scan or map goes over arrays of different lengths, over something without a length, or nothing"
)
def scan_length(failing: Failing) -> Cause | None:
    """`scan` goes over axis 0 of all arrays in `xs` at once, so these are equally long; `length` says how many steps
    there are where `xs` is None. A number or a `range` is no array.

    Sure: JAX looked at the lengths. `jnp.arange` goes over the same numbers as a `range`.
    """
    node, name = failing.node, _called(failing)
    if not isinstance(node, ast.Call) or name not in ("scan", "map", "associative_scan"):
        return None
    xs = argument(node, 2 if name == "scan" else 1, "xs", "elems")
    differ = failing.says(r"scan got values with different leading axis sizes: ([\d, ]+)")
    differ = differ or failing.says(r"inputs to associative_scan must have the same first dimension")
    if differ:
        return _differing(failing, node, xs)
    length = failing.says(r"scan got `length` argument of (\d+) which disagrees with leading axis sizes \[([\d, ]+)\]")
    if length:
        keywords = [word for word in node.keywords if word.arg != "length"]
        shorter = len(node.args) < 4 and len(keywords) < len(node.keywords)
        return Cause(
            title=f"`length` is {length[1]}, and `{failing.text(xs) if xs is not None else 'xs'}` has {length[2]} rows",
            explanation="`scan` makes one step for each row. `length` is needed only where `xs` is None.",
            evidence=failing.evidence(*([xs] if xs is not None else [])),
            fix=text(copied(ast.Call(node.func, node.args, keywords))) if shorter else "",
            replaces=failing.span,
        )
    if failing.says(r"scan got no values to scan over and `length` not provided"):
        return Cause(
            title="`xs` is None, and `length` does not say how many steps there are",
            explanation="`scan` makes one step for each row of `xs`; without rows, `length=` says how many.",
            evidence=(Evidence("no arrays in `xs`", failing.site.span_of(xs) if xs is not None else failing.span),),
        )
    flat = failing.says(r"scan got value with no leading axis to scan over: (.+?)\.$")
    ranged = failing.says(r"Argument 'range\(.*?\)' of type '?<class 'range'>")
    return _no_axis(failing, node, xs, ranged is not None) if flat or ranged else None


def _called(failing: Failing) -> str:
    """Which loop of `jax.lax`, or `tree.map`, the failing expression calls; empty for anything else."""
    function = failing.scope.get(failing.node.func) if isinstance(failing.node, ast.Call) else None
    if function is jax.tree.map or function is jax.tree_util.tree_map:
        return "tree.map"
    name = getattr(function, "__name__", "")
    return name if isinstance(name, str) and function is not None and getattr(jax.lax, name, None) is function else ""


def _differing(failing: Failing, node: ast.Call, xs: ast.expr | None) -> Cause:
    inside = {id(part) for part in ast.walk(xs)} if xs is not None else set()
    arrays = [each for each in given(failing) if id(each.node) in inside and each.aval is not None and each.aval.shape]
    sizes = " and ".join(f"`{each.name}` has {each.aval.shape[0]}" for each in arrays[:4] if each.aval is not None)
    return Cause(
        title=f"{name_called(node)} goes over arrays of different lengths: {sizes}",
        explanation="Each step takes one row of every array in `xs`, so all have the same size along axis 0. What is "
        "the same in every step is left out of `xs`: the body can use it as it is.",
        evidence=tuple(Evidence(f"{each.name}: {each.aval}", failing.site.span_of(each.node)) for each in arrays),
    )


def _no_axis(failing: Failing, node: ast.Call, xs: ast.expr | None, ranged: bool) -> Cause | None:
    if xs is None:
        return None
    shown, jnp = failing.text(xs), alias(failing.scope, "jax.numpy")
    counted = type(failing.scope.get(xs)) is int
    fix = ""
    if isinstance(xs, ast.Call) and name_called(xs) == "range":
        fix = text(replaced(node, xs, ast.Call(ast.parse(f"{jnp}.arange", mode="eval").body, xs.args, [])))
    elif ranged:
        fix = text(replaced(node, xs, call(f"{jnp}.array", xs)))
    elif counted:
        fix = text(replaced(node, xs, call(f"{jnp}.arange", xs)))
    return Cause(
        title=f"`{shown}` is {'a range' if ranged else 'a number'}, and {name_called(node)} goes over rows",
        explanation=f"`{jnp}.arange` makes an array of the numbers; where the step does not need them, give `None` and "
        "`length=`.",
        evidence=(Evidence(f"xs is {shown}", failing.site.span_of(xs)),),
        fix=fix,
        replaces=failing.span,
    )


_GETS = {"scan": ("the carry and a row of `xs`", 2), "fori_loop": ("the index and the carry", 2), "map": ("a row", 1)}
_GETS |= {"while_loop": ("the carry", 1)}
_FUNCTION = {"scan": (0, "f"), "fori_loop": (2, "body_fun"), "map": (0, "f"), "while_loop": (1, "body_fun")}
_COUNT = re.compile(
    r"(?P<name>[\w<>.]+)\(\) (?:takes (?P<takes>\d+) positional arguments? but (?P<given>\d+) (?:was|were) given|"
    r"missing (?P<missing>\d+) required positional arguments?: (?P<which>.+))$"
)


@on_error("body-arguments", "the function given to a loop, map or tree.map takes another number of arguments")
def body_arguments(failing: Failing) -> Cause | None:
    """`scan` calls its body with the carry and a row, `fori_loop` with the index and the carry, `while_loop` with the
    carry, `map` with a row: each of them one argument, which may be a tuple; `tree.map` with a leaf of each tree.
    Python only says how many were given.

    Sure: JAX's own call of the body failed.
    """
    node, name = failing.node, _called(failing)
    if not isinstance(node, ast.Call) or not name or failing.kind != "TypeError":
        return None
    if name == "tree.map" and failing.says(r"object is not callable$"):
        return _swapped(failing, node)
    match = _COUNT.search(failing.message)
    if match is None:
        return None
    if name == "map" and match["name"] == "map" and match["takes"] == "2":
        return _mapped(failing, node)
    trees = len(node.args) - 1
    gets = {**_GETS, "tree.map": ("a leaf" if trees == 1 else f"a leaf of each of {trees} trees", trees)}
    if name not in gets:
        return None
    at, word = _FUNCTION.get(name, (0, "f"))
    body = function_of(failing.site, argument(node, at, word, "f"))
    what, count = gets[name]
    if body is None or not failing.machinery or len(body.parameters) == count:
        return None
    if match["name"].rpartition(".")[2] not in (body.name, f"<{body.name}>"):
        return None
    fix, replaces = _with_arguments(body, name, count)
    taken = body.parameters
    return Cause(
        title=f"`{name}` calls its function with {what}, and {_shown(body)} takes {_told(taken)}",
        explanation=f"It gets {count} argument{'s' * (count > 1)}."
        + ("" if name == "tree.map" else " Several values are passed as one tuple, which the body takes apart."),
        span=body.span_of(body.node) if not isinstance(body.node, ast.Lambda) else None,
        evidence=(Evidence("called here", failing.span),),
        fix=fix,
        replaces=replaces,
    )


def _swapped(failing: Failing, node: ast.Call) -> Cause | None:
    """`jax.tree.map(params, f)`."""
    if len(node.args) < 2 or callable(failing.scope.get(node.args[0])):
        return None
    at = next(
        (at for at, arg in enumerate(node.args) if isinstance(arg, ast.Lambda) or callable(failing.scope.get(arg))), 0
    )
    others = [arg for arg in node.args if arg is not node.args[at]]
    return Cause(
        title=f"`{failing.text(node.func)}` takes the function first, and `{failing.text(node.args[0])}` is none",
        explanation="The trees come after it.",
        evidence=(Evidence("not a function", failing.site.span_of(node.args[0])),),
        fix=text(copied(ast.Call(node.func, [node.args[at], *others], node.keywords))) if at else "",
        replaces=failing.span,
    )


def _shown(body: Function) -> str:
    return f"`{body.text(body.node)}`"[:120] if body.name == "lambda" else f"`{body.name}`"


def _told(names: list[str]) -> str:
    return f"{listed(names)}" if names else "none"


def _with_arguments(body: Function, loop: str, count: int) -> Fix:
    """One more parameter: the index that comes first, or a row that is not used."""
    if len(body.parameters) != count - 1 or loop not in ("scan", "fori_loop") or body.bound:
        return "", None
    name = next(each for each in ("_", "_x", "_i") if each not in body.parameters)
    name = name if loop == "scan" else next(each for each in ("i", "_", "index") if each not in body.parameters)
    if isinstance(body.node, ast.Lambda):
        arguments = copied(body.node.args)
        arguments.args.insert(len(arguments.args) if loop == "scan" else 0, ast.arg(name))
        return text(ast.Lambda(arguments, body.node.body)), body.span_of(body.node)
    return with_parameters(body.file, body.node, [name], in_front=loop == "fori_loop")


def _mapped(failing: Failing, node: ast.Call) -> Cause:
    """`jax.lax.map(f, a, b)`, as Python's own map would be called."""
    fix = ""
    if len(node.args) > 2 and not any(isinstance(arg, ast.Starred) for arg in node.args):
        apart = taking(["xs"], ast.Call(node.args[0], [ast.Starred(ast.Name("xs"))], []))
        fix = text(copied(ast.Call(node.func, [apart, ast.Tuple(node.args[1:])], node.keywords)))
    return Cause(
        title=f"`{failing.text(node.func)}` goes over one argument, and got {len(node.args) - 1}",
        explanation="Unlike Python's `map` it takes one tree of arrays, whose rows the function gets as one argument.",
        evidence=failing.evidence(*node.args[1:]),
        fix=fix,
        replaces=failing.span,
    )
