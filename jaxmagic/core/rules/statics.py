"""Values that JAX must know while it traces: settings, axes, lengths and shapes."""

import ast
import builtins
from typing import Any

from jaxmagic.core.failures.operands import of_jax
from jaxmagic.core.failures.sites import Site
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.jits import Fix, settings, static_fix
from jaxmagic.core.rules.rewrite import alias, call, extended, replaced, text
from jaxmagic.core.rules.wording import origins, why_traced
from jaxmagic.core.source.nodes import name_called, parts, stored
from jaxmagic.records import Evidence

_STATIC_FORMS = {"minimum": "min", "maximum": "max", "prod": "math.prod", "floor": "math.floor", "ceil": "math.ceil"}
_SEGMENTS = ("segment_sum", "segment_prod", "segment_max", "segment_min")
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
    if name in _SEGMENTS and len(node.args) < 3 and not any(word.arg == "num_segments" for word in node.keywords):
        return _segments(failing, node)
    if name not in (*_SIZED, "bincount") or data is None:
        return None
    aval = failing.aval(data)
    keyword = "length" if name == "bincount" else "size"
    size = "…" if aval is None or name == "bincount" else _count(aval.shape)
    sized = extended(node, **{keyword: ast.Constant(size)})
    return Cause(
        title=f"the length of {name}(…) depends on the values of {failing.shown(data)}",
        explanation=f"A traced program has fixed shapes, but how many elements `{failing.text(node)}` returns is only "
        f"known when it runs. {why_traced(failing)} With `{keyword}={size}` there is room for all of them; "
        f"{_padding(name)}",
        evidence=origins(failing, data),
        fix=text(sized) if isinstance(size, int) else "",
        replaces=failing.span,
    )


def _segments(failing: Failing, node: ast.Call) -> Cause | None:
    """`segment_sum(x, ids)`: there are as many segments as the largest of the ids says."""
    ids = next((word.value for word in node.keywords if word.arg == "segment_ids"), None) or node.args[1]
    aval = failing.aval(ids)
    count = _count(aval.shape) if aval is not None else "n"
    fix = text(extended(node, num_segments=ast.Constant(count))) if isinstance(count, int) else ""
    return Cause(
        title=f"the number of segments depends on the values of {failing.shown(ids)}",
        explanation=f"A traced program has fixed shapes, and the largest id says how many segments there are. "
        f"{why_traced(failing, ids)} Say how many with `num_segments`: {count} is room for one segment for each "
        "element, and segments without elements stay empty.",
        evidence=origins(failing, *node.args, because=[ids]),
        fix=fix,
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
            inputs = ", ".join(str(_known(failing, argument)) for argument in made.args)
            name = failing.text(made.func)
            return Cause(
                title=f"`{failing.text(part)}` is traced although every input is a plain number",
                explanation=f"Inside jit `{failing.text(made)}` is staged into the program: its result is a tracer, "
                f"though its inputs ({inputs}) are known. Python's own function gives a plain number.",
                evidence=(Evidence(f"{name}({inputs}) became traced here", failing.site.span_of(made)),),
                fix=plain[0],
                replaces=plain[1],
            )
    return None


def _made_by_jax(failing: Failing, part: ast.expr) -> ast.Call | None:
    """The call of JAX on known numbers that `part` is, or was last assigned from."""
    named = isinstance(part, ast.Name) and failing.traced(part)
    source = assigned_from(failing.site, part.id) if named and isinstance(part, ast.Name) else part
    if not isinstance(source, ast.Call) or not source.args or not of_jax(failing.scope.get(source.func)):
        return None
    return source if all(_known(failing, argument) is not None for argument in source.args) else None


def _known(failing: Failing, node: ast.expr) -> Any:
    """A plain number, or a tuple of them, also where it was made an array first: `jnp.array(x.shape)`."""
    value = failing.scope.get(_unwrapped(failing, node))
    listed = value if isinstance(value, tuple) else (value,)
    return value if listed and all(type(each) in (int, float, bool) for each in listed) else None


def _unwrapped(failing: Failing, node: ast.expr) -> ast.expr:
    """`x.shape` of `jnp.array(x.shape)`."""
    match node:
        case ast.Call(func=function, args=[inner]) if name_called(node) in ("array", "asarray"):
            return _unwrapped(failing, inner) if of_jax(failing.scope.get(function)) else node
    return node


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


def _plain_form(failing: Failing, node: ast.Call) -> Fix:
    """The call as one of Python's own functions; the import that it needs is put before the statement."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    args = [_unwrapped(failing, argument) for argument in node.args]
    function = _STATIC_FORMS.get(name) or (f"{alias(failing.scope, 'numpy')}.{name}" if name else "")
    if not function:
        return "", None
    new, module = call(function, *args), function.rpartition(".")[0]
    statement = failing.site.statement
    if module == "math" and failing.scope.get(ast.Name("math")) is None:
        simple = isinstance(statement, ast.Assign | ast.Return | ast.Expr) and node in ast.walk(statement)
        code = f"import math\n{text(replaced(statement, node, new))}" if simple and statement is not None else ""
        return code, failing.site.span_of(statement) if code and statement is not None else None
    return text(new), failing.site.span_of(node)


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
    culprits = _settings_of(failing, node) or _inside(failing, node)
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


def _settings_of(failing: Failing, node: ast.Call) -> list[ast.expr]:
    """The traced numbers among the arguments; those that say where a dynamic slice begins may be traced."""
    start = node.args[1] if name_called(node).startswith("dynamic_") and len(node.args) > 1 else node.func
    scalars = [part for part in parts(node) if failing.traced(part) and (aval := failing.aval(part)) and not aval.shape]
    found = [part for part in parts(node) if _is_setting(failing, part)]
    found = found or (scalars if name_called(node) in ("arange", "linspace") else [])
    return [part for part in found if not any(part is inner for inner in ast.walk(start))] or found


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
