"""NumPyro's models: without a random key, outside of the handlers that give one, or with a name taken twice."""

import ast
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from jaxmagic.core.failures.operands import aval_of
from jaxmagic.core.failures.sites import Site
from jaxmagic.core.lines.attributes import class_attribute, module_of
from jaxmagic.core.rules.calls import Fix
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.held_keys import is_key, key_for
from jaxmagic.core.rules.rewrite import alias, call, copied, extended, replaced, text
from jaxmagic.core.source.nodes import name_called
from jaxmagic.records import Evidence

_DRAWS = ("sample", "plate", "param", "deterministic", "prng_key", "factor", "subsample", "module")


_KINDS = ("AssertionError", "TypeError", "AttributeError", "ValueError")


@on_error("numpyro-key", "NumPyro draws without a random key: a model outside of a handler, MCMC, SVI, a distribution")
def numpyro_key(failing: Failing) -> Cause | None:
    """`numpyro.sample` draws with the key of the handler around it. A model called as a plain function has none, and
    all that NumPyro says is an empty AssertionError: `numpyro.handlers.seed(model, key)` is the model with a key.
    `MCMC.run`, `SVI.init` and `Predictive` take a key first, and so does `sample` of a distribution.

    Sure: NumPyro's own code asked for a key and had none.
    """
    node = failing.node
    frame = next(iter(failing.machinery), None)
    if not isinstance(node, ast.Call) or failing.kind not in _KINDS:
        return None
    if failing.says(r"^\w+\.(?:sample|run|init|__call__)\(\) missing 1 required positional argument: '(?:rng_)?key'"):
        return _first_argument(failing, node) if _is_numpyro(_owner(failing, node)) else None
    if frame is None or not frame.f_globals.get("__name__", "").startswith("numpyro"):
        return None
    if frame.f_code.co_name == "sample" and "rng_key" in frame.f_locals and failing.kind == "AssertionError":
        return _unseeded(failing, node) if failing.message == "" and frame.f_locals["rng_key"] is None else None
    return _first_argument(failing, node) if _lacks_key(frame, _owner(failing, node)) else None


def _owner(failing: Failing, node: ast.Call) -> Any:
    """The object that is called, or whose method is; its class where it has no name."""
    called = failing.scope.get(node.func)
    if called is None and isinstance(node.func, ast.Call):
        return _class(failing, node.func)
    if isinstance(node.func, ast.Attribute) and not _is_numpyro(called):
        return failing.scope.get(node.func.value) or _class(failing, node.func.value)
    return called


def _class(failing: Failing, node: ast.expr) -> Any:
    """`Normal` of `dist.Normal(0, 1).expand([3])`."""
    while isinstance(node, ast.Call):
        found = failing.scope.get(node.func)
        if isinstance(found, type):
            return found
        node = node.func.value if isinstance(node.func, ast.Attribute) else ast.Constant(None)
    return None


def _is_numpyro(value: Any) -> bool:
    kind = value if isinstance(value, type) else type(value)
    return any(module_of(cls).startswith("numpyro") for cls in kind.__mro__)


def _lacks_key(frame: FrameType, owner: Any) -> bool:
    name = next((each for each in ("rng_key", "key") if each in frame.f_code.co_varnames[:2]), "")
    given = frame.f_locals.get(name)
    return bool(name) and _is_numpyro(owner) and not is_key(aval_of(given)) and not _is_batch_of_keys(given)


def _is_batch_of_keys(value: Any) -> bool:
    aval = aval_of(value)
    return aval is not None and (aval.dtype.startswith("key<") or aval.dtype == "uint32")


def _first_argument(failing: Failing, node: ast.Call) -> Cause:
    """`mcmc.run(x)`, `dist.Normal(0, 1).sample((3,))`."""
    first = next(iter(node.args), None)
    given = f"`{failing.text(first)}` stands in its place. " if first is not None else ""
    number = first is not None and type(failing.scope.get(first)) is int
    sampled = name_called(node) == "sample"
    key = call(f"{alias(failing.scope, 'jax')}.random.key", first) if first and number and not sampled else None
    rest = [ast.Tuple([first]), *node.args[1:]] if first and number and sampled else node.args[key is not None :]
    called = failing.text(node.func)
    return Cause(
        title=f"`{called}` takes a random key first, and is given none",
        explanation=f"{given}NumPyro keeps no random state: whatever draws is handed a key.",
        evidence=tuple(Evidence(f"{failing.text(arg)}: {failing.aval(arg)}") for arg in node.args if failing.aval(arg)),
        fix=text(copied(ast.Call(node.func, [key or key_for(failing.site, node), *rest], node.keywords))),
        replaces=failing.span,
    )


def _unseeded(failing: Failing, node: ast.Call) -> Cause:
    level = next((at for at, site in enumerate(failing.sites) if not _draws(site)), None)
    site = failing.sites[level] if level else failing.site
    model = _model(site, failing.sites[level - 1].frame.f_code) if level else None
    fix, replaces = _seeded(site, model) if model is not None else ("", None)
    if level == 0 or site.definition is failing.site.definition:
        fix, replaces = text(copied(extended(node, rng_key=key_for(site, node)))), failing.span
    called = f"`{site.text(model)}`" if model is not None else "This code"
    return Cause(
        title=f"`{failing.text(node)}` has no random key: no handler is around it that gives one",
        explanation=f"{called} is called as a plain function. `{_seed(site)}(model, key)` is the model with a key for "
        "every site; `MCMC`, `SVI` and `Predictive` do the same with theirs.",
        span=failing.span,
        evidence=(Evidence("the model is called here", site.span),) if site is not failing.site else (),
        fix=fix,
        replaces=replaces,
    )


def _draws(site: Site) -> bool:
    """Whether the function of a frame has sites of its own: it is a model, or a part of one."""
    if site.definition is None:
        return False
    calls = (node for node in ast.walk(site.definition) if isinstance(node, ast.Call) and name_called(node) in _DRAWS)
    return any(_is_of_numpyro(site.scope.get(node.func)) for node in calls)


def _is_of_numpyro(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("numpyro")


def _model(site: Site, code: CodeType) -> ast.expr | None:
    """The expression of a call that is the model whose code ran."""
    for node in ast.walk(site.node) if site.node is not None else ():
        if isinstance(node, ast.Name | ast.Attribute) and code is _code(site.scope.get(node)):
            return node
    return None


def _code(value: Any) -> CodeType | None:
    """The code that a call of a function, a method or an object runs."""
    function = value.__func__ if isinstance(value, MethodType) else value
    if not isinstance(function, FunctionType):
        function = class_attribute(type(value), "__call__")
    return function.__code__ if isinstance(function, FunctionType) else None


def _seeded(site: Site, model: ast.expr) -> Fix:
    if not isinstance(site.node, ast.expr):
        return "", None
    seeded = call(_seed(site), model, key_for(site, site.node))
    return text(replaced(site.node, model, seeded)), site.span


def _seed(site: Site) -> str:
    return f"{alias(site.scope, 'numpyro.handlers')}.seed"


@on_error("numpyro-name", "two sites of a NumPyro model have the same name")
def numpyro_name(failing: Failing) -> Cause | None:
    """Each `sample`, `param`, `deterministic` and `plate` of a model has a name of its own: results and conditions are
    found by it. A site in a loop of Python's gets the number of the pass into its name, or one `plate` takes the place
    of the loop.

    Sure: NumPyro met the name for a second time.
    """
    said = failing.says(r"^all sites must have unique names but got `(.+)` duplicated")
    node = failing.node
    if said is None or not isinstance(node, ast.Call) or not node.args:
        return None
    loop = next((each for each in failing.site.around if isinstance(each, ast.For)), None)
    new: ast.expr | None = None
    if isinstance(node.args[0], ast.Constant):
        new = ast.Constant(f"{said[1]}_2") if loop is None else _numbered(failing, loop, said[1])
    return Cause(
        title=f"the name `{said[1]}` is taken by another site of the model",
        explanation="Results and observations are found by the name of a site, so each has its own.",
        fix=text(replaced(node, node.args[0], new)) if new is not None else "",
        replaces=failing.span,
    )


def _numbered(failing: Failing, loop: ast.For, name: str) -> ast.expr | None:
    """`f"w_{i}"`, where the variable of the loop is a number or a text."""
    if not isinstance(loop.target, ast.Name) or type(failing.scope.get(loop.target)) not in (int, str):
        return None
    return ast.JoinedStr([ast.Constant(f"{name}_"), ast.FormattedValue(ast.Name(loop.target.id), -1)])
