"""cond and switch whose branches do not fit together, and predicates that are no scalar."""

import ast
import math
import re

from jaxmagic.core.failures.sites import Site
from jaxmagic.core.rules.calls import Fix, argument, made_varying, short_type, varies_over
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.containers import contained_as
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import Function, function_from, function_of
from jaxmagic.core.rules.rewrite import alias, call, expression, text
from jaxmagic.core.source.nodes import name_called
from jaxmagic.records import Evidence

_BRANCHES = re.compile(
    r"(cond|switch) branches must have equal output types.*?output(?: of| at path) (?P<first>.+?) has type "
    r"(?P<one>\S+) but the corresponding output of (?P<second>.+?) has type (?P<other>\S+?),? "
    r"so the (?P<what>[\w ]+) do not match",
    re.DOTALL,
)


@on_error("branch-type", "the branches of cond or switch return different types")
def branch_type(failing: Failing) -> Cause | None:
    """All branches of `cond` and `switch` must return the same shapes and dtypes, since the program goes on with
    one result whichever was taken.

    Sure: JAX compared the types. The fix casts the branch of the narrower dtype, or reshapes one that has as many
    elements as the other.
    """
    match = _BRANCHES.search(failing.message)
    node = failing.node
    if match is None or not isinstance(node, ast.Call):
        return None
    branches = _compared(_branches(failing.site, node), match)
    described = [_branch(branch) for branch in branches]
    pairs = list(zip(described, (match["one"], match["other"]), strict=False)) if len(branches) == 2 else []
    evidence = tuple(
        Evidence(f"{words} returns {short_type(kind)}", branch.span_of(branch.returned()[0]))
        for branch, (words, kind) in zip(branches, pairs, strict=False)
        if branch is not None and branch.returned()
    )
    same = {"dtypes": _same_dtype, "shapes": _same_shape}.get(match["what"])
    fix, replaces = same(failing, branches, match) if same is not None else ("", None)
    if "manual" in match["what"]:
        fix, replaces = _varying(failing, branches, match)
    between = " and ".join(f"{words} {short_type(kind)}" for words, kind in pairs) or (
        f"{match['first']} {short_type(match['one'])} and {match['second']} {short_type(match['other'])}"
    )
    return Cause(
        title=f"the branches return different {'types' if 'manual' in match['what'] else match['what']}: {between}",
        explanation=f"The program goes on with one result whichever branch of `{match[1]}` ran, so both must have "
        "one type.",
        evidence=evidence,
        fix=fix,
        replaces=replaces,
    )


def _varying(failing: Failing, branches: list[Function | None], match: re.Match[str]) -> Fix:
    """The result that is the same on all devices, as one that may differ."""
    one, other = varies_over(match["one"]), varies_over(match["other"])
    branch = branches[0 if len(one) < len(other) else 1] if len(branches) == 2 else None
    axes = [axis for axis in {*one, *other} if axis not in one or axis not in other]
    if branch is None or len(branch.returned()) != 1 or (set(one) - set(other) and set(other) - set(one)):
        return "", None
    (result,) = branch.returned()
    if isinstance(result, ast.Tuple | ast.List | ast.Dict):
        return "", None
    return made_varying(alias(failing.scope, "jax.lax"), result, sorted(axes)), branch.span_of(result)


def _compared(branches: list[Function | None], match: re.Match[str]) -> list[Function | None]:
    """The two of a switch's branches that JAX found to differ: `branch 0`, `branch1`."""
    numbers = [int(found[1]) for name in ("first", "second") if (found := re.fullmatch(r"branch ?(\d+)", match[name]))]
    return [branches[at] for at in numbers] if len(numbers) == 2 and max(numbers) < len(branches) else branches


def _branches(site: Site, node: ast.Call) -> list[Function | None]:
    if name_called(node) == "switch":
        listed = argument(node, 1, "branches")
        if isinstance(listed, ast.Tuple | ast.List):
            return [function_of(site, branch) for branch in listed.elts]
        held = site.scope.get(listed)
        return [function_from(each) for each in held] if isinstance(held, tuple | list) else []
    return [
        function_of(site, argument(node, 1, "true_fun")),
        function_of(site, argument(node, 2, "false_fun")),
    ]


def _branch(branch: Function | None) -> str:
    if branch is None:
        return "a branch"
    return f"`{branch.text(branch.node)}`" if branch.name == "lambda" else f"`{branch.name}`"


def _same_dtype(failing: Failing, branches: list[Function | None], match: re.Match[str]) -> Fix:
    """The integer (or narrower) branch, cast to the dtype of the other."""
    kinds = [match["one"], match["other"]]
    if len(branches) != 2:
        return "", None
    narrow = 0 if _rank(kinds[0]) < _rank(kinds[1]) else 1
    branch = branches[narrow]
    if branch is None or len(branch.returned()) != 1:
        return "", None
    (result,) = branch.returned()
    if isinstance(result, ast.Tuple | ast.List | ast.Dict):
        return "", None
    dtype = kinds[1 - narrow].lstrip("~").partition("[")[0]
    cast = call(f"{alias(failing.scope, 'jax.numpy')}.asarray", result, ast.Constant(dtype))
    return text(cast), branch.span_of(result)


def _same_shape(failing: Failing, branches: list[Function | None], match: re.Match[str]) -> Fix:
    """The second branch in the shape of the first, where both have as many elements."""
    one, other = (_shape(match[name]) for name in ("one", "other"))
    branch = branches[1] if len(branches) == 2 else None
    if one is None or other is None or math.prod(one) != math.prod(other) or branch is None:
        return "", None
    if len(branch.returned()) != 1 or isinstance(branch.returned()[0], ast.Tuple | ast.List | ast.Dict):
        return "", None
    (result,) = branch.returned()
    shape = expression(repr(one))
    return text(call(f"{alias(failing.scope, 'jax.numpy')}.reshape", result, shape)), branch.span_of(result)


def _shape(kind: str) -> tuple[int, ...] | None:
    sizes = re.search(r"\[([\d,]*)\]", kind)
    return tuple(int(size) for size in sizes[1].split(",") if size) if sizes else None


def _rank(kind: str) -> tuple[int, int]:
    order = ("bool", "uint", "int", "float8", "bfloat", "float", "complex")
    name = kind.lstrip("~").partition("[")[0]
    family = max((index for index, known in enumerate(order) if name.startswith(known)), default=0)
    return family, int(re.sub(r"\D", "", name) or 0)


@on_error("branch-structure", "the branches of cond or switch return trees of different structure")
def branch_structure(failing: Failing) -> Cause | None:
    """All branches of `cond` and `switch` must return trees of the same structure: as many values, the same keys,
    the same kinds of container.

    Sure: JAX compared the structures.
    """
    if not failing.says(r"(cond|switch) branch outputs must have the same pytree structure"):
        return None
    node = failing.node
    branches = _branches(failing.site, node) if isinstance(node, ast.Call) else []
    known = [branch for branch in branches if branch is not None and branch.returned()]
    missing = _missing_keys([branch.returned()[0] for branch in known])
    fix, replaces = _same_container(known)
    return Cause(
        title="the branches return different structures: "
        + " and ".join(f"`{branch.text(branch.returned()[0])}`" for branch in known)
        + (f": only one has {missing}" if missing else ""),
        explanation="The program goes on with one result whichever branch ran: both must return as many values, in "
        "the same kind of container.",
        evidence=tuple(
            Evidence(f"{_branch(branch)} returns `{branch.text(branch.returned()[0])}`", branch.span_of(branch.node))
            for branch in known
        ),
        fix=fix,
        replaces=replaces,
    )


def _same_container(branches: list[Function]) -> Fix:
    """One branch's result in the container of the other's."""
    if len(branches) != 2 or any(len(branch.returned()) != 1 for branch in branches):
        return "", None
    results = [branch.returned()[0] for branch in branches]
    for at in (1, 0):
        like = results[1 - at]
        plain = isinstance(like, ast.Name | ast.BinOp | ast.Subscript | ast.UnaryOp)
        fixed = contained_as(results[at], ast.Name("x") if plain else like)
        if fixed is not None:
            return text(fixed), branches[at].span_of(results[at])
    return "", None


def _missing_keys(results: list[ast.expr]) -> str:
    """Keys that only one of two dict displays has."""
    keys = [
        {key.value for key in result.keys if isinstance(key, ast.Constant)}
        for result in results
        if isinstance(result, ast.Dict)
    ]
    return ", ".join(repr(key) for key in sorted(map(str, keys[0] ^ keys[1]))) if len(keys) == 2 else ""


@on_error("predicate-not-scalar", "the condition of cond, or of a while_loop, is not one True or False")
def predicate_not_scalar(failing: Failing) -> Cause | None:
    """`cond` takes one branch, and `while_loop` stops at one moment: their condition is a boolean scalar. Reduce an
    array with `.any()` or `.all()`, or choose element by element with `jnp.where`.

    Sure: JAX looked at its type.
    """
    pred = failing.says(r"Pred must be a scalar")
    loop = failing.says(
        r"cond_fun must return a boolean scalar, but got output type\(s\) \[(?:ShapedArray\()?(\w+\[[\d,]*\])"
    )
    node = failing.node
    if not isinstance(node, ast.Call) or not (pred or loop):
        return None
    if pred:
        given = argument(node, 0, "pred")
        if given is None:
            return None
        return Cause(
            title=f"cond's predicate {failing.shown(given)} is not a scalar",
            explanation="One branch is taken for the whole array. `jnp.where` chooses element by element; `.any()` "
            "and `.all()` make one condition of many.",
            evidence=failing.evidence(given),
            fix=f"{alias(failing.scope, 'jax.numpy')}.any({failing.text(given)})",
            replaces=failing.site.span_of(given),
        )
    condition = function_of(failing.site, argument(node, 0, "cond_fun"))
    result = condition.returned()[0] if condition is not None and condition.returned() else None
    assert loop is not None
    span = condition.span_of(result) if condition is not None and result is not None else None
    spelled = condition.text(result) if condition is not None and result is not None else ""
    many = "[]" not in loop[1] and spelled
    return Cause(
        title=f"while_loop's condition returns {short_type(loop[1])}, not one True or False",
        explanation="The loop stops for all elements at once. `.any()` goes on while one element still wants to.",
        span=span,
        fix=f"({spelled}).any()" if many else (f"({spelled}) != 0" if spelled else ""),
        replaces=span,
    )
