"""Traced arrays handed to code that wants numbers: int, float, math, numpy, format, range, list indices."""

import ast
import dataclasses
import importlib
import importlib.util
import re
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmagic.core.failures.operands import aval_of
from jaxmagic.core.rules import traced_loops
from jaxmagic.core.rules.calls import Fix
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.jits import settings, static_fix
from jaxmagic.core.rules.rewrite import alias, call, copied, expression, replaced, taking, text
from jaxmagic.core.rules.wording import origins, why_traced
from jaxmagic.core.source.nodes import parts
from jaxmagic.records import Span

_CASTS = {"int": "int", "float": "float", "complex": "complex"}


@on_error("number-from-traced", "int(), float(), math.* or .item() of a traced array")
def number_from_traced(failing: Failing) -> Cause | None:
    """`int(x)`, `float(x)`, `math.sin(x)`, `x.item()` and `x.tolist()` want a Python number, which a traced array
    does not have. `x.astype(int)` and `jax.numpy` do the same inside the program.

    Sure: the call itself raised.
    """
    node = failing.node
    if failing.kind != "ConcretizationTypeError" or not isinstance(node, ast.Call):
        return None
    match node.func:
        case ast.Name(id="int" | "float" | "complex" as name) if node.args:
            fix = text(ast.Call(ast.Attribute(node.args[0], "astype"), [ast.Name(_CASTS[name])], []))
        case ast.Attribute(attr="item" | "tolist" as name, value=array):
            fix = text(array)
        case ast.Attribute(attr=name) if _module(failing, node.func) == "math":
            fix = text(call(f"{alias(failing.scope, 'jax.numpy')}.{name}", *node.args))
        case _:
            return None
    outer, statement = next(iter(failing.site.around), None), failing.site.statement
    if name == "int" and isinstance(outer, ast.Subscript) and outer.slice is node:
        return _number_as_index(failing, node, outer)
    replaces, way = failing.span, ""
    if isinstance(statement, ast.Expr) and failing.first_traced is not None:
        fix, replaces = _called_later(failing, statement, [failing.first_traced])
        way = " `jax.debug.callback` hands the number to Python when the program runs." if fix else ""
    elif _kept_outside(statement):
        fix, way = "", " What the program computes is returned: stored from inside it would be a leaked tracer."
    return Cause(
        title=f"{name}() wants a Python number, but {_named(failing)} is traced",
        explanation=f"`{failing.text(node)}` asks for a concrete number. {why_traced(failing)}{way}",
        evidence=origins(failing, *parts(node)),
        fix=fix,
        replaces=replaces,
    )


def _kept_outside(statement: ast.stmt | None) -> bool:
    """`self.total += x.item()`."""
    match statement:
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign(target=ast.Attribute()):
            return True
    return False


def _number_as_index(failing: Failing, node: ast.Call, outer: ast.Subscript) -> Cause:
    """`names[int(i)]`: what is indexed decides how the traced index can be used."""
    index = ast.copy_location(ast.Subscript(outer.value, node.args[0], ast.Load()), outer)
    value = failing.scope.get(outer.value)
    if isinstance(value, list | tuple | np.ndarray):
        cause = _table(failing, index)
        at_index = cause.replaces == failing.span
        return dataclasses.replace(cause, replaces=failing.site.span_of(outer) if at_index else cause.replaces)
    return Cause(
        title=f"int() wants a Python number, but {_named(failing)} is traced",
        explanation=f"`{failing.text(node)}` asks for a concrete number. {why_traced(failing)}",
        evidence=origins(failing, *parts(node)),
        fix=text(ast.Call(ast.Attribute(node.args[0], "astype"), [ast.Name("int")], [])),
        replaces=failing.span,
    )


def _named(failing: Failing) -> str:
    return failing.shown(failing.first_traced) if failing.first_traced is not None else "its argument"


def _module(failing: Failing, function: ast.expr) -> str:
    """Module that the function is called from: `numpy`, `math`; empty where it is no module's."""
    root = function
    while isinstance(root, ast.Attribute):
        root = root.value
    value = failing.scope.get(root)
    if type(value).__name__ == "module" and isinstance(function, ast.Attribute):
        return value.__name__
    return (getattr(failing.scope.get(function), "__module__", None) or "").partition(".")[0]


@on_error("numpy-on-traced", "a NumPy function got a traced array")
def numpy_on_traced(failing: Failing) -> Cause | None:
    """NumPy asks an array for its memory, and a traced array has none. The same name under `jax.numpy` (or
    `jax.scipy`) stays in the program. Other code needs `jax.pure_callback`. A few NumPy functions (`np.sum`,
    `np.mean`, `np.reshape`) work, as NumPy hands them to the array's own method; those are not reported. Neither
    can a NumPy array take a traced value in one of its places: make it a JAX array, and use `.at[…].set`.

    Sure: the call itself raised.
    """
    if failing.says("setting an array element with a sequence") and (stored := _stored(failing)):
        return stored
    if failing.kind != "TracerArrayConversionError":
        return None
    node = failing.node
    module = _module(failing, node.func) if isinstance(node, ast.Call) else ""
    if isinstance(node, ast.Subscript):
        return _table(failing, node)
    drawn = isinstance(node, ast.Call) and failing.text(node.func).split(".")[-2:-1] == ["random"]
    same = _same_in_jax(failing, node.func, module) if isinstance(node, ast.Call) and not drawn else ""
    fix = _on_host(failing, node) if isinstance(node, ast.Call) and not same else ""
    if isinstance(node, ast.Call) and same:
        fix = text(replaced(node, node.func, expression(same)))
    what = f"`{failing.text(node.func)}`" if isinstance(node, ast.Call) else "NumPy"
    return Cause(
        title=f"{what} wants the numbers in {_named(failing)}, which is traced",
        explanation=f"{what} asks for the array's memory. {why_traced(failing)} "
        + (
            f"`{same}` is the same function."
            if same
            else "NumPy would draw once, while tracing: take a key as an argument, and use `jax.random`."
            if drawn
            else "Code outside JAX can be called by `jax.pure_callback`."
        ),
        evidence=origins(failing, *parts(node)),
        fix=fix,
        replaces=failing.span,
    )


def _stored(failing: Failing) -> Cause | None:
    """`out[0] = x` of a NumPy array and a tracer."""
    match failing.site.statement:
        case ast.Assign(targets=[ast.Subscript(value=array, slice=key)], value=value) if failing.traced(value):
            pass
        case _:
            return None
    name = failing.text(array)
    made = call(f"{alias(failing.scope, 'jax.numpy')}.asarray", array)
    place = ast.Subscript(ast.Attribute(made, "at"), key)
    changed = ast.Assign([array], ast.Call(ast.Attribute(place, "set"), [value], []), lineno=0)
    return Cause(
        title=f"`{name}` is a NumPy array, which can't hold {failing.shown(value)}, a traced value",
        explanation=f"NumPy stores numbers. {why_traced(failing, value)} As a JAX array `{name}` takes it, by an "
        "indexed update that makes a new array.",
        evidence=origins(failing, array, value),
        fix=text(changed),
        replaces=failing.site.span_of(failing.site.statement),
    )


def _same_in_jax(failing: Failing, function: ast.expr, module: str) -> str:
    """The function of `jax.numpy` or `jax.scipy` of the same name, as the user would spell it; empty without one."""
    owner = failing.scope.get(function.value) if isinstance(function, ast.Attribute) else None
    package, _, path = getattr(owner, "__name__", module).partition(".")
    spelled = failing.text(function)
    name = spelled.rpartition(".")[2]
    if package == "numpy":
        owner = jnp
        names = (spelled.partition(".")[2] or spelled).split(".")
        for step in names:
            owner = getattr(owner, step, None)
        return ".".join([alias(failing.scope, "jax.numpy"), *names]) if owner is not None else ""
    if package == "scipy" and path and importlib.util.find_spec(f"jax.scipy.{path}") is not None:
        known = hasattr(importlib.import_module(f"jax.scipy.{path}"), name)
        return f"{alias(failing.scope, f'jax.scipy.{path}')}.{name}" if known else ""
    return ""


def _on_host(failing: Failing, node: ast.Call) -> str:
    """A universal function called on the host: its result has the shape of its argument."""
    if not isinstance(failing.scope.get(node.func), np.ufunc) or len(node.args) != 1 or node.keywords:
        return ""
    (given,) = node.args
    aval = failing.aval(given)
    if aval is None or any(each in ("grad", "jvp", "vjp", "jacobian") for each in failing.transforms):
        return ""
    jax = alias(failing.scope, "jax")
    kind = call(f"{jax}.ShapeDtypeStruct", expression(str(aval.shape)), ast.Constant(aval.dtype))
    return text(call(f"{jax}.pure_callback", node.func, kind, given, vmap_method=ast.Constant("expand_dims")))


@on_error("index-from-traced", "range(), a list index, a dict key or another Python integer is traced")
def index_from_traced(failing: Failing) -> Cause | None:
    """`range(n)`, `items[i]` of a list or tuple, `table[i]` of a dict, and all else that needs a Python integer. A
    loop of traced length is `jax.lax.fori_loop`; a list of arrays can be stacked and then indexed; a length that is
    a setting can be static.

    Sure: the expression itself raised.
    """
    node = failing.node
    if failing.says(r"unhashable type: '\w*Tracer'"):
        return _key(failing)
    if failing.kind != "TracerIntegerConversionError":
        return None
    if isinstance(node, ast.Subscript):
        return _table(failing, node)
    traced = failing.first_traced
    fix, replaces = static_fix(failing, settings(failing, traced)) if traced is not None else ("", None)
    if not fix:
        fix, replaces = traced_loops.fori_loop(failing)
    what = f"`{failing.text(node)}`" if node is not None else "Python"
    loop = " A loop of traced length is `jax.lax.fori_loop`." if "range(" in what else ""
    return Cause(
        title=f"a Python integer is needed, but {_named(failing)} is traced",
        explanation=f"{what} needs to know the number while the function is traced. {why_traced(failing)}{loop}",
        evidence=origins(failing, *parts(node)),
        fix=fix,
        replaces=replaces,
    )


def _table(failing: Failing, node: ast.Subscript) -> Cause:
    """A list, tuple or NumPy array indexed by a tracer."""
    value = failing.scope.get(node.value)
    kind = "NumPy array" if isinstance(value, np.ndarray) else f"Python {type(value).__name__}"
    fix, replaces, way = _choice(failing, node, value)
    return Cause(
        title=f"a {kind} can't be indexed by {failing.shown(node.slice)}, which is traced",
        explanation=f"`{failing.text(node.value)}` lives in Python: its elements are chosen while the function is "
        f"traced. {why_traced(failing, node.slice)} {way}",
        evidence=origins(failing, *parts(node)),
        fix=fix,
        replaces=replaces,
    )


def _choice(failing: Failing, node: ast.Subscript, value: Any) -> tuple[str, Span | None, str]:
    """An element chosen inside the program: a function by `switch`, one of equal arrays by indexing them all."""
    outer = next(iter(failing.site.around), None)
    elements = value if isinstance(value, list | tuple) else ()
    if elements and all(callable(element) for element in elements):
        if isinstance(outer, ast.Call) and outer.func is node and not outer.keywords:
            switch = call(f"{alias(failing.scope, 'jax.lax')}.switch", node.slice, node.value, *outer.args)
            return text(switch), failing.site.span_of(outer), "`jax.lax.switch` chooses a function inside the program."
        return "", None, "`jax.lax.switch` chooses a function inside the program."
    avals = {aval.shape if (aval := aval_of(element)) else type(element) for element in elements}
    if isinstance(value, list | tuple) and (len(avals) != 1 or not (avals <= {int, float, bool} or _shapes(avals))):
        fix, replaces = static_fix(failing, settings(failing, node.slice))
        return (
            fix,
            replaces,
            "Its elements differ in kind or shape: `jax.lax.switch` chooses between functions of them.",
        )
    made = "stack" if _shapes(avals) else "asarray"
    table = call(f"{alias(failing.scope, 'jax.numpy')}.{made}", node.value)
    way = "As a JAX array it can be indexed inside the program."
    return text(replaced(node, node.value, table)), failing.span, way


def _shapes(avals: set[Any]) -> bool:
    return any(isinstance(each, tuple) for each in avals)


def _key(failing: Failing) -> Cause | None:
    """A tracer as the key of a dict, an element of a set, or an argument of a cached function."""
    node, traced = failing.node, failing.first_traced
    if node is None or traced is None:
        return None
    fix, replaces = static_fix(failing, settings(failing, traced))
    table = failing.scope.get(node.value) if isinstance(node, ast.Subscript) else None
    if not fix and isinstance(node, ast.Subscript) and isinstance(table, dict) and list(table) == [*range(len(table))]:
        values = call("list", ast.Call(ast.Attribute(node.value, "values"), [], []))
        fix = text(replaced(node, node.value, call(f"{alias(failing.scope, 'jax.numpy')}.asarray", values)))
        replaces = failing.span
    return Cause(
        title=f"{failing.shown(traced)} is traced, so it can't be a key",
        explanation=f"`{failing.text(node)}` looks a value up by its hash: dicts, sets and cached functions need to "
        f"know it while the function is traced. {why_traced(failing, traced)}",
        evidence=origins(failing, traced),
        fix=fix,
        replaces=replaces,
    )


@on_error("format-of-traced", 'a traced array is formatted: f"{x:.3f}", "%.3f" % x, "{:.3f}".format(x)')
def format_of_traced(failing: Failing) -> Cause | None:
    """`f"{x:.3f}"` asks a traced array for a number, and Python's own TypeError names neither the variable nor a
    remedy. `jax.debug.print` formats the value when the program runs.

    Sure: the formatting itself raised.
    """
    refused = failing.says(
        r"unsupported format string passed to \w*Tracer|format: a real number is required, not \w*Tracer"
    )
    asked = refused or failing.kind == "ConcretizationTypeError"
    text_node = _string_around(failing) if asked else None
    if text_node is None:
        return None
    traced = [part for part in _formatted(text_node) if failing.traced(part)]
    return _formatting(failing, text_node, *traced)


def _string_around(failing: Failing) -> ast.expr | None:
    """The f-string, `"…" % x` or `"…".format(x)` that is being made."""
    for node in (failing.node, *failing.site.around):
        match node:
            case ast.JoinedStr():
                return node
            case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod()):
                return node
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr="format")):
                return node
    return None


def _formatted(node: ast.expr) -> list[ast.expr]:
    """The values that are put into a string."""
    match node:
        case ast.BinOp(right=ast.Tuple(elts=values)):
            return values
        case ast.BinOp(right=value):
            return [value]
        case ast.Call(args=args, keywords=keywords):
            return [*args, *(word.value for word in keywords)]
    return parts(node)


def _formatting(failing: Failing, string: ast.expr, *values: ast.expr) -> Cause:
    shown = " and ".join(failing.shown(value) for value in values) or "a value"
    fix, replaces = _printed_later(failing, string, list(values))
    later = "hands the value to Python" if "debug.callback(" in fix else "formats the value"
    name = "callback" if "debug.callback(" in fix else "print"
    return Cause(
        title=f"formatting wants the number in {shown}, which is traced",
        explanation=f"A string is made while the function is traced. {why_traced(failing, *values)} "
        f"`jax.debug.{name}` {later} when the program runs.",
        evidence=origins(failing, *values),
        fix=fix,
        replaces=replaces,
    )


def _printed_later(failing: Failing, string: ast.expr, values: list[ast.expr]) -> tuple[str, Span | None]:
    """`print(f"x is {x:.3f}")` as `jax.debug.print("x is {:.3f}", x)`; any other call of the string as a callback."""
    nodes = (failing.node, *failing.site.around)
    statement = failing.site.statement
    printed = next((node for node in nodes if isinstance(node, ast.Call) and _is_print(node)), None)
    jax = alias(failing.scope, "jax")
    pattern = _pattern(string)
    if printed is not None and printed.args == [string] and pattern is not None:
        words = {word.arg: word.value for word in getattr(string, "keywords", ()) if word.arg}
        given = [value for value in _formatted(string) if not any(value is word for word in words.values())]
        return text(call(f"{jax}.debug.print", ast.Constant(pattern), *given, **words)), failing.site.span_of(printed)
    return _called_later(failing, statement, values) if isinstance(statement, ast.Expr) else ("", None)


def _called_later(failing: Failing, statement: ast.Expr, values: list[ast.expr]) -> Fix:
    """`history.append(float(loss))` as a callback that gets the values when the program runs."""
    if not isinstance(statement.value, ast.Call) or not values:
        return "", None
    names = [value.id if isinstance(value, ast.Name) else f"value_{at}" for at, value in enumerate(values, 1)]
    swaps: dict[int, ast.AST] = {id(value): ast.Name(name) for value, name in zip(values, names, strict=True)}
    later = taking(names, copied(statement.value, swaps))
    return text(call(f"{alias(failing.scope, 'jax')}.debug.callback", later, *values)), failing.site.span_of(statement)


def _pattern(string: ast.expr) -> str | None:
    """A string with places for values, as `str.format` takes it; None where it has no such form."""
    match string:
        case ast.JoinedStr(values=values):
            return "".join(map(_piece, values))
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(pattern)))):
            return pattern
        case ast.BinOp(left=ast.Constant(value=str(pattern))):
            return _from_percent(pattern)
    return None


def _piece(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue):
        return f"{{:{_specification(part)}}}" if part.format_spec else "{}"
    return str(getattr(part, "value", "")).replace("{", "{{").replace("}", "}}")


def _from_percent(pattern: str) -> str | None:
    """`%.3f` as `{:.3f}`."""
    if re.search(r"%(?![-+ 0]*\d*(?:\.\d+)?[dfegsi])", pattern.replace("%%", "")):
        return None
    braced = pattern.replace("{", "{{").replace("}", "}}")
    placed = re.sub(r"%([+ 0]*\d*(?:\.\d+)?)([fegdsi])", lambda found: _place(found[1], found[2]), braced)
    return placed.replace("%%", "%")


def _place(width: str, kind: str) -> str:
    kind = kind if kind in "feg" else ""
    return f"{{:{width}{kind}}}" if width or kind else "{}"


def _specification(part: ast.FormattedValue) -> str:
    """What stands after the colon, where it is plain text."""
    pieces = part.format_spec.values if isinstance(part.format_spec, ast.JoinedStr) else []
    return "".join(str(piece.value) for piece in pieces if isinstance(piece, ast.Constant))


def _is_print(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "print" and len(node.args) == 1
