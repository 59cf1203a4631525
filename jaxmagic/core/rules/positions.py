"""Settings of jit and grad that name an argument which the function does not have."""

import ast
import difflib
import re
from typing import NamedTuple

import jax

from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import Function, function_of, made_from
from jaxmagic.core.rules.rewrite import copied, text
from jaxmagic.core.rules.wording import listed
from jaxmagic.core.source.nodes import name_called
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span

Fix = tuple[str, Span | None]


class _Setting(NamedTuple):
    """`static_argnums=2` in a call, and the value that it is given."""

    file: str
    call: ast.Call
    value: ast.expr


@on_error("no-such-argument", "static_argnums, static_argnames, donate_… or argnums name an argument that is not there")
def no_such_argument(failing: Failing) -> Cause | None:
    """Positions are counted from 0, and `grad` counts the arguments that are passed by position. Names are those of the
    function's own signature.

    Sure: JAX compared the setting with the signature, or with the call. The fix takes the last argument for a position
    that is one too high, and the name that is nearly the same.
    """
    numbers = failing.says(r"Jitted function has (\w+)=(\(.*?\)), but only accepts (\d+) positional arguments")
    if numbers:
        return _numbers(failing, numbers[1], numbers[2], int(numbers[3]))
    names = failing.says(r"Jitted function has invalid argnames \{(.*?)\} in (\w+)\.")
    if names:
        return _names(failing, names[2], re.findall(r"'(\w+)'", names[1]))
    grads = failing.says(
        r"differentiating with respect to argnums=(\S.*?) requires at least \d+ positional .*got only (\d+)"
    )
    if grads:
        return _grads(failing, grads[1], int(grads[2]))
    return _spelled(failing) if failing.says(r"'str' object cannot be interpreted as an integer") else None


def _setting(failing: Failing, name: str) -> _Setting | None:
    called = failing.node.func if isinstance(failing.node, ast.Call) else None
    for file, tree in [(failing.site.file, failing.node), *made_from(failing, called)]:
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Call):
                for word in node.keywords:
                    if word.arg == name:
                        return _Setting(file, node, word.value)
    return None


def _function(failing: Failing, setting: _Setting | None) -> Function | None:
    """The function whose arguments are meant: the first argument of the call, or what the decorator stands on."""
    if setting is None:
        return None
    first = next(iter(setting.call.args), None)
    if first is not None and name_called(setting.call) != "partial":
        return function_of(failing.site, first)
    for node in failing.site.around:
        if isinstance(node, ast.FunctionDef) and any(setting.call is part for part in node.decorator_list):
            return Function(setting.file, node)
    return None


def _takes(function: Function | None, count: int) -> str:
    return f"`{function.name}` takes {count}: {', '.join(function.parameters)}" if function else f"it takes {count}"


def _numbers(failing: Failing, name: str, given: str, count: int) -> Cause:
    setting = _setting(failing, name)
    function = _function(failing, setting)
    wrong = [number for number in map(int, re.findall(r"-?\d+", given)) if number >= count or number < -count]
    fix, replaces = _last_one(setting, wrong, count)
    return Cause(
        title=f"`{name}` names argument {' and '.join(map(str, wrong))}, and {_takes(function, count)}",
        explanation=f"Positions are counted from 0, so the last one is {count - 1}. `{name.replace('nums', 'names')}` "
        "says it by name.",
        span=None if setting is None else span_of(setting.file, setting.value),
        evidence=(Evidence(_takes(function, count), function.span_of(function.node) if function else failing.span),),
        fix=fix,
        replaces=replaces,
    )


def _last_one(setting: _Setting | None, wrong: list[int], count: int) -> Fix:
    """The last argument, where a single position is one too high."""
    plain = setting is not None and len(wrong) == 1 and wrong[0] == count and count > 0
    numbers = [node for node in ast.walk(setting.value) if _is_number(node)] if setting is not None else []
    if not plain or setting is None or len(numbers) != 1:
        return "", None
    return str(count - 1), span_of(setting.file, numbers[0])


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _names(failing: Failing, name: str, wrong: list[str]) -> Cause:
    setting = _setting(failing, name)
    function = _function(failing, setting)
    taken = [*(function.parameters if function else []), *_by_name(function)]
    fix: Fix = "", None
    if setting is not None and len(wrong) == 1:
        near = difflib.get_close_matches(wrong[0], taken, 1)
        places = [node for node in ast.walk(setting.value) if isinstance(node, ast.Constant) and node.value == wrong[0]]
        if near and len(places) == 1:
            fix = repr(near[0]), span_of(setting.file, places[0])
    shown = f"`{function.name}` takes {listed(taken) or 'none'}" if function else "the function does not take it"
    return Cause(
        title=f"`{name}` names {listed(wrong)}, and {shown}",
        explanation="The names are those of the function's own parameters, as its `def` spells them.",
        span=None if setting is None else span_of(setting.file, setting.value),
        evidence=(Evidence(shown.replace("`", ""), function.span_of(function.node) if function else failing.span),),
        fix=fix[0],
        replaces=fix[1],
    )


def _by_name(function: Function | None) -> list[str]:
    return [arg.arg for arg in function.node.args.kwonlyargs] if function is not None else []


def _grads(failing: Failing, given: str, count: int) -> Cause:
    node = failing.node
    setting = _setting(failing, "argnums")
    maker = next((each for each in ast.walk(node) if _is_grad(each)), None) if node is not None else None
    function = function_of(failing.site, maker.args[0]) if isinstance(maker, ast.Call) and maker.args else None
    words = node.keywords if isinstance(node, ast.Call) else []
    wrong = [number for number in map(int, re.findall(r"-?\d+", given)) if number >= count]
    if words and isinstance(node, ast.Call):
        fix, replaces = _by_position(node, function), failing.span
        way = f" {listed([word.arg or '**' for word in words])} {'is' if len(words) == 1 else 'are'} passed by name."
    else:
        fix, replaces = _last_one(setting, wrong, count)
        way = f" Positions are counted from 0, so the last one is {count - 1}." if count else ""
    return Cause(
        title=f"grad with respect to argument {' and '.join(map(str, wrong))}, and {count} "
        f"{'is' if count == 1 else 'are'} passed by position",
        explanation=f"`argnums` counts the arguments that are passed by position.{way}",
        evidence=tuple(Evidence(f"{word.arg} is passed by name", failing.site.span_of(word.value)) for word in words)
        or (Evidence(f"{count} by position", failing.span),),
        fix=fix,
        replaces=replaces,
    )


def _is_grad(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and name_called(node) in ("grad", "value_and_grad", "jacrev", "jacfwd", "hessian")


def _by_position(node: ast.Call, function: Function | None) -> str:
    """The call with its keywords in the order of the parameters, where they are the next ones."""
    names = function.parameters[len(node.args) :] if function is not None else []
    given = {word.arg: word.value for word in node.keywords}
    moved = names[: len(given)]
    return (
        text(copied(ast.Call(node.func, [*node.args, *(given[n] for n in moved)], [])))
        if set(moved) == {*given}
        else ""
    )


def _spelled(failing: Failing) -> Cause | None:
    """`argnums="w"`."""
    setting = _setting(failing, "argnums")
    if setting is None or not isinstance(setting.value, ast.Constant) or not isinstance(setting.value.value, str):
        return None
    name, function = setting.value.value, _function(failing, setting)
    known = function is not None and name in function.parameters
    return Cause(
        title=f"`argnums` is {name!r}: it takes positions, and no names",
        explanation="Positions are counted from 0.",
        evidence=(Evidence(_takes(function, len(function.parameters)), function.span_of(function.node)),)
        if function is not None
        else (),
        fix=str(function.parameters.index(name)) if known and function is not None else "",
        replaces=span_of(setting.file, setting.value),
    )


@on_error("checkpoint-policy", "a checkpoint policy that is a name, was not called, or does not exist")
def checkpoint_policy(failing: Failing) -> Cause | None:
    """`jax.checkpoint` takes a function as its policy: one of `jax.checkpoint_policies` as it stands, or what
    `save_only_these_names("h")` and its kin return.

    Sure: JAX called it, or looked for it.
    """
    missing = failing.says(r"Namespace' object has no attribute '(\w+)'")
    node = failing.node
    if missing and isinstance(node, ast.Attribute) and text(node.value).endswith("checkpoint_policies"):
        near = difflib.get_close_matches(missing[1], _policies(), 1)
        return Cause(
            title=f"there is no checkpoint policy `{missing[1]}`",
            explanation=f"`{text(node.value)}` has {listed(sorted(_policies()))}.",
            evidence=(Evidence(f"{missing[1]} is not among them", failing.span),),
            fix=text(ast.Attribute(node.value, near[0])) if near else "",
            replaces=failing.span,
        )
    named = failing.says(r"^'str' object is not callable")
    maker = failing.says(r"^(save_\w+|offload_\w+)\(\) got an unexpected keyword argument")
    setting = _policy(failing) if named or maker else None
    if setting is None or not any("policy" in frame.f_locals for frame in failing.machinery):
        return None
    if maker:
        return Cause(
            title=f"the policy `{maker[1]}` was not called",
            explanation=f"It makes a policy of names: `{text(setting.value)}('name')`, for values that "
            "`jax.ad_checkpoint.checkpoint_name` has named.",
            span=span_of(setting.file, setting.value),
            evidence=(Evidence("called here", failing.span),),
        )
    name = setting.value.value if isinstance(setting.value, ast.Constant) else ""
    known = difflib.get_close_matches(str(name), _policies(), 1)
    return Cause(
        title=f"the policy is the string {name!r}, and it must be a function",
        explanation="Policies are functions of `jax.checkpoint_policies`.",
        span=span_of(setting.file, setting.value),
        evidence=(Evidence("called here", failing.span),),
        fix=f"jax.checkpoint_policies.{known[0]}" if known else "",
        replaces=span_of(setting.file, setting.value),
    )


def _policies() -> list[str]:
    return [name for name in vars(jax.checkpoint_policies) if not name.startswith("_")]


def _policy(failing: Failing) -> _Setting | None:
    """The one `policy=` in the files of the user."""
    found = [
        _Setting(file, node, word.value)
        for file, tree in failing.sources
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg == "policy"
    ]
    return found[-1] if found else None
