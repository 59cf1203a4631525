"""What was used as an array and is none: text, objects, ragged lists, shapes without values, more than memory holds."""

import ast
import re
from typing import Any

import jax
import numpy as np

from jaxmagic.core.lines.containers import children
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import made_from
from jaxmagic.core.rules.rewrite import copied, replaced, text
from jaxmagic.core.rules.shardings import given
from jaxmagic.core.source.nodes import name_called, parts
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span

_KINDS = {"U": "text", "S": "bytes", "O": "Python objects", "M": "dates", "m": "time spans"}
_SAYS = re.compile(
    r"[Dd]type \S+ is not a valid JAX array type|setting an array element with a sequence|"
    r"None is not a valid value for jnp\.array|numpy\.ndarray'> is not a valid JAX type|"
    r"Error interpreting argument to .*? The problematic value is of type <class 'numpy\.ndarray'>",
    re.DOTALL,
)


@on_error("array-not-numeric", "text, dates, Python objects or rows of different lengths where numbers are needed")
def array_not_numeric(failing: Failing) -> Cause | None:
    """JAX's arrays hold numbers and booleans. An array of NumPy's may hold text, dates or Python objects: a column of
    a table that has one missing value is one of objects. Labels are encoded as integers, dates counted in days, and
    rows of different lengths padded.

    Sure: JAX looked at the values. There is a fix where all objects are numbers.
    """
    node = failing.node
    if not _SAYS.search(failing.message) or not isinstance(node, ast.expr):
        return None
    found = next((each for part in _operands(failing) for each in _wrong(failing.value(part), "", 0, part)), None)
    if found is None:
        return None
    part, path, value = found
    name = failing.text(part) + path
    what, way = _described(value)
    fix = ""
    if not path and isinstance(value, np.ndarray) and value.dtype.kind == "O" and _all_numbers(value):
        fix = text(replaced(node, part, ast.Call(ast.Attribute(part, "astype"), [ast.Name("float")], [])))
    return Cause(
        title=f"`{name}` holds {what}, and arrays of JAX's hold numbers",
        explanation=way,
        evidence=(Evidence(f"{name}: {_shown(value)}", failing.site.span_of(part)),),
        fix=fix,
        replaces=failing.span if fix else None,
    )


def _operands(failing: Failing) -> list[ast.expr]:
    nodes = [*failing.node.args] if isinstance(failing.node, ast.Call) else parts(failing.node)
    keywords = [word.value for word in getattr(failing.node, "keywords", ())]
    return [*nodes, *(word for word in keywords if word not in nodes)]


def _wrong(value: Any, path: str, depth: int, part: ast.expr) -> list[tuple[ast.expr, str, Any]]:
    """Leaves that are no numbers; a list of rows of different lengths is one."""
    if isinstance(value, np.ndarray | np.generic):
        return [(part, path, value)] if value.dtype.kind in _KINDS else []
    if isinstance(value, list | tuple) and (_ragged(value) or any(each is None or type(each) is str for each in value)):
        return [(part, path, value)]
    if depth > 4:
        return []
    inner = children(value, lambda cls: False) or ()
    return [found for step, each in inner for found in _wrong(each, path + step, depth + 1, part)][:1]


def _ragged(value: list[Any] | tuple[Any, ...]) -> bool:
    lengths = {len(each) if isinstance(each, list | tuple) else -1 for each in value}
    return len(lengths) > 1


def _all_numbers(value: np.ndarray) -> bool:
    return value.size < 100_000 and all(
        type(each) in (int, float, bool) or isinstance(each, np.number) for each in value.flat
    )


def _described(value: Any) -> tuple[str, str]:
    if isinstance(value, np.ndarray | np.generic):
        kind = value.dtype.kind
        if kind == "O" and (other := _first_other(value)) is not None:
            return _KINDS[kind], f"One of them is {other}. Clean the data first, then `.astype(float)`."
        ways = {
            "O": "All of them are numbers: `.astype(float)` makes an array of them.",
            "M": "Count them: `.astype('datetime64[D]').astype('int32')` gives days since 1970.",
            "m": "Divide by a unit: `x / np.timedelta64(1, 's')` gives seconds.",
        }
        way = "Text is no number. `np.unique(x, return_inverse=True)` gives a number for each label."
        return _KINDS[kind], ways.get(kind, way)
    if any(type(each) is str for each in value):
        return "text", "Text is no number. `np.unique(x, return_inverse=True)` gives a number for each label."
    if any(each is None for each in value):
        return "None", "Put a number, or `jnp.nan`, in its place."
    return (
        "rows of different lengths",
        "An array has as many columns in each row: pad the shorter rows, and keep a mask.",
    )


def _first_other(value: Any) -> str | None:
    for each in np.asarray(value).flat[:100_000]:
        if type(each) not in (int, float, bool) and not isinstance(each, np.number):
            return "None" if each is None else f"of type {type(each).__name__}"
    return None


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return f"dtype {value.dtype}, shape {value.shape}"
    return f"{len(value)} entries"


@on_error("shape-not-array", "a ShapeDtypeStruct, which has a shape and no values, is used as an array")
def shape_not_array(failing: Failing) -> Cause | None:
    """`jax.eval_shape` gives shapes and dtypes without computing anything: what it returns can be looked at, lowered
    and compiled for, but not computed with.

    Sure: the operation itself got one.
    """
    node = failing.node
    if not failing.says(r"ShapeDtypeStruct'") or not isinstance(node, ast.expr):
        return None
    found = next((each for each in given(failing) if isinstance(each.value, jax.ShapeDtypeStruct)), None)
    if found is None:
        return None
    fix, replaces = _computed(failing, found.node)
    return Cause(
        title=f"`{found.name}` is only a shape and a dtype ({found.aval}): there are no values to compute with",
        explanation="`jax.eval_shape` and `ShapeDtypeStruct` describe an array. Call the function itself for its "
        "values, or `jax.numpy.zeros(s.shape, s.dtype)` for an array like it.",
        evidence=(Evidence(f"{found.name}: a ShapeDtypeStruct", failing.site.span_of(found.node)),),
        fix=fix,
        replaces=replaces,
    )


def _computed(failing: Failing, node: ast.expr) -> tuple[str, Span | None]:
    """`jax.eval_shape(f, x)` as `f(x)`, where the name was assigned."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    made = list(made_from(failing, node)) if isinstance(node, ast.Name) else []
    newest = [each for each in made if each[0] == made[0][0]][-1:]
    match newest:
        case [(file, ast.Call(args=[function, *args], keywords=words) as made_by)] if (
            name_called(made_by) == "eval_shape"
        ):
            return text(copied(ast.Call(function, args, words))), span_of(file, made_by)
    return "", None


_MEMORY = re.compile(r"[Oo]ut of memory (?:allocating|while trying to allocate) (?P<bytes>[\d,]+)(?: bytes)?")


@on_error("out-of-memory", "an array or a program needs more memory than the device has")
def out_of_memory(failing: Failing) -> Cause | None:
    """XLA says how many bytes it could not get, and not for what. Shown are the arrays of the failing expression and
    what it gives: a product of all pairs, or one axis too many, makes a large array of small ones.

    Sure: the device refused the memory. Work is queued, so that it may surface where something waits for the result.
    """
    match = _MEMORY.search(failing.message)
    if match is None or not failing.kind.endswith("RuntimeError"):
        return None
    wanted = int(match["bytes"].replace(",", ""))
    node = failing.node
    arrays = [each for each in given(failing) if each.aval is not None]
    result = failing.aval(node) if isinstance(node, ast.expr) else None
    shown = f"`{failing.text(node)}`" if node is not None else "the program"
    told = [Evidence(f"{each.name}: {each.aval}", failing.site.span_of(each.node)) for each in arrays[:8]]
    told += [Evidence(f"the result: {result}", failing.span)] if result is not None else []
    waits = "block_until_ready" in (failing.text(node) if node is not None else "")
    return Cause(
        title=f"{shown[:160]} needs {_size(wanted)} of memory at once, and the device does not have it",
        explanation="Make the arrays smaller, or work on them part by part: `jax.lax.map` with `batch_size`, a `scan` "
        "over rows, a reduction inside of the loop instead of an array of all pairs, `jax.checkpoint` for "
        "gradients." + (" The array was asked for in an earlier line: this one waits for it." if waits else ""),
        evidence=tuple(told) or (Evidence(f"{wanted:,} bytes were asked for", failing.span),),
    )


def _size(count: int) -> str:
    size, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.3g} {units[0]}"
