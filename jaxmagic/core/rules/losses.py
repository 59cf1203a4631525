"""Optax's losses and schedules: labels of the other kind, and steps that are counted from elsewhere."""

import ast

from jaxmagic.core.rules.calls import argument
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import copied, replaced, text
from jaxmagic.core.source.nodes import name_called
from jaxmagic.records import Evidence

_INTEGER, _PROBABLE = "softmax_cross_entropy_with_integer_labels", "softmax_cross_entropy"


@on_error("optax-labels", "a cross entropy of Optax's gets class numbers where it takes probabilities, or the reverse")
def optax_labels(failing: Failing) -> Cause | None:
    """`softmax_cross_entropy_with_integer_labels` takes one class number for each row of logits,
    `softmax_cross_entropy` a probability for each class: one-hot labels, for example.

    Sure: Optax refused the labels, and their shape beside that of the logits tells which kind they are.
    """
    node = failing.node
    if not isinstance(node, ast.Call) or name_called(node) not in (_INTEGER, _PROBABLE):
        return None
    logits, labels = argument(node, 0, "logits"), argument(node, 1, "labels")
    one, other = (failing.aval(each) if each is not None else None for each in (logits, labels))
    if labels is None or one is None or other is None or failing.kind not in ("TypeError", "ValueError"):
        return None
    numbers, whole = other.shape == one.shape[:-1], "int" in other.dtype
    name = _INTEGER if name_called(node) == _PROBABLE and numbers and whole else ""
    name = _PROBABLE if name_called(node) == _INTEGER and other.shape == one.shape else name
    if name:
        fix = text(copied(ast.Call(_renamed(node.func, name), node.args, node.keywords)))
    elif name_called(node) == _INTEGER and numbers and not whole:
        integers = ast.Call(ast.Attribute(labels, "astype"), [ast.Name("int")], [])
        fix = text(replaced(node, labels, integers))
    else:
        return None
    kind = "class numbers" if numbers else "a number for each class"
    return Cause(
        title=f"`{failing.text(labels)}` ({other}) holds {kind}"
        + ("" if name else " as floats")
        + f", and `{name_called(node)}` takes {_taken(node, whole=bool(name))}",
        explanation=f"The logits are {one}. `{_INTEGER}` takes one integer a row, `{_PROBABLE}` a probability for each "
        "class.",
        evidence=failing.evidence(*(each for each in (logits, labels) if each is not None)),
        fix=fix,
        replaces=failing.span,
    )


def _taken(node: ast.Call, *, whole: bool) -> str:
    if name_called(node) == _PROBABLE:
        return "probabilities"
    return "class numbers" if whole else "integers"


def _renamed(function: ast.expr, name: str) -> ast.expr:
    return ast.Attribute(function.value, name) if isinstance(function, ast.Attribute) else ast.Name(name)


@on_error("optax-schedule", "the decay of a schedule of Optax's ends before its warm-up does")
def optax_schedule(failing: Failing) -> Cause | None:
    """`decay_steps` of `warmup_cosine_decay_schedule` is the length of the whole schedule, and the warm-up is a part of
    it.

    Sure: Optax computed the length of the decay and refused it.
    """
    node = failing.node
    if not isinstance(node, ast.Call) or name_called(node) != "warmup_cosine_decay_schedule":
        return None
    warmup, decay = argument(node, 2, "warmup_steps"), argument(node, 3, "decay_steps")
    if warmup is None or decay is None or not failing.says(r"requires positive decay_steps, got decay_steps=(-?\d+)"):
        return None
    return Cause(
        title=f"`decay_steps` is {failing.text(decay)}, which the warm-up of {failing.text(warmup)} steps is a part of",
        explanation="It counts from the start of the schedule: the steps of the warm-up and those of the decay.",
        evidence=(
            Evidence(f"warmup_steps: {failing.scope.get(warmup)}", failing.site.span_of(warmup)),
            Evidence(f"decay_steps: {failing.scope.get(decay)}", failing.site.span_of(decay)),
        ),
        fix=text(replaced(node, decay, ast.BinOp(copied(warmup), ast.Add(), copied(decay)))),
        replaces=failing.span,
    )
