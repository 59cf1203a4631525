"""Functions with a derivative of their own, whose rules give back something else than JAX needs."""

import ast
import functools
import re
from collections.abc import Iterator
from typing import Any

from jaxmagic.core.rules.calls import short_type
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import Function, function_from
from jaxmagic.core.rules.rewrite import alias, call, replaced, text, with_parameters
from jaxmagic.core.rules.wording import listed
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import last_name, loaded, name_called
from jaxmagic.records import Evidence, Span

_DEEPEST = 6
_BACKWARD = re.compile(
    r"Custom VJP bwd rule.*? must produce an output with the same container.*?got bwd output structure "
    r"PyTreeDef\((?P<got>.*)\) for primal input structure PyTreeDef\((?P<wanted>.*)\)\.",
    re.DOTALL,
)
_COTANGENT = re.compile(
    r"Custom VJP bwd rule.*? at output(?P<path>\S+) the bwd rule produced an output of type (?P<got>\S+) "
    r"corresponding to an input of type (?P<wanted>\S+?),? so the \w+ do not match"
)
_FORWARD = re.compile(r"Custom VJP fwd rule (?P<rule>\S+) for function (?P<name>\S+) must produce a pair")
_PAIR = re.compile(r"Custom JVP rule (?P<rule>\S+) for function (?P<name>\S+) must produce a pair")
_TANGENT = re.compile(
    r"Custom JVP rule must produce primal and tangent outputs with corresponding shapes and dtypes\. Expected "
    r"(?P<wanted>\S+) \(tangent type of (?P<primal>\S+)\) but got (?P<got>\S+?)\.?(?:\s|$)"
)


@on_error("custom-rule-result", "the rule of a custom_vjp or custom_jvp returns something else than JAX needs")
def custom_rule_result(failing: Failing) -> Cause | None:
    """The backward rule of a `custom_vjp` returns a tuple with one cotangent for each argument that is differentiated,
    each of that argument's shape and dtype, or None where there is none; its forward rule returns the result and what
    the backward rule is to get. The rule of a `custom_jvp` returns the result and its tangent, which has the result's
    shape and dtype. JAX points at the `grad`; here is the rule.

    Sure: JAX compared what the rule returned. The rule is found by the function that JAX called.
    """
    for pattern, explain in (
        (_BACKWARD, _cotangents),
        (_COTANGENT, _cotangent),
        (_FORWARD, _forward),
        (_PAIR, _tangents),
        (_TANGENT, _tangent),
    ):
        if (match := pattern.search(failing.message)) is not None:
            return explain(failing, match)
    return None


def _rule(failing: Failing) -> Function | None:
    """The user's function that the innermost frames of JAX's were about to use, or had called."""
    for frame in reversed(failing.machinery):
        for value in list(frame.f_locals.values()):
            if isinstance(value, functools.partial) and (found := _behind(value, 0)) is not None:
                return found
    return None


def _behind(value: Any, depth: int) -> Function | None:
    if isinstance(value, functools.partial) and depth < _DEEPEST:
        held = (_behind(part, depth + 1) for part in (value.func, *value.args))
        return next((found for found in held if found is not None), None)
    return function_from(value) if callable(value) else None


def _primal(failing: Failing, rule: Function | None) -> Function | None:
    """The function that a rule belongs to: `f` of `f.defvjp(fwd, bwd)`, in the file of the rule."""
    if rule is None:
        return None
    tree = source.tree(rule.file)
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="defvjp" | "defjvp"), args=args):
                if any(part is rule.node or last_name(part) == rule.name for part in args):
                    return next((each for each in _functions(tree, rule.file) if each.name == last_name(owner)), None)
    return None


def _functions(tree: ast.AST | None, file: str) -> Iterator[Function]:
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef):
            yield Function(file, node)


def _result(rule: Function | None) -> ast.expr | None:
    results = rule.returned() if rule is not None else []
    return results[0] if len(results) == 1 else None


def _at(rule: Function | None, part: ast.expr | None) -> Span | None:
    return rule.span_of(part) if rule is not None and part is not None else None


def _undifferentiated(primal: Function | None) -> int:
    """How many arguments a custom_vjp leaves out of its derivative."""
    marked = primal.node.decorator_list if primal is not None and isinstance(primal.node, ast.FunctionDef) else []
    for node in (part for each in marked for part in ast.walk(each)):
        if isinstance(node, ast.keyword) and node.arg in ("nondiff_argnums", "nondiff_argnames"):
            return len(node.value.elts) if isinstance(node.value, ast.Tuple | ast.List) else 1
    return 0


def _leaves(structure: str) -> int | None:
    """How many parts a flat tuple has; None for anything else, which JAX writes with brackets inside."""
    inner = structure.strip()
    if not (inner.startswith("(") and inner.endswith(")")):
        return None
    parts = [part for part in inner[1:-1].split(",") if part.strip()]
    return len(parts) if all(part.strip() in ("*", "None") for part in parts) else None


def _cotangents(failing: Failing, match: re.Match[str]) -> Cause:
    rule = _rule(failing)
    primal, result = _primal(failing, rule), _result(rule)
    got, wanted = _leaves(match["got"]), _leaves(match["wanted"])
    apart = _undifferentiated(primal)
    taken = primal.parameters[apart:] if primal is not None and apart == 0 else []
    span = _at(rule, result)
    fix = ""
    if result is not None and match["got"].strip() == "*" and wanted == 1:
        fix = text(ast.Tuple([result]))
    elif isinstance(result, ast.Tuple) and got is not None and wanted == got - apart:
        kept = [part for part in result.elts if not (isinstance(part, ast.Constant) and part.value is None)]
        fix = text(ast.Tuple(kept)) if len(kept) == wanted else ""
    name = rule.name if rule is not None else "bwd"
    returns = "no tuple" if got is None else f"{got} cotangent{'s' * (got != 1)}"
    function = f"`{primal.name}`" if primal is not None else "the function"
    count = f"{wanted} argument{'s' * (wanted != 1)}" if wanted is not None else "other arguments"
    named = f" ({', '.join(taken)})" if taken and len(taken) == wanted else ""
    outside = " Arguments of `nondiff_argnums` get none." if apart else ""
    return Cause(
        title=f"the backward rule `{name}` returns {returns}, and {function} "
        f"{'is differentiated in' if apart else 'takes'} {count}{named}",
        explanation="The rule returns a tuple with one cotangent for each argument, in order; None for one that has no "
        f"derivative.{outside}",
        span=span,
        evidence=(Evidence("differentiated here", failing.span),),
        fix=fix,
        replaces=span,
    )


def _cotangent(failing: Failing, match: re.Match[str]) -> Cause:
    rule = _rule(failing)
    primal, result = _primal(failing, rule), _result(rule)
    index = int(found[0]) if (found := re.findall(r"^\[(\d+)\]", match["path"])) else 0
    part = result.elts[index] if isinstance(result, ast.Tuple) and index < len(result.elts) else result
    names = primal.parameters[_undifferentiated(primal) :] if primal is not None else []
    argument = f"`{names[index]}`" if index < len(names) and not _undifferentiated(primal) else f"argument {index}"
    span = _at(rule, part)
    shown = f"`{source.text_of(span)}`" if span is not None else f"output {index} of the backward rule"
    return Cause(
        title=f"{shown} is {short_type(match['got'])}, the cotangent of {argument}, "
        f"which is {short_type(match['wanted'])}",
        explanation="A cotangent has the shape and dtype of the argument that it is for: the axes that broadcasting "
        "added have to be summed over, and the order is that of the arguments.",
        span=span,
        evidence=(Evidence("differentiated here", failing.span),),
    )


def _forward(failing: Failing, match: re.Match[str]) -> Cause:
    rule = _rule(failing)
    result = _result(rule)
    span = _at(rule, result)
    backward = _backward_of(rule)
    unread = backward is not None and backward.parameters and backward.parameters[0] not in loaded(backward.node)
    fix = text(ast.Tuple([result, ast.Constant(None)])) if result is not None and unread else ""
    return Cause(
        title=f"the forward rule `{match['rule']}` of `{match['name']}` returns no pair",
        explanation="It returns two things: the result, and what the backward rule is to get as its first argument "
        "(the arguments that it needs, or None).",
        span=span,
        evidence=(Evidence("differentiated here", failing.span),),
        fix=fix,
        replaces=span,
    )


def _backward_of(forward: Function | None) -> Function | None:
    if forward is None:
        return None
    tree = source.tree(forward.file)
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.Call(func=ast.Attribute(attr="defvjp"), args=[first, second]):
                if first is forward.node or last_name(first) == forward.name:
                    lambdas = Function(forward.file, second) if isinstance(second, ast.Lambda) else None
                    return lambdas or next(
                        (each for each in _functions(tree, forward.file) if each.name == last_name(second)), None
                    )
    return None


def _tangents(failing: Failing, match: re.Match[str]) -> Cause:
    rule = _rule(failing)
    result = _result(rule)
    span = _at(rule, result)
    fix = ""
    if rule is not None and result is not None and len(rule.parameters) == 2 and not isinstance(result, ast.Tuple):
        value = ast.Call(ast.Name(match["name"].rpartition(".")[2]), [ast.Starred(ast.Name(rule.parameters[0]))], [])
        fix = text(ast.Tuple([value, result])) if match["name"].isidentifier() else ""
    return Cause(
        title=f"the rule `{match['rule']}` of `{match['name']}` returns no pair",
        explanation="It returns two things: the result of the function, and its tangent.",
        span=span,
        evidence=(Evidence("differentiated here", failing.span),),
        fix=fix,
        replaces=span,
    )


def _tangent(failing: Failing, match: re.Match[str]) -> Cause:
    rule = _rule(failing)
    result = _result(rule)
    part = result.elts[1] if isinstance(result, ast.Tuple) and len(result.elts) == 2 else None
    span = _at(rule, part)
    same = match["wanted"].partition("[")[2] == match["got"].partition("[")[2]
    dtype = match["wanted"].lstrip("~").partition("[")[0]
    fix = text(ast.Call(ast.Attribute(part, "astype"), [ast.Constant(dtype)], [])) if part is not None and same else ""
    shown = f"`{source.text_of(span)}`" if span is not None else "the tangent of a custom_jvp rule"
    return Cause(
        title=f"{shown} is {short_type(match['got'])}, the tangent of a result that is {short_type(match['primal'])}",
        explanation="The tangent of a result has its shape and dtype: where the function reduces, the tangent is "
        "reduced in the same way.",
        span=span,
        evidence=(Evidence("differentiated here", failing.span),),
        fix=fix,
        replaces=span,
    )


_COUNT = re.compile(
    r"(?P<name>[\w<>.]+)\(\) (?:takes \d+ positional arguments? but \d+ (?:was|were) given|missing \d+)"
)


@on_error("custom-rule-arguments", "the forward or backward rule of a custom_vjp takes other arguments than it gets")
def custom_rule_arguments(failing: Failing) -> Cause | None:
    """The forward rule gets the arguments of the function; the backward rule what the forward rule kept, and the
    cotangent of the result, with the arguments of `nondiff_argnums` in front.

    Sure: JAX's own call of the rule failed.
    """
    match = _COUNT.search(failing.message) if failing.kind == "TypeError" else None
    if match is None or not any(
        "custom_derivatives" in frame.f_globals.get("__name__", "") for frame in failing.machinery
    ):
        return None
    for file, tree in reversed(failing.sources):
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=owner, attr="defvjp"), args=[one, other]):
                    known = {each.name: each for each in _functions(tree, file)}
                    for part, backward in ((one, False), (other, True)):
                        rule, primal = known.get(last_name(part)), known.get(last_name(owner))
                        if rule is not None and primal is not None and rule.name == match["name"].rpartition(".")[2]:
                            return _gets(failing, rule, primal, backward)
    return None


def _gets(failing: Failing, rule: Function, primal: Function, backward: bool) -> Cause | None:
    own = rule.parameters
    apart = _apart(primal)
    wanted = [*apart, *(own[-2:] if len(own) >= 2 else ["res", "g"])] if backward else primal.parameters
    if len(own) == len(wanted):
        return None
    fix, replaces = "", None
    if isinstance(rule.node, ast.FunctionDef) and (backward or own == wanted[: len(own)]):
        added = apart if backward else [name for name in wanted if name not in own]
        fix, replaces = with_parameters(rule.file, rule.node, added, in_front=backward)
    kind = "backward" if backward else "forward"
    why = (
        "It gets what the forward rule kept and the cotangent"
        + (f", and in front {listed(apart)}, which `nondiff_argnums` sets apart." if apart else ".")
        if backward
        else "It gets the arguments of the function."
    )
    return Cause(
        title=f"the {kind} rule `{rule.name}` gets {len(wanted)} arguments, and takes {listed(own) or 'none'}",
        explanation=why,
        span=replaces,
        evidence=(Evidence("differentiated here", failing.span),),
        fix=fix if len(own) < len(wanted) and (not backward or len(own) == 2) else "",
        replaces=replaces,
    )


def _apart(primal: Function) -> list[str]:
    """Names of the arguments that `nondiff_argnums` names."""
    marked = primal.node.decorator_list if isinstance(primal.node, ast.FunctionDef) else []
    words = [part for each in marked for part in ast.walk(each) if isinstance(part, ast.keyword)]
    for word in words:
        if word.arg == "nondiff_argnums":
            numbers = [part.value for part in ast.walk(word.value) if isinstance(part, ast.Constant)]
            return [primal.parameters[at] for at in numbers if type(at) is int and at < len(primal.parameters)]
    return []


_GOT = re.compile(r"for argument to VJP function: got (?P<got>\S+?),? but expected (?P<wanted>\S+) because")


@on_error("cotangent-type", "the function that vjp returns got a cotangent of another type than the result")
def cotangent_type(failing: Failing) -> Cause | None:
    """`y, pull = jax.vjp(f, x)`: `pull` takes a cotangent for each number of `y`, an array of its shape and dtype. Ones
    give the gradient of the sum.

    Sure: JAX compared the types. The fix is offered for a single number.
    """
    match = _GOT.search(failing.message)
    node = failing.node
    if match is None or not isinstance(node, ast.Call):
        return None
    got, wanted = short_type(match["got"]), short_type(match["wanted"])
    sizes = re.search(r"\[([\d,]+)\]", wanted)
    number = "[]" in got and len(node.args) == 1 and not node.keywords and sizes is not None
    fix = ""
    if number and sizes is not None:
        shape = ast.parse(f"({sizes[1]},)", mode="eval").body
        dtype = ast.Constant(match["wanted"].lstrip("~").partition("[")[0])
        full = call(f"{alias(failing.scope, 'jax.numpy')}.full", shape, node.args[0], dtype)
        fix = text(replaced(node, node.args[0], full))
    given = f"`{failing.text(node.args[0])}`" if node.args else "the cotangent"
    return Cause(
        title=f"{given} is {got}, and the result that it is the cotangent of is {wanted}",
        explanation="A cotangent has the shape and dtype of the result; ones give the gradient of the result's sum.",
        evidence=failing.evidence(*node.args),
        fix=fix,
        replaces=failing.span,
    )


@on_error("custom-rule-missing", "a custom_vjp or custom_jvp without a rule, or one asked for the other direction")
def custom_rule_missing(failing: Failing) -> Cause | None:
    """A function with `custom_vjp` has a derivative backwards only (`grad`, `jacrev`), given by `f.defvjp(fwd, bwd)`;
    one with `custom_jvp` gets it from `@f.defjvp` and has both directions.

    Sure: JAX looked for the rule.
    """
    none = failing.says(r"^No (?P<kind>VJP|JVP) defined for custom_\w+ function (?P<name>\S+) using")
    forward = failing.says(r"can't apply forward-mode autodiff \(jvp\) to a custom_vjp function")
    if not (none or forward):
        return None
    if none:
        way = "defvjp(fwd, bwd)" if none["kind"] == "VJP" else "defjvp(rule)"
        definition = _defined(failing, none["name"])
        return Cause(
            title=f"`{none['name']}` has a custom_{none['kind'].lower()} and no rule",
            explanation=f"The decorator only announces a derivative: `{none['name']}.{way}` gives it.",
            span=definition.span_of(definition.node) if definition is not None else None,
            evidence=(Evidence("differentiated here", failing.span),),
        )
    fix = ""
    for node in ast.walk(failing.node) if failing.node is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and name_called(node) == "jacfwd":
            fix = text(replaced(failing.node, node.func, ast.Attribute(node.func.value, "jacrev")))  # pyright: ignore[reportArgumentType]
    return Cause(
        title="a function with a custom_vjp has no derivative forwards",
        explanation="`jvp`, `jacfwd`, `hessian` and `linearize` go forwards, and its rule goes backwards only: use "
        "`grad`, `vjp` or `jacrev`, or give the function a `custom_jvp`, which serves both.",
        evidence=(Evidence("asked for here", failing.span),),
        fix=fix,
        replaces=failing.span,
    )


def _defined(failing: Failing, name: str) -> Function | None:
    functions = (Function(file, node) for file, node in failing.nodes() if isinstance(node, ast.FunctionDef))
    return next((each for each in functions if each.name == name.rpartition(".")[2]), None)
