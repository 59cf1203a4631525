"""Flax Linen: variables that are not found, keys that are needed, collections that are changed, unbound modules."""

import ast
import re
from collections.abc import Mapping
from typing import Any

from jaxmagic.core.failures.operands import aval_of, is_array
from jaxmagic.core.failures.sites import Site
from jaxmagic.core.rules.calls import Fix
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.linen_calls import Entry, entry, holds, missing, variables_in
from jaxmagic.core.rules.rewrite import alias, call, copied, expression, replaced, text
from jaxmagic.core.rules.wording import listed
from jaxmagic.records import Evidence, Span

_MOST = 8


@on_error("linen-variables", "the variables given to a Flax Linen module lack what it reads, or are nested otherwise")
def linen_variables(failing: Failing) -> Cause | None:
    """`model.apply` takes what `init` returned: a dict of collections, `{"params": …}`, and `"batch_stats"` where
    there are running averages. Reported are the layer by its path, what it looked for, what is there instead, and the
    call that handed the variables over. The fix gives them the form that the module reads.

    Sure: Flax looked for it. The fix is offered where what is missing is at hand.
    """
    if failing.kind == "ApplyScopeInvalidVariablesStructureError":
        return _one_level_too_deep(failing)
    if failing.kind == "ApplyScopeInvalidVariablesTypeError" or _is_array_given(failing):
        return _not_variables(failing)
    found = failing.says(
        r'(?:Could not find parameter|No Variable) named "(?P<name>[^"]+)"(?: for collection "(?P<of>\w+)" exists)? '
        r'in (?:scope )?"(?P<path>[^"]*)"'
    ) or failing.says(r'access "(?P<name>[^"]+)" from collection "(?P<of>\w+)" in "(?P<path>[^"]*)"')
    entered = entry(failing)
    if found is None or not failing.kind.startswith("Scope") or entered is None:
        return None
    collection, path = found.groupdict().get("of") or "params", [step for step in found["path"].split("/") if step]
    return _not_there(failing, entered, collection, path, found["name"])


def _not_there(failing: Failing, entered: Entry, collection: str, path: list[str], name: str) -> Cause:
    given = entered.variables if isinstance(entered.variables, Mapping) else {}
    layer = f"layer `{'/'.join(path)}`" if path else "the module"
    bare = collection == "params" and collection not in given and holds(given, path)
    if collection in given:
        gone, step, there = missing(given[collection], path, collection)
        lacks = f"`{gone}` has {listed(there[:_MOST]) or 'nothing'}, and no `{step or name}`"
        way = "The variables were made for a module of another form: call `init` of the module as it is now."
        fix = _of_a_part(entered, collection, given[collection], [*path, name])
        way = f"They are the variables of a larger module: take the part of this one. `{fix}`" if fix else way
    else:
        lacks = (
            f"the variables have {listed([*map(str, given)][:_MOST]) or 'nothing'}, and no collection `{collection}`"
        )
        way = (
            "These are the parameters themselves; `apply` takes a dict of collections."
            if bare
            else "Pass the collection on, as `init` returned it, beside `params`."
        )
        fix = entered.with_first(_wrapped(entered)) if bare else _with_collection(entered, collection)
    return Cause(
        title=f"{layer} finds no `{name}` in `{collection}`: {lacks}",
        explanation=way,
        span=entered.span if fix else None,
        evidence=(
            Evidence(f"`{name}` of {layer} is read here", failing.span),
            Evidence(f"the variables are handed over here: {_shown(given)}", entered.span),
        ),
        fix=fix,
        replaces=entered.span,
    )


def _shown(variables: Any) -> str:
    """`params: enc, head; batch_stats: norm`."""
    if not isinstance(variables, Mapping):
        return f"a {type(variables).__name__}"
    parts = []
    for name, value in list(variables.items())[:_MOST]:
        inner = ", ".join([*map(str, value)][:_MOST]) if isinstance(value, Mapping) else str(aval_of(value) or "")
        parts.append(f"{name}: {inner}" if inner else str(name))
    return "; ".join(parts) or "nothing"


def _wrapped(entered: Entry) -> ast.expr:
    return ast.Dict([ast.Constant("params")], [copied(entered.first)])


def _with_collection(entered: Entry, name: str) -> str:
    """The call with a further collection, from where the code has it."""
    found, given = entered.collection(name), entered.first
    if found is None or given is None:
        return ""
    if isinstance(given, ast.Dict):
        return entered.with_first(ast.Dict([*given.keys, ast.Constant(name)], [*given.values, found]))
    return entered.with_first(ast.Dict([None, ast.Constant(name)], [given, found]))


def _of_a_part(entered: Entry, collection: str, tree: Any, path: list[str]) -> str:
    """The call with the only part of the parameters that has what is looked for."""
    parts = [name for name, part in tree.items() if holds(part, path)] if isinstance(tree, Mapping) else []
    given = entered.first
    if len(parts) != 1 or not isinstance(given, ast.Dict):
        return ""
    for key, value in zip(given.keys, given.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == collection:
            part = ast.Subscript(copied(value), ast.Constant(parts[0]))
            return entered.with_first(replaced(given, value, part))
    return ""


def _one_level_too_deep(failing: Failing) -> Cause | None:
    entered = entry(failing)
    if entered is None or not isinstance(given := entered.first, ast.Dict):
        return None
    pairs = zip(given.keys, given.values, strict=True)
    value = next((value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "params"), None)
    if value is None:
        return None
    alone = len(given.values) == 1
    inner = ast.Subscript(copied(value), ast.Constant("params"))
    fix = entered.with_first(value if alone else replaced(given, value, inner))
    spelled = entered.site.text(value)
    return Cause(
        title=f"`{spelled}` holds all collections, not the parameters alone: `params` stands inside `params`",
        explanation=f"`init` returned a dict that has `params` as a key; `{spelled}` is all of it."
        + (" It can be passed as it is." if alone else ""),
        span=entered.span,
        evidence=(Evidence(f"`{spelled}`: {_shown(entered.variables.get('params'))}", entered.site.span_of(value)),),
        fix=fix,
        replaces=entered.span,
    )


def _is_array_given(failing: Failing) -> bool:
    """Whether Flax went on with an array for the variables until Python refused."""
    entered = entry(failing) if failing.kind in ("TypeError", "AttributeError") else None
    return entered is not None and entered.site is failing.site and is_array(entered.variables)


def _not_variables(failing: Failing) -> Cause | None:
    entered = entry(failing)
    if entered is None or entered.first is None:
        return None
    given, spelled = entered.variables, entered.site.text(entered.first)
    if is_array(given):
        shown = f"an array ({aval_of(given)})"
        way, fix = "The first argument of `apply` is the variables, and the input comes after them.", _swapped(entered)
    else:
        shown = f"{_shown(given)}"
        way = "These are the parameters themselves; `apply` takes a dict of collections."
        fix = entered.with_first(_wrapped(entered)) if isinstance(given, Mapping) else ""
    return Cause(
        title=f"`{spelled}` is no dict of collections, which `apply` takes first",
        explanation=way,
        span=entered.span,
        evidence=(Evidence(f"`{spelled}`: {shown}", entered.site.span_of(entered.first)),),
        fix=fix,
        replaces=entered.span,
    )


def _swapped(entered: Entry) -> str:
    match entered.node.args:
        case [first, second, *rest] if not is_array(entered.site.scope.get(second)):
            return text(ast.Call(entered.node.func, [second, first, *rest], entered.node.keywords))
    return ""


@on_error("linen-key", "a Flax Linen module draws random numbers and was given no key for it")
def linen_key(failing: Failing) -> Cause | None:
    """Dropout and other layers that draw take their key from `rngs={"dropout": key}` of `apply`; `init` takes one key,
    or a dict of them, as its first argument. Give every step a key of its own, or the same places are dropped each
    time.

    Sure: Flax asked for the key.
    """
    entered = entry(failing)
    if failing.kind != "InvalidRngError" or entered is None:
        return None
    needs = failing.says(r'(\w+) needs PRNG for "(\w+)"')
    if needs is None:
        return _no_key(failing, entered)
    fix = _keyed(entered, needs[2])
    return Cause(
        title=f"`{needs[1]}` draws random numbers: it needs a key for `{needs[2]}`",
        explanation=f'`rngs={{"{needs[2]}": key}}` of `apply` gives it one; take a new key for every step. Where '
        "nothing should be drawn, in evaluation, the layer is told so: `deterministic=True`.",
        span=entered.span,
        evidence=(
            Evidence(f"drawn here: {failing.text(failing.node)}", failing.span)
            if failing.node is not None
            else Evidence("drawn here", failing.span),
            Evidence(f"called without a key for `{needs[2]}`", entered.span),
        ),
        fix=fix,
        replaces=entered.span,
    )


def _keyed(entered: Entry, name: str) -> str:
    key = expression(entered.key() or f"{alias(entered.site.scope, 'jax')}.random.key(0)")
    given = entered.first if entered.initial else entered.keyword("rngs")
    if isinstance(given, ast.Dict):
        new = ast.Dict([*given.keys, ast.Constant(name)], [*given.values, key])
        return entered.with_first(new) if entered.initial else entered.with_keyword("rngs", new)
    return "" if entered.initial or given is not None else entered.with_keyword("rngs", _one(name, key))


def _one(name: str, value: ast.expr) -> ast.Dict:
    return ast.Dict([ast.Constant(name)], [value])


def _no_key(failing: Failing, entered: Entry) -> Cause | None:
    if not failing.says(r"RNGs should be") or not entered.initial or entered.first is None:
        return None
    spelled, aval = entered.site.text(entered.first), aval_of(entered.frame.f_locals.get("rngs"))
    keys = [arg for arg in entered.node.args[1:] if _is_key(entered.site, arg)]
    fix = ""
    if keys and entered.node.args[1] is keys[0]:
        first, second, *rest = entered.node.args
        fix = text(ast.Call(entered.node.func, [second, first, *rest], entered.node.keywords))
    elif entered.plain:
        made = call(f"{alias(entered.site.scope, 'jax')}.random.key", ast.Constant(0))
        fix = text(ast.Call(entered.node.func, [made, *entered.node.args], entered.node.keywords))
    return Cause(
        title=f"`{spelled}`" + (f" ({aval})" if aval else "") + " is no random key, which `init` takes first",
        explanation="`init` draws the parameters: its first argument is a key, and an example of the input follows.",
        span=entered.span,
        evidence=(Evidence(f"{spelled}: {aval}", entered.site.span_of(entered.first)),) if aval else (),
        fix=fix,
        replaces=entered.span,
    )


def _is_key(site: Site, node: ast.expr) -> bool:
    aval = site.scope.aval(node)
    return aval is not None and (aval.dtype.startswith("key<") or (aval.dtype == "uint32" and aval.shape == (2,)))


@on_error("linen-mutable", "a Flax Linen module changes a collection: apply must allow it, and gives the changes back")
def linen_mutable(failing: Failing) -> Cause | None:
    """A module changes its variables (the running averages of `BatchNorm`) only where `apply` says `mutable=[…]`; then
    it returns two things, the output and the changed variables, which the next step is given.

    Sure: Flax refused the change, or the pair is used as if it were the output.
    """
    entered = entry(failing)
    if failing.kind == "ModifyScopeVariableError" and entered is not None:
        return _immutable(failing, entered)
    return _pair(failing) if failing.says(r"\btuple\b") and failing.kind in ("TypeError", "AttributeError") else None


def _immutable(failing: Failing, entered: Entry) -> Cause | None:
    found = failing.says(r'"(?P<name>[^"]+)" in "(?P<path>[^"]*)" because collection "(?P<of>[^"]+)"')
    if found is None:
        return None
    layer = found["path"].strip("/") or "the module"
    fix, replaces = _allowed(entered, found["of"])
    return Cause(
        title=f"layer `{layer}` updates `{found['name']}`, and this call does not let `{found['of']}` change",
        explanation=f'With `mutable=["{found["of"]}"]` the call returns the output and the new `{found["of"]}`, which '
        "the next step is given. Where nothing should change, in evaluation, the layer is told so: "
        "`use_running_average=True`.",
        span=entered.span,
        evidence=(
            Evidence(f"`{found['name']}` of `{layer}` is updated here", failing.span),
            Evidence("called without `mutable`", entered.span),
        ),
        fix=fix,
        replaces=replaces,
    )


def _allowed(entered: Entry, collection: str) -> Fix:
    """The statement that takes the output, with the changes beside it."""
    statement = entered.site.statement
    match statement, entered.keyword("mutable"):
        case ast.Assign(targets=[ast.Name(id=output)], value=value), None if value is entered.node and entered.plain:
            fixed = entered.with_keyword("mutable", ast.List([ast.Constant(collection)]))
            return f"{output}, updates = {fixed}", entered.site.span_of(statement)
    return "", None


def _pair(failing: Failing) -> Cause | None:
    """`y ** 2`, where `y` is what `apply(…, mutable=…)` gave."""
    names = {node.id for node in ast.walk(failing.node or ast.Pass()) if isinstance(node, ast.Name)}
    for statement in _statements(failing.site):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(keywords=words) as made) if name in names:
                held = failing.scope.get(ast.Name(name))
                mutable = next((word for word in words if word.arg == "mutable"), None)
                if mutable is not None and isinstance(held, tuple) and len(held) == 2:
                    return Cause(
                        title=f"`{name}` is a pair: with `mutable` the call returns the output and the new variables",
                        explanation="Take the two apart, and give the new variables to the next step.",
                        evidence=(Evidence(f"`{name}` is made here", failing.site.span_of(statement)),),
                        fix=f"{name}, updates = {failing.text(made)}",
                        replaces=failing.site.span_of(statement),
                    )
    return None


def _statements(site: Site) -> list[ast.stmt]:
    body = site.definition if isinstance(site.definition, ast.FunctionDef) else site.tree
    found = [node for node in ast.walk(body or ast.Module([], [])) if isinstance(node, ast.stmt)]
    return sorted((each for each in found if each.lineno <= site.span.line), key=lambda each: -each.lineno)


@on_error("linen-unbound", "a Flax Linen module is called, or its layers are used, without its variables")
def linen_unbound(failing: Failing) -> Cause | None:
    """A Linen module holds no parameters: `init` makes them, and `apply` runs the module with them. Called by itself
    it has none, and what `setup` makes exists only inside of the two. `bind` gives a module with its variables.

    Sure: Flax refused the call.
    """
    within = failing.says(r'"(\w+)" object has no attribute "(\w+)"\. If "\w+" is defined in')
    if failing.kind not in ("CallCompactUnboundModuleError", "CallSetupUnboundModuleError") and not within:
        return None
    site = next((each for each in reversed(failing.sites) if _module_in(each) is not None), None)
    owner = _module_in(site) if site is not None else None
    if site is None or owner is None or entry(failing) is not None:
        return None
    variables = variables_in(site)
    spelled = site.text(owner)
    fix, replaces = _bound(failing, site, owner, variables)
    what = (
        f"`{spelled}.{within[2]}`, which `setup` makes, does not exist" if within else f"`{spelled}` has no parameters"
    )
    return Cause(
        title=f"{what} outside of `init` and `apply`",
        explanation="A Linen module holds no parameters: `init` makes them, and `apply`, or a module that `bind` "
        "returns, computes with them.",
        span=site.span,
        evidence=(Evidence(f"`{variables}` holds its variables"),) if variables else (),
        fix=fix,
        replaces=replaces,
    )


def _module_in(site: Site) -> ast.expr | None:
    """The Linen module whose method, attribute or call is in the expression."""
    node = site.node
    while isinstance(node, ast.Call | ast.Attribute):
        owner = node.func if isinstance(node, ast.Call) else node.value
        value = site.scope.get(owner)
        if any(cls.__module__.startswith("flax.linen") and cls.__name__ == "Module" for cls in type(value).__mro__):
            return owner
        node = owner
    return None


def _bound(failing: Failing, site: Site, owner: ast.expr, variables: str) -> Fix:
    node = site.node
    if variables and isinstance(node, ast.Call) and node.func is owner:
        applied = ast.Call(ast.Attribute(owner, "apply"), [expression(variables), *node.args], node.keywords)
        return text(applied), site.span_of(node)
    if variables:
        return text(call(f"{text(owner)}.bind", expression(variables))), site.span_of(owner)
    match site.statement, node:
        case ast.Assign(value=value) as statement, ast.Call(func=called) if value is node and called is owner:
            init = ast.Call(
                ast.Attribute(owner, "init"),
                [call(f"{alias(failing.scope, 'jax')}.random.key", ast.Constant(0)), *node.args],
                node.keywords,
            )
            applied = ast.Call(ast.Attribute(owner, "apply"), [ast.Name("variables"), *node.args], node.keywords)
            code = f"variables = {text(init)}\n{text(replaced(statement, node, applied))}"
            return code, site.span_of(statement)
    return "", None


@on_error("linen-module", "a Flax Linen module makes a layer, or keeps a value, where Flax does not let it")
def linen_module(failing: Failing) -> Cause | None:
    """Layers are made in `setup`, or in one method that is marked `@nn.compact`, and each has a name of its own. What a
    module computes is returned, or put into a collection with `self.sow`: its attributes are fixed after `setup`.

    Sure: Flax refused it.
    """
    match failing.kind:
        case "AssignSubModuleError":
            return _not_compact(failing)
        case "NameInUseError":
            return _named_twice(failing)
        case "SetAttributeFrozenModuleError":
            return _frozen(failing)
    return None


def _not_compact(failing: Failing) -> Cause:
    site, method = failing.site, failing.site.definition
    made = failing.text(failing.node) if failing.node is not None else "a layer"
    plain = isinstance(method, ast.FunctionDef) and not method.decorator_list
    fix, replaces = "", None
    if plain and isinstance(method, ast.FunctionDef):
        replaces = Span(site.file, method.lineno, method.col_offset, method.lineno, method.col_offset + 3)
        fix = f"@{alias(site.scope, 'flax.linen')}.compact\ndef"
    name = getattr(method, "name", "the method")
    return Cause(
        title=f"`{made}` makes a layer in `{name}`, which is neither `setup` nor marked compact",
        explanation="Layers are made in `setup`, or in one method that is marked `@nn.compact`.",
        evidence=(Evidence(f"`{name}` is not marked", site.span_of(method)),) if method is not None else (),
        fix=fix,
        replaces=replaces,
    )


def _named_twice(failing: Failing) -> Cause | None:
    found = failing.says(r'(?:submodule|param|variable) "([^"]+)"')
    node = failing.node
    if found is None or not isinstance(node, ast.Call):
        return None
    fix = ""
    for word in node.keywords:
        if word.arg == "name" and isinstance(word.value, ast.Constant):
            taken = set(re.findall(r"name\s*=\s*[\"'](\w+)[\"']", "".join(_source(failing.site))))
            number = next(number for number in range(2, 1000) if f"{found[1]}_{number}" not in taken)
            fix = text(replaced(node, word.value, ast.Constant(f"{found[1]}_{number}")))
    return Cause(
        title=f"the name `{found[1]}` is taken by another layer or variable of the same module",
        explanation="Each has its parameters under its name. To use the same parameters twice, make the layer once and "
        "call it twice.",
        fix=fix,
        replaces=failing.span,
    )


def _source(site: Site) -> list[str]:
    return [site.text(site.definition)] if site.definition is not None else []


def _frozen(failing: Failing) -> Cause | None:
    statement = failing.site.statement
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr=name)]) | ast.AugAssign(target=ast.Attribute(attr=name)):
            pass
        case _:
            return None
    return Cause(
        title=f"`{failing.text(statement)}` sets an attribute of a module, which is fixed after `setup`",
        explanation=f"Use a local variable, and return what the caller needs; `self.sow('intermediates', '{name}', …)` "
        "puts a value into a collection, which `apply(…, mutable=['intermediates'])` returns.",
    )
