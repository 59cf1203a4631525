"""Layers of Flax and Equinox that got an input of another size than they were made for."""

import ast
import re

from jaxmagic.core.rules.arrays import arrays_in, shape_evidence
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.modules import Layer, layer_of
from jaxmagic.core.rules.rewrite import call, text
from jaxmagic.records import Evidence


@on_error("layer-input", "a Flax or Equinox layer got an input of another size than it was made for")
def layer_input(failing: Failing) -> Cause | None:
    """A layer's parameters were made for one number of features, and its input has another. Reported are the layer
    by the path that leads to it, its parameters, and the input, expected and actual told apart. An Equinox layer
    takes one example: a batch goes through `jax.vmap`.

    Sure: the layer's own code raised. The fix is offered where the batch axis is all that is too much.
    """
    given = failing.says(
        r'parameter "(?P<name>\w+)" in "(?P<path>[^"]*)".*?(?:generate|expected)[^(]*shape (?P<made>\([\d, ]*\)).*?'
        r"shape (?P<has>\([\d, ]*\))"
    )
    if given and failing.kind == "ScopeParamShapeError":
        return _linen_parameter(failing, given)
    layer = layer_of(failing)
    if layer is None or not failing.says(r"contracting dimensions|feature dimension|rank|shape|broadcast"):
        return None
    node = failing.node
    fix = _mapped(failing, layer) if isinstance(node, ast.Call) else ""
    batch = " It takes one example; this looks like a batch of them." if fix else ""
    taken = ", ".join(str(aval) for aval in layer.inputs[:1])
    wanted = _features(layer)
    return Cause(
        title=f"layer {layer} got {taken}" + (f", but takes {wanted} features" if wanted else ""),
        explanation=f"Its parameters are {layer.described() or 'not made yet'}; the input is {taken}.{batch}",
        evidence=shape_evidence(failing, [part for part, _ in arrays_in(failing)])
        or (Evidence(f"input: {taken}"), Evidence(f"parameters: {layer.described()}")),
        fix=fix,
        replaces=failing.span,
    )


def _linen_parameter(failing: Failing, given: re.Match[str]) -> Cause:
    where = given["path"].strip("/") or "the module itself"
    return Cause(
        title=f"parameter `{given['name']}` of {where} has shape {given['has']}, but this input needs {given['made']}",
        explanation="The parameters were made (by `init`) for an input of another size. Either the input is wrong "
        "here, or `init` was called with an example of another shape.",
        evidence=(
            Evidence(f"expected by the input: {given['made']}"),
            Evidence(f"actual, in the parameters: {given['has']}"),
            *failing.evidence(*(part for part, _ in arrays_in(failing))),
        ),
    )


def _features(layer: Layer) -> str:
    """How many features the layer takes: rows of a kernel, columns of an Equinox weight, channels of a filter."""
    if "weight" in layer.parameters and len(layer.parameters["weight"].shape) >= 2:
        return str(layer.parameters["weight"].shape[1])
    kernel = layer.parameters.get("kernel")
    return str(kernel.shape[-2]) if kernel is not None and len(kernel.shape) >= 2 else ""


def _mapped(failing: Failing, layer: Layer) -> str:
    """`jax.vmap(layer)(x)` where an Equinox layer got a batch that it would take one by one."""
    node, weight = failing.node, layer.parameters.get("weight")
    if not isinstance(node, ast.Call) or weight is None or not layer.inputs:
        return ""
    shape, features = layer.inputs[0].shape, weight.shape[1:2]
    one = len(weight.shape) - 1
    if len(shape) == one + 1 and shape[1:2] == features:
        return text(ast.Call(call("jax.vmap", node.func), node.args, node.keywords))
    return ""
