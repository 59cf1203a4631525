"""Arrays that are not what a jaxtyping annotation says: another dtype, number of axes, or size of one."""

import ast
import re
from dataclasses import dataclass

from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import function_of
from jaxmagic.core.rules.jits import static_fix
from jaxmagic.core.rules.rewrite import alias, call, replaced, text
from jaxmagic.core.rules.signatures import innermost
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span

_SAYS = re.compile(
    r"^Type-check error whilst checking the (?P<what>parameters|return value) of (?P<name>[\w.<>]+)\.\n"
    r"(?:The problem arose whilst typechecking parameter '(?P<parameter>\w+)'\.\n)?"
    r"Actual value: (?P<actual>.*?)\nExpected type: (?:<class '(?P<quoted>.+?)'>|(?P<plain>.+?))\.\n",
    re.DOTALL,
)
_ARRAY = re.compile(r"^(?:weak_)?(?P<dtype>[a-z]+)(?P<bits>\d*)\[(?P<shape>[\d,]*)\](?P<numpy>\(numpy\))?$")
_ANNOTATION = re.compile(r"^(?P<kind>\w+)\[(?P<array>\w+), '(?P<axes>[^']*)'\]$")
_KINDS = {"Float": "f", "Inexact": "fc", "Real": "fiu", "Num": "fiuc", "Int": "i", "UInt": "u", "Integer": "iu"}
_CASTS = {"Float": "float", "Inexact": "float", "Int": "int", "Integer": "int", "Complex": "complex", "Bool": "bool"}
_NUMBERS = ("int", "float", "bool", "str")
_TOGETHER = "The annotations of a call are checked together: an axis has one size in all of them."
_STATIC = "Under jit a number that is passed is traced; one that is to stay a number of Python's is static."


@dataclass(frozen=True)
class _Misfit:
    """Why an array does not fit its annotation."""

    why: str
    cast: str = ""
    """A dtype that makes it fit."""
    convert: bool = False
    """Whether `jnp.asarray` makes it fit."""
    batch: bool = False
    """Whether one axis is too many."""


@on_error(
    "type-annotation", "an array is not what its jaxtyping annotation says: the dtype, the axes, or a size of one"
)
def type_annotation(failing: Failing) -> Cause | None:
    """`Float[Array, "batch features"]` is a floating array of JAX's with two axes, and an axis has one size in all of
    the arguments and in the result. Reported is which of it does not hold, and which argument fixed the size before.

    Sure: the type checker refused it; the annotation and the shape are compared here once more.
    """
    said = _SAYS.search(failing.message)
    if said is None or failing.kind != "TypeCheckError":
        return None
    expected = re.sub(r"(?:\w+\.)+(\w+)", r"\1", said["quoted"] or said["plain"])
    sizes = dict(re.findall(r"^(\w+)=(\d+)$", failing.message, re.MULTILINE))
    traced = expected in _NUMBERS and _ARRAY.match(said["actual"]) is not None
    misfit = _Misfit("a traced value is an array") if traced else _misfit(said["actual"], expected, sizes)
    name = said["name"].rpartition(".")[2]
    given = _given(failing, said["parameter"])
    shown = f"`{failing.text(given)}`" if given is not None else f"`{said['parameter'] or name}`"
    if said["what"] == "return value":
        shown = f"what `{name}` returns"
    fix, replaces = _fixed(failing, given, misfit) if misfit is not None else ("", None)
    if traced and said["parameter"]:
        fix, replaces = static_fix(failing, [said["parameter"]])
    fixed_by = [f"`{axis}` is {size}" for axis, size in sizes.items() if axis in re.findall(r"\w+", expected)]
    return Cause(
        title=f"{shown} is {said['actual'][:60]}, and annotated `{expected}`"
        + (f": {misfit.why}" if misfit is not None else ""),
        explanation=(_STATIC if traced else _TOGETHER) + _by(fixed_by),
        span=_returned(failing, said["what"]) or (failing.site.span_of(given) if given is not None else None),
        evidence=tuple(Evidence(each.replace("`", "")) for each in fixed_by),
        fix=fix,
        replaces=replaces,
    )


def _by(fixed: list[str]) -> str:
    return f" Here {' and '.join(fixed)}, by the arguments before." if fixed else ""


def _misfit(actual: str, expected: str, sizes: dict[str, str]) -> _Misfit | None:
    value, wanted = _ARRAY.match(actual), _ANNOTATION.match(expected)
    if wanted is None:
        return None
    if value is None:
        number = re.match(r"^-?[\d.e+-]+$", actual)
        return _Misfit("it is no array", convert=not wanted["axes"]) if number else None
    kinds = _KINDS.get(wanted["kind"], "")
    if kinds and value["dtype"][0] not in kinds:
        return _Misfit(f"its dtype is no {wanted['kind']}", cast=_CASTS.get(wanted["kind"], ""))
    if value["numpy"] and wanted["array"] == "Array":
        return _Misfit("it is an array of NumPy's", convert=True)
    shape, axes = [size for size in value["shape"].split(",") if size], wanted["axes"].split()
    if any(not re.fullmatch(r"\w+", axis) for axis in axes):
        return None
    if len(shape) != len(axes):
        count = f"{len(shape)} {'axis' if len(shape) == 1 else 'axes'}"
        return _Misfit(f"it has {count}, and not {len(axes)}", batch=len(shape) == len(axes) + 1)
    known: dict[str, str] = dict(sizes)
    for axis, size in zip(axes, shape, strict=True):
        wants = axis if axis.isdigit() else known.setdefault(axis, size)
        if wants != size:
            return _Misfit(f"`{axis}` is {size} here" + ("" if axis.isdigit() else f", and {wants} before"))
    return None


def _given(failing: Failing, parameter: str | None) -> ast.expr | None:
    """The argument of the call that fills a parameter."""
    node = failing.node
    if not isinstance(node, ast.Call) or parameter is None:
        return None
    for word in node.keywords:
        if word.arg == parameter:
            return word.value
    called = re.search(r"^Called with parameters: \{(.*)\}$", failing.message, re.MULTILINE)
    names = [name for name in re.findall(r"'(\w+)': ", called[1]) if name != "self"] if called else []
    at = names.index(parameter) if parameter in names else -1
    return node.args[at] if 0 <= at < len(node.args) else None


def _returned(failing: Failing, what: str) -> Span | None:
    """The expression that a function returns, where there is one."""
    if what != "return value" or not isinstance(failing.node, ast.Call):
        return None
    function = function_of(failing.site, innermost(failing.node.func))
    shown = function.returned() if function is not None else []
    return span_of(function.file, shown[0]) if function is not None and len(shown) == 1 else None


def _fixed(failing: Failing, given: ast.expr | None, misfit: _Misfit) -> tuple[str, Span | None]:
    node = failing.node
    if given is None or not isinstance(node, ast.Call):
        return "", None
    if misfit.cast:
        cast = ast.Call(ast.Attribute(given, "astype"), [ast.Name(misfit.cast)], [])
        return text(replaced(node, given, cast)), failing.span
    if misfit.convert:
        return text(replaced(node, given, call(f"{alias(failing.scope, 'jax.numpy')}.asarray", given))), failing.span
    if misfit.batch and len(node.args) == 1 and not node.keywords:
        mapped = call(f"{alias(failing.scope, 'jax')}.vmap", node.func)
        return text(ast.Call(mapped, node.args, [])), failing.span
    return "", None
