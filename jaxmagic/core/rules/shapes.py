"""Shapes that do not fit: products, broadcasting, joining, reshaping, convolution."""

import ast
import itertools
import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmagic.core.rules.arrays import arrays_in, shape_evidence
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.loops import elements
from jaxmagic.core.rules.rewrite import replaced, text
from jaxmagic.records import Aval

_SIZES = re.compile(r"\(([\d, ]*)\)")


@on_error("matmul-shapes", "the inner sizes of a product differ: @, dot, matmul, einsum")
def matmul_shapes(failing: Failing) -> Cause | None:
    """`a @ b` sums over the last axis of `a` and the second to last (or only) axis of `b`; the two must be equally
    long. JAX names the two sizes only; here are the operands, their whole shapes, and in a loop the pass.

    Sure: the product itself raised. A transpose is offered where it makes the sizes fit; whether it is meant, only
    you know.
    """
    label = failing.says(r"Size of label '(\w)' for operand (\d+) \((\d+)\) does not match previous terms \((\d+)\)")
    match = failing.says(r"contracting dimensions to have the same shape, got \((\d+).*?\) and \((\d+)")
    count = failing.says(
        r"Einstein sum subscript '(\w+)' does not contain the correct number of indices for operand (\d)"
    )
    batch = failing.says(r"Incompatible (?:types|shapes) for matmul arguments")
    if count:
        return _subscripts(failing, count[1], int(count[2]))
    if batch:
        return _batches(failing)
    if not (match or label):
        return None
    arrays = arrays_in(failing)
    nodes = [part for part, _ in arrays]
    spelled = f"`{failing.text(failing.node)}`" if failing.node is not None else "the product"
    if label:
        sizes = _sizes_of(failing, label[1], arrays) or f"{label[4]} in one operand and {label[3]} in another"
        return Cause(
            title=f"{spelled}: axis {label[1]} is {sizes}",
            explanation="One letter of an einsum stands for one size.",
            evidence=shape_evidence(failing, nodes),
        )
    assert match is not None
    shapes = " and ".join(failing.shown(part) for part in nodes) or "the operands"
    fix, hint = _transposed(failing)
    return Cause(
        title=f"{spelled}: the inner sizes {match[1]} and {match[2]} differ",
        explanation=f"A product sums over the last axis of the left operand and the second to last (or only) axis of "
        f"the right one, but {shapes} have {match[1]} and {match[2]} there.{hint}{_wanted(failing)}",
        evidence=shape_evidence(failing, nodes),
        fix=fix,
        replaces=failing.span,
    )


def _sizes_of(failing: Failing, letter: str, arrays: list[tuple[ast.expr, Aval]]) -> str:
    """`7 in `w` and 6 in `v``: from the subscripts, as JAX counts its operands in another order."""
    node = failing.node
    pattern = node.args[0].value if isinstance(node, ast.Call) and isinstance(node.args[0], ast.Constant) else ""
    terms = str(pattern).replace(" ", "").partition("->")[0].split(",")
    if len(terms) != len(arrays) or "." in str(pattern):
        return ""
    found = [
        f"{aval.shape[term.index(letter)]} in `{failing.text(part)}`"
        for term, (part, aval) in zip(terms, arrays, strict=True)
        if letter in term and len(term) == len(aval.shape)
    ]
    return " and ".join(found)


def _subscripts(failing: Failing, term: str, operand: int) -> Cause:
    arrays = arrays_in(failing)
    shown = failing.shown(arrays[operand][0]) if operand < len(arrays) else "the operand"
    axes = len(arrays[operand][1].shape) if operand < len(arrays) else "another number of"
    return Cause(
        title=f"einsum: `{term}` has {len(term)} letters, but {shown} has {axes} axes",
        explanation="Each axis of an operand has one letter in its subscript; `...` stands for any further axes.",
        evidence=shape_evidence(failing, [part for part, _ in arrays]),
    )


def _batches(failing: Failing) -> Cause:
    arrays = arrays_in(failing)
    leading = " and ".join(str(aval.shape[:-2]) for _, aval in arrays[:2]) or "the leading axes"
    shown = " and ".join(failing.shown(part) for part, _ in arrays) or "the operands"
    return Cause(
        title=f"`{failing.text(failing.node)}`: the leading axes {leading} can't be combined"
        if failing.node is not None
        else "the leading axes of a product can't be combined",
        explanation=f"A product of {shown} multiplies matrix by matrix along the axes before the last two; those must "
        "be equal, or one of them 1.",
        evidence=shape_evidence(failing, [part for part, _ in arrays]),
    )


def _wanted(failing: Failing) -> str:
    """What size an element of a container would need: `params[1][0]` should have 16 rows."""
    node = failing.node
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)):
        return ""
    left, right = failing.aval(node.left), failing.aval(node.right)
    path = next(iter(elements(failing, node.right)), "")
    if not path or left is None or right is None or len(right.shape) != 2:
        return ""
    return f" `{path}` should have {left.shape[-1]} rows, or the layer before it {right.shape[0]} columns."


def _transposed(failing: Failing) -> tuple[str, str]:
    """A transpose that makes `a @ b` fit."""
    node = failing.node
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)):
        return "", ""
    left, right = failing.aval(node.left), failing.aval(node.right)
    looped = any(isinstance(outer, ast.For | ast.While) for outer in failing.site.around)
    if left is None or right is None or looped:  # in a loop, the passes before were right as they stand
        return "", ""
    for side, aval in ((node.right, right), (node.left, left)):
        if len(aval.shape) != 2:
            continue
        turned = Aval(aval.shape[::-1], aval.dtype)
        pair = (left, turned) if side is node.right else (turned, right)
        if _multiply(*pair):
            new = text(replaced(node, side, ast.Attribute(side, "T")))
            return new, f" With `{failing.text(side)}` transposed they fit, if that is what it should be."
    return "", ""


def _multiply(left: Aval, right: Aval) -> bool:
    try:
        jax.eval_shape(jnp.matmul, *(jax.ShapeDtypeStruct(aval.shape, jnp.float32) for aval in (left, right)))
    except TypeError:
        return False
    return True


@on_error("broadcast-shapes", "two arrays can't be combined element by element")
def broadcast_shapes(failing: Failing) -> Cause | None:
    """Arrays are combined element by element from the last axis backwards; each pair of sizes must be equal, or one
    of them 1. Reported are the operands, the axis that fails, and a form that fits, if adding an axis or a
    transpose gives one.

    Sure: the operation itself raised. Whether the offered form is what you mean, only you know.
    """
    if not failing.says(r"[Ii]ncompatible (?:shapes|types) for broadcasting"):
        return None
    if (place := _place(failing)) is not None:
        return place
    if (plate := _plate(failing)) is not None:
        return plate
    arrays = arrays_in(failing)
    arrays = arrays if len(arrays) > 1 else []  # with one operand in sight, what JAX says tells more
    nodes = [part for part, _ in arrays]
    shapes = [aval.shape for _, aval in arrays] or _said(failing.message)
    axis = _clash(shapes)
    spelled = f"`{failing.text(failing.node)}`" if failing.node is not None else "an operation"
    fix = _broadcast_fix(failing)
    where = f": axis {axis[0]} is {axis[1]} in one and {axis[2]} in the other" if axis else ""
    shown = " and ".join(failing.shown(part) for part in nodes) or " and ".join(map(str, shapes))
    return Cause(
        title=f"{spelled} can't combine {' and '.join(str(aval) for _, aval in arrays) or shown}{where}",
        explanation=f"{shown} are lined up from the last axis; sizes there must be equal, or one of them 1."
        + (f" `{fix}` fits, if that is what is meant." if fix else ""),
        evidence=shape_evidence(failing, nodes),
        fix=fix,
        replaces=failing.span,
    )


def _plate(failing: Failing) -> Cause | None:
    """A NumPyro site whose distribution does not fit the plate around it."""
    for frame in reversed(failing.machinery):
        plate: Any = frame.f_locals.get("self")
        message = frame.f_locals.get("msg")
        if type(plate).__name__ == "plate" and isinstance(message, dict) and message.get("type") == "sample":
            shape = getattr(message["fn"], "batch_shape", ())
            return Cause(
                title=f"the plate `{plate.name}` has size {plate.size}, but the distribution of `{message['name']}` "
                f"has batch shape {shape}",
                explanation=f"Inside of the plate each axis of the batch stands for one plate, here axis {plate.dim}. "
                "Give the plate the size of the data, or make further axes part of the event with `to_event`.",
                evidence=shape_evidence(failing, [part for part, _ in arrays_in(failing)]),
            )
    return None


def _place(failing: Failing) -> Cause | None:
    """`x.at[i].set(v)` where `v` has another shape than the place it is to be put into."""
    match failing.node:
        case ast.Call(func=ast.Attribute(value=ast.Subscript(value=ast.Attribute(attr="at", value=array))), args=[new]):
            sizes = _said(failing.message)[-1:]
        case _:
            return None
    typed = re.findall(r"\w+\[([\d,]*)\]", failing.message)
    size = str(tuple(map(int, filter(None, typed[-1].split(","))))) if typed else str(sizes[0]) if sizes else "another"
    return Cause(
        title=f"{failing.shown(new)} does not fit its place in {failing.shown(array)}, which has shape {size}",
        explanation="What an index selects is replaced by an array of its shape, or by one that is repeated along axes "
        "of size 1.",
        evidence=shape_evidence(failing, [array, new]),
    )


def _said(message: str) -> list[tuple[int | str, ...]]:
    return [tuple(int(size) for size in found.split(",") if size.strip()) for found in _SIZES.findall(message)]


def _clash(shapes: list[tuple[int | str, ...]]) -> tuple[int, int | str, int | str] | None:
    """The first axis, counted from the last, at which two sizes differ and neither is 1."""
    for one, other in itertools.combinations(shapes, 2):
        for back, (left, right) in enumerate(zip(reversed(one), reversed(other), strict=False), 1):
            if left != right and 1 not in (left, right):
                return -back, left, right
    return None


def _broadcast_fix(failing: Failing) -> str:
    """One operand with a new axis, or transposed, so that the other's shape is kept."""
    node = failing.node
    if isinstance(node, ast.Call):
        return _chosen_fix(failing, node)
    if not isinstance(node, ast.BinOp):
        return ""
    left, right = failing.aval(node.left), failing.aval(node.right)
    if left is None or right is None:
        return ""
    for side, aval, other in ((node.right, right, left), (node.left, left, right)):
        for spelled, shape in _forms(failing, side, aval, other.shape):
            if _fits(shape, other.shape):
                return text(replaced(node, side, ast.parse(spelled, mode="eval").body))
    return ""


def _chosen_fix(failing: Failing, node: ast.Call) -> str:
    """`jnp.where(mask, a, b)` with the mask's axes first."""
    if not (isinstance(node.func, ast.Attribute) and node.func.attr == "where" and len(node.args) == 3):
        return ""
    mask, *others = node.args
    aval, other = failing.aval(mask), next(filter(None, map(failing.aval, others)), None)
    for spelled, shape in _forms(failing, mask, aval, other.shape) if aval and other else ():
        if _fits(shape, other.shape if other else ()):
            return text(replaced(node, mask, ast.parse(spelled, mode="eval").body))
    return ""


def _forms(
    failing: Failing, side: ast.expr, aval: Aval, other: tuple[int | str, ...]
) -> list[tuple[str, tuple[int | str, ...]]]:
    """An operand with axes added at its end, until it has as many as the other; or transposed."""
    spelled = text(side)
    spelled = spelled if isinstance(side, ast.Name | ast.Attribute | ast.Subscript | ast.Call) else f"({spelled})"
    added = range(1, len(other) - len(aval.shape) + 1) if aval.shape else range(0)
    forms = [
        (f"{spelled}[{', '.join([':'] * len(aval.shape) + ['None'] * number)}]", (*aval.shape, *[1] * number))
        for number in added
    ]
    return forms + ([(f"{spelled}.T", aval.shape[::-1])] if len(aval.shape) == 2 else [])


def _fits(shape: tuple[int | str, ...], other: tuple[int | str, ...]) -> bool:
    """Broadcasts to just `other`: what was one array's shape stays it."""
    try:
        return np.broadcast_shapes(shape, other) == other  # pyright: ignore[reportArgumentType, reportCallIssue]
    except (ValueError, TypeError):
        return False


@on_error("join-shapes", "arrays of different shapes are concatenated or stacked")
def join_shapes(failing: Failing) -> Cause | None:
    """`concatenate` joins along one axis and needs all others equal; `stack` needs all shapes equal. Reported is
    each element with its shape, and the one that is odd.

    Sure: the call itself raised. Another axis is offered where the shapes fit along it.
    """
    if not failing.says(r"Cannot concatenate arrays|All input arrays must have the same shape"):
        return None
    arrays = arrays_in(failing)
    shapes = [aval.shape for _, aval in arrays]
    odd = next((index for index, shape in enumerate(shapes) if shapes.count(shape) == 1 and len(shapes) > 2), None)
    which = f" `{failing.text(arrays[odd][0])}` is the odd one." if odd is not None else ""
    listed = " and ".join(failing.shown(part) for part, _ in arrays) or "the arrays"
    fix = _other_axis(failing, shapes)
    hint = f" Along axis {fix[1]} they fit, if that is what is meant." if fix[0] else ""
    return Cause(
        title=f"{listed} can't be joined",
        explanation=f"All axes but the joined one must be equally long.{which}{hint}",
        evidence=shape_evidence(failing, [part for part, _ in arrays]),
        fix=fix[0],
        replaces=failing.span,
    )


def _other_axis(failing: Failing, shapes: list[tuple[int | str, ...]]) -> tuple[str, int]:
    node = failing.node
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "concatenate"
    if not named or not isinstance(node, ast.Call) or len({len(shape) for shape in shapes}) != 1:
        return "", 0
    for axis in range(len(shapes[0])):
        if len({shape[:axis] + shape[axis + 1 :] for shape in shapes}) == 1:
            keywords = [word for word in node.keywords if word.arg != "axis"]
            joined = ast.Call(node.func, node.args[:1], [*keywords, ast.keyword("axis", ast.Constant(axis))])
            return text(joined), axis
    return "", 0


@on_error("reshape-size", "an array is reshaped to another number of elements")
def reshape_size(failing: Failing) -> Cause | None:
    """A reshape keeps the number of elements. One size can be left to JAX as -1.

    Sure: the reshape itself raised. A form with -1 is offered where one size can be computed from the others.
    """
    match = failing.says(r"cannot reshape array of shape (\([\d, ]*\)) \(size (\d+)\) into shape (\([-\d, ]*\))")
    if match is None:
        return None
    size = int(match[2])
    wanted = [int(part) for part in re.findall(r"-?\d+", match[3])]
    node = failing.node
    fix = _free_size(node, wanted, size) if isinstance(node, ast.Call) else ""
    total = math.prod(abs(part) for part in wanted)
    return Cause(
        title=f"{match[1]} has {size} elements, {match[3]} "
        + ("does not divide them" if -1 in wanted else f"has {total}"),
        explanation="A reshape keeps the number of elements."
        + (f" `{fix}` leaves one size to JAX, if the others are right." if fix else ""),
        evidence=shape_evidence(failing, [part for part, _ in arrays_in(failing)]),
        fix=fix,
        replaces=failing.span,
    )


def _free_size(node: ast.Call, wanted: list[int], size: int) -> str:
    """The same call with the first size that the others determine as -1."""
    given = node.args if isinstance(node.func, ast.Attribute) else []
    for index in range(len(wanted)):
        others = math.prod(wanted[:index] + wanted[index + 1 :])
        if -1 in wanted or others <= 0 or size % others:
            continue
        sizes = next((arg.elts for arg in given if isinstance(arg, ast.Tuple | ast.List)), given[-len(wanted) :])
        if len(sizes) == len(wanted):
            return text(replaced(node, sizes[index], ast.Constant(-1)))
    return ""


@on_error("convolution-shapes", "the channels of a convolution's input and filter differ")
def convolution_shapes(failing: Failing) -> Cause | None:
    """The input's channels (divided by the number of groups) must be the filter's input channels. The axes are read
    by `dimension_numbers`: by default the input is NCHW and the filter OIHW.

    Sure: the call itself raised.
    """
    match = failing.says(
        r"lhs feature dimension size .*? must equal the rhs input feature dimension size, but (\d+) // (\d+) != (\d+)"
    )
    if match is None:
        return None
    arrays = arrays_in(failing)
    return Cause(
        title=f"the input has {match[1]} channels, the filter takes {match[3]}",
        explanation="Which axis holds the channels is said by `dimension_numbers`; by default the input is NCHW "
        "(batch, channels, height, width) and the filter OIHW (out, in, height, width).",
        evidence=shape_evidence(failing, [part for part, _ in arrays]),
    )


@on_error("shape-mismatch", "another shape error of a JAX function")
def shape_mismatch(failing: Failing) -> Cause | None:
    """Any other complaint of JAX about shapes, axes or dimensions: the expression and its operands are shown, the
    message is JAX's own.

    Sure: the expression itself raised.
    """
    if failing.kind not in ("TypeError", "ValueError", "IndexError") or not failing.machinery:
        return None
    if not failing.says(r"\bshape|\bdimension|\baxis\b|out of bounds|Too many indices|equal division|\bsizes?\b"):
        return None
    if failing.says(r"[Ii]ncompatible devices|Sharding spec|in_specs|out_specs|\bmesh\b"):
        return None
    arrays = arrays_in(failing)
    module = failing.machinery[-1].f_globals.get("__name__", "")
    if not arrays or module.partition(".")[0] not in ("jax", "flax", "equinox", "optax"):
        return None
    first = " ".join(failing.message.split("\n\n")[0].split())
    return Cause(
        title=f"`{failing.text(failing.node)}`: {first[:160]}" if failing.node is not None else first[:160],
        explanation=f"JAX says this of {' and '.join(failing.shown(part) for part, _ in arrays)}."
        + (f" The whole: {first[:400]}" if len(first) > 160 else ""),
        evidence=shape_evidence(failing, [part for part, _ in arrays]),
    )
