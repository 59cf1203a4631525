"""Shapes that do not fit: products, broadcasting, joining, reshaping, convolution."""

import ast
import itertools
import math
import re

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
    if not (match or label):
        return None
    arrays = arrays_in(failing)
    nodes = [part for part, _ in arrays]
    spelled = f"`{failing.text(failing.node)}`" if failing.node is not None else "the product"
    if label:
        return Cause(
            title=f"{spelled}: axis {label[1]} is {label[4]} in one operand and {label[3]} in another",
            explanation=f"One letter of an einsum stands for one size. Operand {label[2]} has {label[3]} where an "
            f"earlier one has {label[4]}.",
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
    if left is None or right is None:
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
    arrays = arrays_in(failing)
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
    if not isinstance(node, ast.BinOp):
        return ""
    left, right = failing.aval(node.left), failing.aval(node.right)
    if left is None or right is None:
        return ""
    for side, aval, other in ((node.right, right, left), (node.left, left, right)):
        for spelled, shape in _forms(failing, side, aval):
            if _fits(shape, other.shape):
                return text(replaced(node, side, ast.parse(spelled, mode="eval").body))
    return ""


def _forms(failing: Failing, side: ast.expr, aval: Aval) -> list[tuple[str, tuple[int | str, ...]]]:
    spelled = text(side)
    spelled = spelled if isinstance(side, ast.Name | ast.Attribute | ast.Subscript | ast.Call) else f"({spelled})"
    forms = [(f"{spelled}[:, None]", (*aval.shape, 1))] if len(aval.shape) == 1 else []
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
    if not failing.says(r"\bshape|\bdimension|\baxis\b|out of bounds|Too many indices|equal division|\bsize\b"):
        return None
    arrays = arrays_in(failing)
    module = failing.machinery[-1].f_globals.get("__name__", "")
    if not arrays or module.partition(".")[0] not in ("jax", "flax", "equinox", "optax"):
        return None
    first = " ".join(failing.message.split("\n\n")[0].split())
    return Cause(
        title=f"`{failing.text(failing.node)}` does not fit its operands" if failing.node is not None else first[:80],
        explanation=f"{' and '.join(failing.shown(part) for part, _ in arrays)}: {first[:400]}",
        evidence=shape_evidence(failing, [part for part, _ in arrays]),
    )
