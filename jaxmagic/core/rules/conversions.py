"""Traced arrays handed to code that wants numbers: int, float, math, numpy, format, range, list indices."""

import ast

from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import alias, call, replaced, text
from jaxmagic.core.rules.statics import static_fix
from jaxmagic.core.rules.wording import origins, parameters, why_traced
from jaxmagic.core.source.nodes import parts
from jaxmagic.records import Span

_CASTS = {"int": "int", "float": "float", "complex": "complex"}
_NOT_IN_JNP = ("random", "linalg", "fft", "testing", "lib")


@on_error("number-from-traced", "int(), float(), math.*, .item() or %-formatting of a traced array")
def number_from_traced(failing: Failing) -> Cause | None:
    """`int(x)`, `float(x)`, `math.sin(x)`, `x.item()`, `x.tolist()` and `"%f" % x` want a Python number, which a
    traced array does not have. `x.astype(int)` and `jax.numpy` do the same inside the program.

    Sure: the call itself raised.
    """
    node = failing.node
    if failing.kind != "ConcretizationTypeError":
        return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        return _formatting(failing, node.right)
    if not isinstance(node, ast.Call):
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
    return Cause(
        title=f"{name}() wants a Python number, but {_named(failing)} is traced",
        explanation=f"`{failing.text(node)}` asks for a concrete number. {why_traced(failing)}",
        evidence=origins(failing, *parts(node)),
        fix=fix,
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
    """NumPy asks an array for its memory, and a traced array has none. The same name under `jax.numpy` stays in
    the program. Code outside JAX (SciPy, pandas) needs `jax.pure_callback`. A few NumPy functions (`np.sum`,
    `np.mean`, `np.reshape`) work, as NumPy hands them to the array's own method; those are not reported.

    Sure: the call itself raised.
    """
    if failing.kind != "TracerArrayConversionError":
        return None
    node = failing.node
    module = _module(failing, node.func) if isinstance(node, ast.Call) else ""
    fix = ""
    if isinstance(node, ast.Call) and module.partition(".")[0] == "numpy":
        fix = text(replaced(node, node.func, ast.parse(_jnp_name(failing, node.func), mode="eval").body))
    elif isinstance(node, ast.Subscript):
        return _table(failing, node)
    what = f"`{failing.text(node.func)}`" if isinstance(node, ast.Call) else "NumPy"
    return Cause(
        title=f"{what} wants the numbers in {_named(failing)}, which is traced",
        explanation=f"{what} asks for the array's memory. {why_traced(failing)} "
        + ("`jax.numpy` has the same function." if fix else "Code outside JAX can be called by `jax.pure_callback`."),
        evidence=origins(failing, *parts(node)),
        fix=fix,
        replaces=failing.span,
    )


def _jnp_name(failing: Failing, function: ast.expr) -> str:
    spelled = failing.text(function)
    name = spelled.partition(".")[2] or spelled
    return f"{alias(failing.scope, 'jax.numpy')}.{name}"


@on_error("index-from-traced", "range(), a list index or another Python integer is traced")
def index_from_traced(failing: Failing) -> Cause | None:
    """`range(n)`, `items[i]` of a list or tuple, and everything else that needs a Python integer. A loop of traced
    length is `jax.lax.fori_loop`; a list of arrays can be stacked and then indexed; a length that is a setting
    can be static.

    Sure: the expression itself raised.
    """
    if failing.kind != "TracerIntegerConversionError":
        return None
    node = failing.node
    if isinstance(node, ast.Subscript):
        return _table(failing, node)
    traced = failing.first_traced
    names = [part.id for part in ast.walk(traced) if isinstance(part, ast.Name)] if traced is not None else []
    fix, replaces = static_fix(failing, [name for name in parameters(failing.site) if name in names])
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
    table = call(f"{alias(failing.scope, 'jax.numpy')}.asarray", node.value)
    kind = type(failing.scope.get(node.value)).__name__
    return Cause(
        title=f"a Python {kind} can't be indexed by {failing.shown(node.slice)}, which is traced",
        explanation=f"`{failing.text(node.value)}` lives in Python: its elements are chosen while the function is "
        f"traced. {why_traced(failing)} As a JAX array it can be indexed inside the program.",
        evidence=origins(failing, *parts(node)),
        fix=text(replaced(node, node.value, table)),
        replaces=failing.span,
    )


@on_error("format-of-traced", "a format specification on a traced array")
def format_of_traced(failing: Failing) -> Cause | None:
    """`f"{x:.3f}"` asks a traced array for a number, and Python's own TypeError names neither the variable nor a
    remedy. `jax.debug.print` formats the value when the program runs.

    Sure: the formatting itself raised.
    """
    if not failing.says(
        r"unsupported format string passed to \w*Tracer|format: a real number is required, not \w*Tracer"
    ):
        return None
    text_node = _string_around(failing)
    if text_node is None:
        percent = failing.node if isinstance(failing.node, ast.BinOp) else None
        return _formatting(failing, percent.right if percent else None)
    traced = [part for part in parts(text_node) if failing.traced(part)]
    return _formatting(failing, *traced)


def _string_around(failing: Failing) -> ast.JoinedStr | None:
    nodes = (failing.node, *failing.site.around)
    return next((node for node in nodes if isinstance(node, ast.JoinedStr)), None)


def _formatting(failing: Failing, *values: ast.expr | None) -> Cause:
    shown = " and ".join(failing.shown(value) for value in values if value is not None) or "a value"
    fix, replaces = _debug_print(failing)
    return Cause(
        title=f"formatting wants the number in {shown}, which is traced",
        explanation=f"A string is made while the function is traced. {why_traced(failing)} `jax.debug.print` formats "
        "the value when the program runs.",
        evidence=origins(failing, *(value for value in values if value is not None)),
        fix=fix,
        replaces=replaces,
    )


def _debug_print(failing: Failing) -> tuple[str, Span | None]:
    """`print(f"x is {x:.3f}")` as `jax.debug.print("x is {:.3f}", x)`."""
    nodes = (failing.node, *failing.site.around)
    printed = next((node for node in nodes if isinstance(node, ast.Call) and _is_print(node)), None)
    string = _string_around(failing)
    if string is None or printed is None:
        return "", None
    pattern, values = "", []
    for part in string.values:
        if isinstance(part, ast.Constant):
            pattern += str(part.value).replace("{", "{{").replace("}", "}}")
        elif isinstance(part, ast.FormattedValue):
            pattern += f"{{:{_specification(part)}}}" if part.format_spec else "{}"
            values.append(part.value)
    shown = call(f"{alias(failing.scope, 'jax')}.debug.print", ast.Constant(pattern), *values)
    return text(shown), failing.site.span_of(printed)


def _specification(part: ast.FormattedValue) -> str:
    """What stands after the colon, where it is plain text."""
    pieces = part.format_spec.values if isinstance(part.format_spec, ast.JoinedStr) else []
    return "".join(str(piece.value) for piece in pieces if isinstance(piece, ast.Constant))


def _is_print(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "print" and len(node.args) == 1
