"""Values that JAX must know while it traces: settings, axes, lengths and shapes."""

import ast
import builtins

from jaxmagic.core.failures.operands import of_jax
from jaxmagic.core.failures.sites import Site
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import alias, call, replaced, text
from jaxmagic.core.rules.wording import origins, parameters, why_traced
from jaxmagic.core.source.nodes import parts, stored
from jaxmagic.records import Evidence, Span

_STATIC_FORMS = {"minimum": "min", "maximum": "max", "prod": "math.prod", "floor": "math.floor", "ceil": "math.ceil"}
_SIZED = ("nonzero", "flatnonzero", "argwhere", "where", "unique", "union1d", "intersect1d", "setdiff1d", "setxor1d")


def _refused(failing: Failing) -> bool:
    """Whether a function of JAX's own refused a tracer where it needs a plain number."""
    if failing.kind in ("ConcretizationTypeError", "TracerIntegerConversionError"):
        return True
    if failing.kind == "TracerArrayConversionError" and isinstance(failing.node, ast.Call):
        return of_jax(failing.scope.get(failing.node.func))
    shapes = failing.says(r"Shapes must be 1D sequences of concrete values")
    return bool(shapes or failing.says(r"was not hashable: .*Tracer"))


@on_error("data-dependent-shape", "a result whose length depends on values: nonzero, where, unique, bincount, …")
def data_dependent_shape(failing: Failing) -> Cause | None:
    """`jnp.nonzero`, one-argument `jnp.where`, `jnp.unique`, `jnp.bincount` and their kin return as many elements
    as the data say, but a traced program has fixed shapes. With `size=` (or `length=`) the result is padded to a
    length that you choose.

    Sure: the call itself raised.
    """
    node = failing.node
    if failing.kind != "ConcretizationTypeError" or not isinstance(node, ast.Call):
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    data = next((part for part in parts(node) if failing.traced(part)), None)
    if name not in (*_SIZED, "bincount") or data is None:
        return None
    aval = failing.aval(data)
    keyword = "length" if name == "bincount" else "size"
    sizes = "n" if aval is None or name == "bincount" else str(_count(aval.shape))
    sized = ast.Call(node.func, node.args, [*node.keywords, ast.keyword(keyword, ast.parse(sizes, mode="eval").body)])
    return Cause(
        title=f"the length of {name}(…) depends on the values of {failing.shown(data)}",
        explanation=f"A traced program has fixed shapes, but how many elements `{failing.text(node)}` returns is only "
        f"known when it runs. {why_traced(failing)}",
        evidence=origins(failing, data),
        fix=text(sized),
        replaces=failing.span,
    )


def _count(shape: tuple[int | str, ...]) -> int | str:
    total = 1
    for size in shape:
        if isinstance(size, str):
            return "n"
        total *= size
    return total


@on_error("constant-became-traced", "jax.numpy on plain numbers inside jit makes a tracer where a number is needed")
def constant_became_traced(failing: Failing) -> Cause | None:
    """Inside jit every call of `jax.numpy` is staged into the program, also one on plain Python numbers such as
    static arguments and `x.shape[0]`; its result is traced and can't be a length or an axis. Python's own
    functions (`min`, `max`, `math.prod`) leave numbers numbers.

    Sure: the value was written by such a call, and all of that call's inputs are plain numbers.
    """
    if not _refused(failing):
        return None
    for part in parts(failing.node):
        made = _made_by_jax(failing, part)
        if made is not None:
            plain = _plain_form(failing, made)
            inputs = ", ".join(str(failing.scope.get(argument)) for argument in made.args)
            name = failing.text(made.func)
            return Cause(
                title=f"`{failing.text(part)}` is traced although every input is a plain number",
                explanation=f"Inside jit `{failing.text(made)}` is staged into the program: its result is a tracer, "
                f"though its inputs ({inputs}) are known. Python's own function gives a plain number.",
                evidence=(Evidence(f"{name}({inputs}) became traced here", failing.site.span_of(made)),),
                fix=plain,
                replaces=failing.site.span_of(made),
            )
    return None


def _made_by_jax(failing: Failing, part: ast.expr) -> ast.Call | None:
    """The call of JAX on known numbers that `part` is, or was last assigned from."""
    named = isinstance(part, ast.Name) and failing.traced(part)
    source = assigned_from(failing.site, part.id) if named and isinstance(part, ast.Name) else part
    if not isinstance(source, ast.Call) or not source.args or not of_jax(failing.scope.get(source.func)):
        return None
    plain = all(type(failing.scope.get(argument)) in (int, float, bool) for argument in source.args)
    return source if plain else None


def assigned_from(site: Site, name: str) -> ast.expr | None:
    """The expression last assigned to a name above the failing line, in the function's source."""
    if site.definition is None or isinstance(site.definition, ast.Lambda):
        return None
    found = [
        node.value
        for node in ast.walk(site.definition)
        if isinstance(node, ast.Assign) and node.lineno <= site.span.line and stored(*node.targets) == [name]
    ]
    return found[-1] if found else None


def _plain_form(failing: Failing, node: ast.Call) -> str:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name in _STATIC_FORMS:
        return text(call(_STATIC_FORMS[name], *node.args))
    return text(call(f"{alias(failing.scope, 'numpy')}.{name}", *node.args)) if name else ""


@on_error("argument-must-be-static", "an axis, length, shape or other setting is traced")
def argument_must_be_static(failing: Failing) -> Cause | None:
    """Axes, lengths, shapes, numbers of classes and the like decide the program itself, so JAX must know them
    while it traces. An argument of a jitted function is traced unless it is named in `static_argnames`; each new
    value of a static argument compiles once more.

    Sure: the call itself raised. Which argument is meant is taken from JAX's message, or from the parameters that
    are traced integers.
    """
    node = failing.node
    if not (_refused(failing) and isinstance(node, ast.Call)) or _is_builtin(node.func):
        return None
    culprit = next((part for part in parts(node) if _is_setting(failing, part)), None)
    if culprit is None:
        return None
    named = [name for name in failing.depends_on if name.isidentifier()] or _settings_in(failing, culprit)
    fix, replaces = static_fix(failing, named)
    cost = " Each new value then compiles once." if fix else ""
    return Cause(
        title=f"`{failing.text(culprit)}` decides the shape of the result, so it can't be traced",
        explanation=f"`{failing.text(node)}` needs the number in `{failing.text(culprit)}` to build the program. "
        f"{why_traced(failing)}{cost}",
        evidence=origins(failing, *parts(node)),
        fix=fix,
        replaces=replaces,
    )


def _is_builtin(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id in vars(builtins)


def _is_setting(failing: Failing, part: ast.expr) -> bool:
    aval = failing.aval(part)
    return failing.traced(part) and (aval is None or (aval.shape == () and "int" in aval.dtype))


def _settings_in(failing: Failing, node: ast.expr) -> list[str]:
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return [name for name in parameters(failing.site) if name in names]


def setting(failing: Failing, test: ast.expr) -> str | None:
    """The one parameter a condition depends on, if it came in as a Python bool or int: a setting, not data."""
    if not failing.under.startswith("jit "):
        return None
    traced = [part for part in ast.walk(test) if isinstance(part, ast.Name) and failing.traced(part)]
    names = {part.id for part in traced}
    if len(names) != 1 or not names <= set(parameters(failing.site)):
        return None
    aval = failing.aval(traced[0])
    plain = aval is not None and aval.shape == () and (aval.dtype == "bool" or (aval.weak and "int" in aval.dtype))
    return names.pop() if plain else None


def static_fix(failing: Failing, names: list[str]) -> tuple[str, Span | None]:
    """The `jax.jit` that traces these arguments, with `static_argnames`; empty where it can't be found."""
    for site in failing.sites:
        known = [name for name in names if name in parameters(site)]
        if known and isinstance(site.definition, ast.FunctionDef):
            for decorator in site.definition.decorator_list:
                if is_jit(site, decorator):
                    span = site.span_of(decorator)
                    at = Span(span.file, span.line, span.column - 1, span.end_line, span.end_column)
                    return "@" + text(with_statics(decorator, known, parameters(site))), at
        for jitted in _jit_calls(site):
            return text(with_statics(jitted, known or names)), site.span_of(jitted)
    return "", None


def is_jit(site: Site, node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="partial") | ast.Attribute(attr="partial"), args=[first, *_]):
            return is_jit(site, first)
        case ast.Call(func=function):
            return is_jit(site, function)
        case ast.Name(id="jit") | ast.Attribute(attr="jit", value=ast.Name(id="jax")):
            return True
    return False


def _jit_calls(site: Site) -> list[ast.Call]:
    """`jax.jit(f)` inside the expression that called the traced function."""
    if site.node is None:
        return []
    calls = [node for node in ast.walk(site.node) if isinstance(node, ast.Call) and node.args]
    return [node for node in calls if is_jit(site, node.func) and not isinstance(node.func, ast.Call)]


def with_statics(node: ast.expr, names: list[str], order: list[str] | None = None) -> ast.expr:
    """A jit with further static arguments, by position where it has positions already: JAX doesn't join the two.

    Args:
        node: `jax.jit`, `jax.jit(f)`, `partial(jax.jit, …)`.
        names: The parameters to make static.
        order: All parameters of the function, where they are known.
    """
    value: ast.expr = ast.Constant(names[0]) if len(names) == 1 else ast.Tuple([ast.Constant(n) for n in names])
    if not isinstance(node, ast.Call):
        return ast.Call(node, [], [ast.keyword("static_argnames", value)])
    numbers = next((word for word in node.keywords if word.arg == "static_argnums"), None)
    existing = next((word for word in node.keywords if word.arg == "static_argnames"), None)
    if numbers is not None and existing is None and order is not None and set(names) <= set(order):
        return replaced(node, numbers.value, _joined(numbers.value, [order.index(name) for name in names]))
    if existing is None:
        return ast.Call(node.func, node.args, [*node.keywords, ast.keyword("static_argnames", value)])
    return replaced(node, existing.value, _joined(existing.value, names))


def _joined(value: ast.expr, further: list[str] | list[int]) -> ast.Tuple:
    """One or several static arguments, and further ones."""
    listed = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    return ast.Tuple([*listed, *(ast.Constant(each) for each in further)])
