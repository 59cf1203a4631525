"""NaN and infinity found by `%%jaxtap --when nan` or `--when inf`: where one was made, of what, and where it went."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from jaxmagic.core.nonfinite.origins import Given, Making, Origin, Untraced
from jaxmagic.core.rules.backward_rules import placed
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.safely import EDGED, inner_where, rewrite
from jaxmagic.core.rules.spots import Rewrite, Spot, spot_of
from jaxmagic.core.rules.undefined import (
    is_derivative,
    is_of_root,
    is_own,
    largest,
    number,
    operand_line,
    overflows,
    said,
)
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span

_MOST_SHOWN = 60
_MOST_OPERANDS = 3
_NAN = re.compile(r"(?<![\w.])nan(?![\w(]|\.\w)")
_FACTORS = ("eigh", "svd", "eig")


@on_cell(
    "nan-made", "wrong-result", "the first NaN that reaches a result: its expression, operands, iteration and lane"
)
def nan_made(observed: Observed) -> Iterator[Cause]:
    """Under `%%jaxtap --when nan` every program that runs is looked at, and one that gives a NaN is evaluated once
    more, equation by equation, from what it was given: no code of yours runs again. The first equation that makes a
    NaN of numbers is named, or the one that overflowed before, with its operands, the iterations of the loops around
    it, and the lanes of a vmap.

    Sure: the equation gave it, and what came of it was still there in the end. The second evaluation may round
    differently from the first; where it gives no NaN, that is said instead of a cause.
    """
    for origin in _origins(observed, "nan"):
        if origin.reaches and not _is_backward(origin, observed):
            yield _cause(origin, observed)


@on_cell("nan-gradient", "wrong-result", "a gradient is NaN though the value is a number")
def nan_gradient(observed: Observed) -> Iterator[Cause]:
    """A derivative can be infinite where the function itself is fine: of a square root or a norm at zero, of a
    logarithm that a `where` does not choose. The chain rule multiplies that infinity by zero, and 0 * inf is NaN.
    Under `%%jaxtap --when nan` the operation is named whose derivative it is, not the one of the backward pass that
    nobody wrote.

    Sure: evaluated once more from what the program was given, this equation of the backward pass made the NaN.
    """
    for origin in _origins(observed, "nan"):
        if origin.reaches and _is_backward(origin, observed):
            yield _cause(origin, observed)


@on_cell("infinity-made", "wrong-result", "the first infinity that reaches a result")
def infinity_made(observed: Observed) -> Iterator[Cause]:
    """Under `%%jaxtap --when inf`, as `nan-made`: an overflow, a division by zero, the logarithm of zero. Infinities
    that are written in the code, as for masks, are not looked for.

    Sure: this equation made it of finite numbers, and what came of it was still there in the end.
    """
    for origin in _origins(observed, "inf"):
        if origin.reaches:
            yield _cause(origin, observed)


@on_cell("nan-masked", "note", "a NaN was made, and none of it reaches a result")
def nan_masked(observed: Observed) -> Iterator[Cause]:
    """A `where`, a `nan_to_num` or a selection threw it away. The value is right; the gradient of the same code may
    not be, since a masked infinity times zero is NaN there: `nan-gradient` says so where it was computed. The fix puts
    the condition inside of the expression as well, so that what is thrown away is not computed with at all. What a
    function of JAX masks inside of itself is not spoken of.

    Sure: in what ran in this cell no result holds it.
    """
    for origin in _origins(observed, "nan"):
        if not origin.reaches and origin.used and not _is_of_library(origin, observed):
            yield _masked(origin, observed)


@on_cell("nan-given", "note", "a NaN came in with the data and reached a result")
def nan_given(observed: Observed) -> Iterator[Cause]:
    """No operation of this cell made it: an argument held it, from a file, from NumPy or from an earlier cell.

    Sure: the argument was looked at. Whether its NaN is meant, as for missing data, can't be known.
    """
    for given in observed.causes.given if "nan" in observed.asked else ():
        yield _given(given)


@on_cell("nan-untraced", "note", "a program gave a NaN or an infinity, and it could not be found where")
def nan_untraced(observed: Observed) -> Iterator[Cause]:
    """A program is not evaluated once more where it is very long, where what it was given is gone (donated) or too
    large to keep, where it was compiled ahead of time, or where it works on references. A host function that it calls
    (`pure_callback`, `io_callback`) is not called again: what it returned is kept, if that is not too much. Tap the
    variables by name then.

    Not sure: the call is known, the operation is not.
    """
    for untraced in observed.causes.untraced:
        if untraced.kinds & observed.asked:
            yield _untraced(untraced)


@on_cell("nan-shown", "note", "a NaN was printed, or is the cell's value, and nobody watched for where it was made")
def nan_shown(observed: Observed) -> Iterator[Cause]:
    """Where a NaN came from is only known of a cell that was watched for it, which `%%jaxtap --when nan` does. In
    other cells a NaN is noticed where it was shown anyway: in the cell's value or in what it printed. Nothing is
    computed to find more of them.

    Sure: the text says `nan`. It may be meant, as for missing data.
    """
    if not observed.calls or observed.asked & {"nan"} or observed.failure is not None:
        return
    printed = next((each for each in observed.printed if _NAN.search(each.text)), None)
    if printed is None and not any(map(_NAN.search, observed.results)):
        return
    yield Cause(
        title="a NaN was printed" if printed is not None else "the cell's value holds a NaN",
        explanation="Put `%%jaxtap --when nan` on top of this cell: it names the expression that made it, its operands "
        "and the iteration, forward or backward.",
        span=printed.span if printed is not None else _last_expression(observed),
    )


def _last_expression(observed: Observed) -> Span | None:
    tree = source.tree(observed.modules[0]) if observed.modules else None
    return span_of(observed.modules[0], tree.body[-1]) if tree is not None and tree.body else None


# ------------------------------------------------------------------------------------------- sentences


def _origins(observed: Observed, kind: str) -> Iterator[Origin]:
    """Those that have to do with what the cell was watched for."""
    if kind not in observed.asked:
        return
    for origin in observed.causes.origins:
        if kind == "inf" and "nan" in observed.asked and origin.nan is not None:
            continue
        if any(making.kind == kind for making in origin.makings):
            first, *then = (_told(making, origin, observed) for making in origin.makings)
            yield replace(origin, first=first, then=then)


def _told(making: Making, origin: Origin, observed: Observed) -> Making:
    """With the expression that it is of, and whether a power is that of the derivative."""
    if making.primitive == "pow" and origin.reaches and not origin.in_value:
        making = replace(making, only_derivative=True)
    return placed(making, observed.namespace)


def _is_of_library(origin: Origin, observed: Observed) -> bool:
    """Whether it was made inside of a derivative that a function of JAX has for itself, with no mask of the user's."""
    spot = spot_of(origin.first, observed.namespace)
    if spot is None or not origin.first.differentiated:
        return False
    return isinstance(spot.node, ast.Call) and not is_own(origin.first, spot) and spot.mask() is None


def _is_backward(origin: Origin, observed: Observed) -> bool:
    """Made by a derivative, or thrown away in the value and not in the gradient."""
    return not origin.in_value or is_derivative(origin.first, spot_of(origin.first, observed.namespace))


def _cause(origin: Origin, observed: Observed) -> Cause:
    making = origin.first
    spot = spot_of(making, observed.namespace)
    fix = rewrite(spot, origin) if spot is not None else None
    return Cause(
        title=_title(origin, making, spot, observed),
        explanation=" ".join(
            [_explained(origin, making, spot, observed), *(_of_fix(spot, fix) if spot and fix else ())]
        ),
        span=making.span,
        evidence=tuple(_evidence(origin, making, spot)),
        fix=fix.code if fix is not None else "",
        replaces=_replaced(spot, fix) if fix is not None and spot is not None else None,
        sure=fix.sure if fix is not None else True,
    )


def _of_fix(spot: Spot, fix: Rewrite) -> tuple[str, ...]:
    """What the fix does, and what it stands in for where that is not the expression itself."""
    if fix.until is not None:
        return fix.why, f"The fix stands in for lines {spot.span(fix.old).line} to {spot.span(fix.until).end_line}."
    if fix.old is not spot.node:
        return fix.why, f"The fix stands in for {_shortened(spot.span(fix.old))}."
    return (fix.why,)


def _replaced(spot: Spot, fix: Rewrite) -> Span:
    begin, end = spot.span(fix.old), spot.span(fix.until or fix.old)
    return Span(spot.file, begin.line, begin.column, end.end_line, end.end_column)


def _title(origin: Origin, making: Making, spot: Spot | None, observed: Observed) -> str:
    backward = _is_backward(origin, observed)
    if backward and spot is not None and spot.operation in _FACTORS:
        return (
            f"the gradient is NaN: the derivative of {_shortened(making.span)} divides by the difference of two values"
        )
    what = "NaN" if origin.nan is not None else "infinite"
    if backward and is_derivative(making, spot):
        return f"the gradient is {what}: the derivative of {_shortened(making.span)} {_derivative(making, spot)}"
    if backward and spot is not None and spot.mask() is not None:
        return f"the gradient is {what}: {_forward(origin, making)}, though a `where` throws that away"
    return f"the gradient is {what}: {_forward(origin, making)}" if backward else _forward(origin, making)


def _forward(origin: Origin, making: Making) -> str:
    expression, nan = _shortened(making.span), origin.nan
    if making.kind == "nan":
        return f"{said(making)} is NaN, in {expression}"
    then = f", and {said(nan)} is NaN" if nan is not None else ""
    return f"{expression} {'overflows' if overflows(making) else 'is infinite'} ({said(making)}){then}"


def _derivative(making: Making, spot: Spot | None) -> str:
    """`is infinite at 0`."""
    values = making.operands
    if overflows(making):
        return f"overflows ({said(making)})"
    if spot is not None and spot.operation in EDGED and making.kind == "inf":
        return "is infinite at the edge of its domain"
    there = [value.there for value in values]
    if making.primitive == "div" and there[1:] == [0]:
        return "is infinite at 0" if making.kind == "inf" else "is 0 / 0"
    if making.primitive in ("pow", "integer_pow", "rsqrt") and there and there[0] is not None:
        return f"is infinite at {number(there[0])}"
    return f"computes {said(making)}"


def _explained(origin: Origin, making: Making, spot: Spot | None, observed: Observed) -> str:
    inside, backward = _inside(making, spot), _is_backward(origin, observed)
    if spot is not None and (known := _of_operation(spot, making, backward)):
        return known
    if backward and is_derivative(making, spot) and not overflows(making):
        if origin.nan is None:
            return f"The chain rule multiplies by an infinite derivative.{inside}"
        return f"The chain rule multiplies an infinite derivative by zero, and 0 * inf is NaN.{inside}"
    if backward and spot is not None and spot.mask() is not None:
        return f"Its derivative is computed all the same and multiplied by zero, and 0 * NaN is NaN.{inside}"
    if making.kind == "inf" and overflows(making) and making.transposed and making.dtype == "float16":
        return (
            f"{largest(making)} A gradient is as large as the loss is scaled: a smaller scale, or bfloat16, keeps it."
        )
    if making.kind == "inf" and overflows(making):
        return f"{largest(making)}{_grown(making)}{inside}"
    if making.kind == "inf":
        return f"Its operands are finite, and from here on it is not.{inside}"
    if any(value.inf for value in making.operands):
        return f"The infinities that go in were there before: no operation of this cell made them.{inside}"
    return f"Every operand is a number, and the result is not.{inside}"


def _of_operation(spot: Spot, making: Making, backward: bool) -> str:
    """What is to be said of some operations; empty for others."""
    if spot.operation in _FACTORS and backward:
        return (
            "Two of the values are equal, or nearly so: their vectors have no derivative there. A loss of the values "
            "alone has one."
        )
    if spot.operation in ("solve", "inv"):
        return "The matrix is singular, or so nearly that rounding makes it so."
    if spot.operation == "**" and making.primitive == "log":
        return "The derivative by the exponent multiplies by the logarithm of the base."
    return ""


def _grown(making: Making) -> str:
    """Of a loop that diverges."""
    ends = [end for value in making.operands for end in (value.there, value.least, value.greatest)]
    largest_operand = max((abs(end) for end in ends if end is not None), default=0.0)
    if largest_operand > 1e9 and (making.loops or making.call > 1 or making.turns):
        return " The values have grown from one turn to the next: a smaller step, or clipped gradients, may keep them."
    return ""


def _inside(making: Making, spot: Spot | None) -> str:
    """Where the expression is a call of something larger: which of its operations it was."""
    if spot is None or is_derivative(making, spot) or not isinstance(spot.node, ast.Call) or is_own(making, spot):
        return ""
    return f" It happens inside of {_shortened(making.span)}, in a `{making.primitive}`."


def _evidence(origin: Origin, making: Making, spot: Spot | None) -> Iterator[Evidence]:
    if making.total > 1 or making.loops or making.turns or (making.call > 1 and making.program):
        yield Evidence(_where(making), making.span)
    yield from _operands(making, spot)
    if making.eigenvalues is not None:
        least, greatest = map(number, making.eigenvalues)
        yield Evidence(f"its eigenvalues go from {least} to {greatest}", making.span)
    nan = origin.nan
    if nan is not None and nan is not making:
        yield Evidence(f"NaN from here: {said(nan)}", nan.span)
    if origin.reaches:
        yield Evidence("it reaches a result of the cell" if origin.in_value else "only gradients hold it, no value")
    if origin.times > 1:
        yield Evidence(f"{origin.times:,} runs of the program gave one")


def _where(making: Making) -> str:
    """`first in iteration 3, lane 1: 1 of 3 elements, at [0], in call 2 of f`."""
    parts = []
    for loop, span in zip(making.loops, making.loop_spans, strict=False):
        line = f" of the loop at line {span.line}" if span is not None else ""
        parts.append(f"iteration {loop}{line}")
    if making.lanes:
        shown = ", ".join(str(lane[0] if len(lane) == 1 else lane) for lane in making.lanes[:3])
        sizes = " × ".join(map(str, making.lane_sizes))
        parts.append(f"lane{'s' * (len(making.lanes) > 1)} {shown} of {sizes}")
    parts += [f"turn {turn}" for turn in making.turns]
    if making.program and making.call > 1:
        parts.append(f"call {making.call} of {making.program}")
    place = f"first in {', '.join(parts)}" if parts else ""
    if making.total == 1 and place:
        return place
    at = f", the first at [{', '.join(map(str, making.element))}]" if making.element else ""
    direction = " in the backward pass" if making.transposed else ""
    return f"{place}{': ' if place else ''}{making.bad:,} of {making.total:,} elements{at}{direction}"


def _operands(making: Making, spot: Spot | None) -> Iterator[Evidence]:
    """What each operand was, by its source where the equation is the expression's own."""
    if is_of_root(making) and making.differentiated:
        yield Evidence(f"its square root is 0{' there' * (making.total > 1)}: its derivative is 0.5 / 0", making.span)
        return
    parts = spot.parts if spot is not None and not is_derivative(making, spot) else []
    if spot is not None and spot.operation in ("solve", "inv", "det"):
        return  # the operands are those of its factors
    if spot is None or len(parts) != len(making.operands):
        parts = parts[:1] if len(making.operands) == 1 else []
    shown: set[str] = set()
    for index, value in enumerate(making.operands[:_MOST_OPERANDS]):
        part = parts[index] if spot is not None and index < len(parts) else None
        if isinstance(part, ast.Constant):
            continue
        name = f"`{spot.text(part)}`" if spot is not None and part is not None else f"operand {index + 1}"
        line = operand_line(value, name if part is not None else f"{name} of {making.primitive}")
        if line not in shown:
            shown.add(line)
            yield Evidence(line, spot.span(part) if spot is not None and part is not None else None)


def _masked(origin: Origin, observed: Observed) -> Cause:
    making = origin.nan or origin.first
    spot = spot_of(making, observed.namespace)
    mask = spot.mask() if spot is not None else None
    by = f"`{spot.text(mask.call)}`" if mask is not None and spot is not None else "a later selection"
    fix = inner_where(spot, origin) if spot is not None and making is origin.first else None
    explanation = (
        f"None of it reaches a result: {by} does not choose it. A gradient through it may be NaN all the same."
    )
    return Cause(
        title=f"{said(making)} is NaN, in {_shortened(making.span)}, and is thrown away",
        explanation=" ".join([explanation, *(_of_fix(spot, fix) if spot and fix else ())]),
        span=making.span,
        evidence=tuple(_evidence(origin, making, spot)),
        fix=fix.code if fix is not None else "",
        replaces=_replaced(spot, fix) if fix is not None and spot is not None else None,
    )


def _given(given: Given) -> Cause:
    span = given.frames[0].span if given.frames else None
    name = f"`{given.argument}`" if given.argument and "[" not in given.argument else f"argument {given.position + 1}"
    at = f", the first at [{', '.join(map(str, given.element))}]" if given.element else ""
    count = 1 if not given.value.aval.shape else given.value.nan
    return Cause(
        title=f"a NaN came in with {name} of {_shortened(span)}",
        explanation="It was there before any operation of this cell, and it reaches a result.",
        span=span,
        evidence=(Evidence(f"{count:,} NaN in {given.value.aval}{at}", span),),
    )


def _untraced(untraced: Untraced) -> Cause:
    what = "a NaN" if "nan" in untraced.kinds else "an infinity"
    of = f"call {untraced.call} of {untraced.program}" if untraced.program else "a program compiled ahead of time"
    return Cause(
        title=f"{of} gave {what}",
        explanation=f"Where in it is not known: {untraced.why}.",
        span=untraced.frames[0].span if untraced.frames else None,
        sure=False,
    )


def _shortened(span: Span | None) -> str:
    text = " ".join(source.text_of(span).split()) if span is not None else ""
    if not text:
        return "a library"
    return f"`{text}`" if len(text) <= _MOST_SHOWN else f"`{text[: _MOST_SHOWN - 1]}…`"
