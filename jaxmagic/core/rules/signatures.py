"""Functions of the user's that a transformation calls with too few arguments, too many, or one of another name."""

import ast
import difflib
import re

from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import Function, function_of
from jaxmagic.core.rules.rewrite import copied, extended, replaced, text
from jaxmagic.core.rules.wording import listed
from jaxmagic.core.source.nodes import own_nodes
from jaxmagic.records import Evidence

_SAYS = re.compile(
    r"^(?P<name>[\w.<>]+)\(\) (?:missing \d+ required (?:positional|keyword-only) arguments?: (?P<missing>'.+')"
    r"|takes (?:from \d+ to )?(?P<takes>\d+) positional arguments? but (?P<given>\d+) (?:was|were) given"
    r"|got an unexpected keyword argument '(?P<word>\w+)')"
)


@on_error("argument-count", "a transformed function is called with too few or too many arguments, or by another name")
def argument_count(failing: Failing) -> Cause | None:
    """`jax.vmap(f)(x)` and `jax.grad(f)(x)` hand on what they get, so the call has the arguments of `f` itself. A batch
    that `f` takes apart is one argument: a tuple.

    Sure: Python's call of the function failed, and the call that led to it is the user's.
    """
    said, node = _SAYS.search(failing.message), failing.node
    if said is None or failing.kind != "TypeError" or not failing.machinery or not isinstance(node, ast.Call):
        return None
    function = function_of(failing.site, innermost(node.func))
    if function is None or said["name"].rpartition(".")[2] not in (function.name, f"<{function.name}>"):
        return None
    names = [*function.parameters, *(arg.arg for arg in function.node.args.kwonlyargs)]
    if said["missing"]:
        missing = re.findall(r"'(\w+)'", said["missing"])
        what, fix = f"{listed(missing)} {'is' if len(missing) == 1 else 'are'} not given", _with(failing, node, missing)
    elif said["given"]:
        given = int(said["given"]) - function.bound
        what, fix = f"{given} are given by position", _packed(function, node)
    else:
        what, fix = f"`{said['word']}` is none of them", _renamed(node, said["word"], names)
    return Cause(
        title=f"`{function.name}` takes {listed(names) or 'no arguments'}, and {what}",
        explanation="A transformed function is called with the arguments of the function itself.",
        evidence=(Evidence(f"`{function.name}` is defined here", function.span_of(function.node)),),
        fix=fix,
        replaces=failing.span,
    )


def innermost(node: ast.expr) -> ast.expr:
    """`f` of `jax.jit(jax.vmap(f))`."""
    while isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    return node


def _with(failing: Failing, node: ast.Call, missing: list[str]) -> str:
    """The call with variables that have the names of the parameters."""
    known = {*failing.scope.locals, *failing.scope.globals}
    if not set(missing) <= known or any(callable(failing.scope.get(ast.Name(name))) for name in missing):
        return ""
    added = [ast.Name(name) for name in missing]
    if "positional" in failing.message and not node.keywords:
        return text(copied(ast.Call(node.func, [*node.args, *added], [])))
    return text(copied(extended(node, **dict(zip(missing, added, strict=True)))))


def _packed(function: Function, node: ast.Call) -> str:
    """`loss(w, x, y)` as `loss(w, (x, y))`, where the function takes its last argument apart into as many names."""
    names = function.parameters
    for part in own_nodes(function.node):
        match part:
            case ast.Assign(targets=[ast.Tuple(elts=taken)], value=ast.Name(id=name)) if names and name == names[-1]:
                if len(node.args) == len(names) - 1 + len(taken):
                    kept, rest = node.args[: len(names) - 1], node.args[len(names) - 1 :]
                    return text(copied(ast.Call(node.func, [*kept, ast.Tuple(rest)], node.keywords)))
    return ""


def _renamed(node: ast.Call, word: str, names: list[str]) -> str:
    near = difflib.get_close_matches(word, names, 1)
    for keyword in node.keywords:
        if keyword.arg == word and near:
            return text(replaced(node, keyword, ast.keyword(near[0], copied(keyword.value))))
    return ""
