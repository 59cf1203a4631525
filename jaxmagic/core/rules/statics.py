"""Values that JAX must know while it traces: settings, axes, lengths and shapes."""

import ast
import builtins

from jaxmagic.core.failures.operands import of_jax
from jaxmagic.core.failures.sites import Site
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.jits import Fix, settings, static_fix
from jaxmagic.core.rules.rewrite import alias, call, text
from jaxmagic.core.rules.wording import origins, why_traced
from jaxmagic.core.source.nodes import name_called, parts, stored
from jaxmagic.records import Evidence

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
    name = name_called(node)
    data = next((part for part in parts(node) if failing.traced(part)), None)
    if name == "repeat" and len(node.args) == 2 and failing.traced(node.args[1]) and _has_axes(failing, node.args[1]):
        return _repeated(failing, node)
    if name not in (*_SIZED, "bincount") or data is None:
        return None
    aval = failing.aval(data)
    keyword = "length" if name == "bincount" else "size"
    sizes = "n" if aval is None or name == "bincount" else str(_count(aval.shape))
    sized = ast.Call(node.func, node.args, [*node.keywords, ast.keyword(keyword, ast.parse(sizes, mode="eval").body)])
    return Cause(
        title=f"the length of {name}(…) depends on the values of {failing.shown(data)}",
        explanation=f"A traced program has fixed shapes, but how many elements `{failing.text(node)}` returns is only "
        f"known when it runs. {why_traced(failing)} With `{keyword}={sizes}` there is room for all of them; "
        f"{_padding(name)}",
        evidence=origins(failing, data),
        fix=text(sized),
        replaces=failing.span,
    )


def _has_axes(failing: Failing, node: ast.expr) -> bool:
    aval = failing.aval(node)
    return aval is not None and bool(aval.shape)


def _padding(name: str) -> str:
    """What stands in the places that the data don't fill."""
    if name == "bincount":
        return "values beyond are left out."
    if name in ("nonzero", "flatnonzero", "argwhere", "where"):
        return "places left over hold index 0, which is a valid one: give `fill_value`, or mask them."
    return "places left over repeat a value: give `fill_value`, or mask them."


def _repeated(failing: Failing, node: ast.Call) -> Cause:
    """`jnp.repeat(x, counts)`: how long the result is only the caller can say."""
    counts = node.args[1]
    return Cause(
        title=f"the length of repeat(…) depends on the values of {failing.shown(counts)}",
        explanation=f"A traced program has fixed shapes. {why_traced(failing, counts)} Say how long the result is: "
        "`total_repeat_length=n`.",
        evidence=origins(failing, *node.args),
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
    if not isinstance(node, ast.Call) or not _wants_settings(failing, node):
        return None
    culprits = [part for part in parts(node) if _is_setting(failing, part)] or _inside(failing, node)
    if not culprits:
        return None
    fix, replaces = static_fix(failing, settings(failing, *culprits))
    cost = " Each new value then compiles once." if fix else ""
    named = " and ".join(f"`{failing.text(part)}`" for part in culprits)
    verb, they = ("decide", "they") if len(culprits) > 1 else ("decides", "it")
    decides = f"what `{failing.text(node)}` does" if _chosen_by_library(failing) else "the shape of the result"
    return Cause(
        title=f"{named} {verb} {decides}, so {they} can't be traced",
        explanation=f"`{failing.text(node)}` needs the number in {named} to build the program. "
        f"{why_traced(failing, *culprits)}{cost}",
        evidence=origins(failing, *dict.fromkeys([*parts(node), *culprits]), because=culprits),
        fix=fix,
        replaces=replaces,
    )


def _wants_settings(failing: Failing, node: ast.Call) -> bool:
    """Whether a function needs plain numbers, rather than Python itself (`int(x)`, `x.item()`)."""
    conversion = isinstance(node.func, ast.Attribute) and node.func.attr in ("item", "tolist")
    if _is_builtin(node.func) or conversion:
        return False
    return _refused(failing) or _chosen_by_library(failing)


def _chosen_by_library(failing: Failing) -> bool:
    """Whether an `if` in the code of a library asked for the value."""
    return failing.kind == "TracerBoolConversionError" and not failing.asked_by_python and bool(failing.machinery)


def _is_builtin(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id in vars(builtins)


def _is_setting(failing: Failing, part: ast.expr) -> bool:
    kinds = ("int", "bool", "float") if _chosen_by_library(failing) else ("int",)
    aval = failing.aval(part)
    return failing.traced(part) and (aval is None or (aval.shape == () and any(kind in aval.dtype for kind in kinds)))


def _inside(failing: Failing, node: ast.Call) -> list[ast.expr]:
    """Settings that the called object was made with: `nn.Dropout(rate)(x)`."""
    names = [part for part in ast.walk(node.func) if isinstance(part, ast.Name)]
    return [part for part in names if _is_setting(failing, part)]


def setting_fix(failing: Failing, test: ast.expr) -> Fix:
    """The jit with a condition's one variable static, if that came in as a Python bool or int: no data, a setting."""
    traced = [part for part in ast.walk(test) if isinstance(part, ast.Name) and failing.traced(part)]
    if len({part.id for part in traced}) != 1:
        return "", None
    aval = failing.aval(traced[0])
    plain = aval is not None and aval.shape == () and (aval.dtype == "bool" or (aval.weak and "int" in aval.dtype))
    return static_fix(failing, settings(failing, test)) if plain else ("", None)
