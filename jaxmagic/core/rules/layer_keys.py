"""Equinox layers without the random key they need: to draw their parameters when made, or what to drop when called."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from jaxmagic.core.failures.sites import Site
from jaxmagic.core.rules.calls import Fix
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.equinox import is_module
from jaxmagic.core.rules.held_keys import held_key, is_key, key_for
from jaxmagic.core.rules.rewrite import alias, call, copied, extended, merged, taking, text, with_parameters
from jaxmagic.core.source.nodes import name_called
from jaxmagic.records import Evidence

_DERIVATIVES = ("grad", "vjp", "jacobian")


@on_error("eqx-key", "an Equinox layer is not given the random key it needs: to be made, or to drop something")
def eqx_key(failing: Failing) -> Cause | None:
    """Nothing in Equinox keeps random state: a layer gets a key when it is made, and `Dropout`, or attention with
    dropout, one for each call, which the modules around it hand on. For evaluation `eqx.nn.inference_mode(model)` is
    the same model with dropout off.

    Sure: Equinox raised. The key is one at hand, or one that is new.
    """
    if not isinstance(failing.node, ast.Call):
        return None
    if failing.kind == "RuntimeError" and failing.says(r"^Dropout requires a key when running"):
        return _dropout(failing)
    if failing.kind == "TypeError" and failing.says(r"\.__init__\(\) missing 1 required [\w-]+ argument: 'key'$"):
        return _made(failing, failing.node)
    if failing.kind == "TypeError" and failing.says(
        r"\.__call__\(\) takes \d+ positional arguments? but \d+ were given$"
    ):
        return _by_position(failing, failing.node)
    return None


def _by_position(failing: Failing, node: ast.Call) -> Cause | None:
    """`dropout(x, key)`: the key goes by name."""
    last = next(reversed(node.args), None)
    if last is None or not is_module(failing.scope.get(node.func)) or not is_key(failing.aval(last)):
        return None
    if any(word.arg == "key" for word in node.keywords):
        return None
    named = ast.Call(node.func, node.args[:-1], [*node.keywords, ast.keyword("key", last)])
    return Cause(
        title=f"`{failing.text(node.func)}` takes its key by name",
        explanation="Layers of Equinox take `key=` as a keyword, and not by its position.",
        fix=text(copied(named)),
        replaces=failing.span,
    )


def _made(failing: Failing, node: ast.Call) -> Cause | None:
    kind = failing.scope.get(node.func)
    if not isinstance(kind, type) or not is_module(object.__new__(kind)):
        return None
    return Cause(
        title=f"`{failing.text(node)}` needs a random `key`",
        explanation="Nothing here keeps random state: a layer that draws its parameters, or a path of noise, gets a "
        "key when it is made, each one of its own. `jax.random.split` makes several of one.",
        fix=text(copied(extended(node, key=key_for(failing.site, node)))),
        replaces=failing.span,
    )


@dataclass(frozen=True)
class _Level:
    """A call on the way to the layer, and the parameter of what it calls that takes the key."""

    site: Site
    node: ast.Call
    takes: str


def _dropout(failing: Failing) -> Cause | None:
    levels = list(_levels(failing))
    layer, last = levels[0], levels[-1]
    training = any(each in _DERIVATIVES for each in failing.transforms)
    fix, replaces = "", None
    if not _is_method(last.site) or held_key(last.site):
        fix, replaces = _with_key(last), last.site.span_of(last.node)
    elif last is layer:
        fix, replaces = _handed_on(failing, layer)
    if not fix and not training:
        fix, replaces = _switched_off(failing)
    eqx = alias(failing.scope, "equinox")
    shown = last.site.text(last.node)
    return Cause(
        title=f"`{shown}` gives no random key to a Dropout, which draws what it drops",
        explanation="Hand a `key` to the model, and a new one for every step and every example. In evaluation nothing "
        f"is dropped: `{eqx}.nn.inference_mode(model)` is the model for it.",
        span=last.site.span_of(last.node),
        evidence=(Evidence(f"`{layer.site.text(layer.node)}` gets no key", failing.span),) if last is not layer else (),
        fix=fix,
        replaces=replaces,
    )


def _levels(failing: Failing) -> Iterator[_Level]:
    """The calls that hand the key on, innermost first, out to the one that does not give it."""
    takes, at = "key", -1
    for site in failing.sites:
        node = site.node
        if not isinstance(node, ast.Call):
            return
        yield _Level(site, node, takes)
        given = next((word.value for word in node.keywords if word.arg == takes), None)
        given = node.args[at] if given is None and 0 <= at < len(node.args) else given
        if not isinstance(given, ast.Name) or given.id not in site.parameters or site.scope.get(given) is not None:
            return
        takes, at = given.id, site.parameters.index(given.id) - _is_method(site)


def _is_method(site: Site) -> bool:
    return site.parameters[:1] == ["self"]


def _with_key(level: _Level) -> str:
    """The call with a key; for `jax.vmap(model)(xs)` one for each example."""
    site, node = level.site, level.node
    key = key_for(site, node)
    match node:
        case ast.Call(func=ast.Call(args=[model], keywords=[]) as mapped, keywords=[]) if name_called(mapped) == "vmap":
            names = [f"x{at}" for at in range(1, len(node.args) + 1)] if len(node.args) > 1 else ["x"]
            inner = call("f", *map(ast.Name, names), **{level.takes: ast.Name("key")})
            one = taking([*names, "key"], ast.Call(model, inner.args, inner.keywords))
            count = ast.Subscript(ast.Attribute(node.args[0], "shape"), ast.Constant(0)) if node.args else None
            keys = call(f"{alias(site.scope, 'jax')}.random.split", key, *([count] if count is not None else []))
            return text(copied(ast.Call(ast.Call(mapped.func, [one], []), [*node.args, keys], [])))
        case ast.Call(func=ast.Call() as mapped) if name_called(mapped) not in ("jit", "filter_jit"):
            return ""
    if isinstance(site.definition, ast.Lambda) and "vmap" in site.entered:
        return ""
    kept = [word for word in node.keywords if word.arg != level.takes]
    return text(copied(ast.Call(node.func, node.args, [*kept, ast.keyword(level.takes, key)])))


def _handed_on(failing: Failing, layer: _Level) -> Fix:
    """A method that takes a key and hands it to the layer, with its caller."""
    definition, caller = layer.site.definition, failing.sites[1] if len(failing.sites) > 1 else None
    if caller is None or not isinstance(caller.node, ast.Call) or not isinstance(definition, ast.FunctionDef):
        return "", None
    outer = "" if _is_method(caller) else _with_key(_Level(caller, caller.node, "key"))
    if not outer:
        return "", None
    header, place = with_parameters(layer.site.file, definition, ["key"])
    inner = ast.Call(layer.node.func, layer.node.args, [*layer.node.keywords, ast.keyword("key", ast.Name("key"))])
    edits = [(place, header), (layer.site.span_of(layer.node), text(copied(inner)))]
    return merged([*edits, (caller.span_of(caller.node), outer)])


def _switched_off(failing: Failing) -> Fix:
    """The model that was called in inference mode: `jax.vmap(eqx.nn.inference_mode(model))(xs)`."""
    for site in failing.sites:
        for part in ast.walk(site.node.func) if isinstance(site.node, ast.Call) and not _is_method(site) else ():
            if isinstance(part, ast.Name | ast.Attribute) and is_module(site.scope.get(part)):
                quiet = call(f"{alias(site.scope, 'equinox')}.nn.inference_mode", part)
                return text(copied(site.node, {id(part): quiet})), site.span
    return "", None
