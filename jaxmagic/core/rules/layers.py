"""Layers of Flax and Equinox that got an input of another size than they were made for."""

import ast
import re

from jaxmagic.core.failures.sites import Site
from jaxmagic.core.rules.arrays import arrays_in, shape_evidence
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.modules import Layer, layer_of
from jaxmagic.core.rules.rewrite import alias, call, taking, text
from jaxmagic.records import Evidence, Span


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
    if layer is None or not failing.says(
        r"contracting dimensions|feature dimension|rank|shape|broadcast|Use `jax\.vmap`|values to unpack"
    ):
        return None
    if (stacked := _stacked(failing, layer)) is not None:
        return stacked
    if layer.kind == "LSTMCell" and failing.says(r"values to unpack") and len(layer.inputs) == 2:
        return _one_state(failing, layer)
    given = [aval for _, aval in arrays_in(failing)] or list(layer.inputs[:1])
    taken = " and ".join(str(aval) for aval in given)
    fix, replaces, way = _outermost(failing, layer)
    if not fix:
        fix, replaces, way = _channels_first(failing, layer), failing.span, ""
    wanted = _features(layer)
    what = "channels" if "Conv" in layer.kind else "features"
    told = f", but takes {wanted} {what}" if wanted and not way else ", and takes one example" if way else ""
    inside = f" Inside, {expression} does not fit." if (expression := _inside(failing)) and len(given) > 1 else ""
    return Cause(
        title=f"layer {layer} got {taken}{told}",
        explanation=f"Its parameters are {layer.described() or 'not made yet'}; the input is {taken}.{inside}{way}",
        evidence=shape_evidence(failing, [part for part, _ in arrays_in(failing)])
        or (Evidence(f"input: {taken}"), Evidence(f"parameters: {layer.described()}")),
        fix=fix,
        replaces=replaces,
    )


def _stacked(failing: Failing, layer: Layer) -> Cause | None:
    """Parameters with an axis more than the layer's own: it was made by `vmap`, and holds several layers."""
    kernel = layer.parameters.get("kernel") or layer.parameters.get("weight")
    if layer.kind != "Linear" or kernel is None or len(kernel.shape) != 3 or not isinstance(failing.node, ast.Call):
        return None
    node, nnx = failing.node, "kernel" in layer.parameters
    vmap = f"{alias(failing.scope, 'flax.nnx')}.vmap" if nnx else f"{alias(failing.scope, 'equinox')}.filter_vmap"
    one = taking(["layer", "x"], ast.Call(ast.Name("layer"), [ast.Name("x")], []))
    axes = ast.Tuple([ast.Constant(0), ast.Constant(None)])
    mapped = ast.Call(call(vmap, one, in_axes=axes), [node.func, *node.args], [])
    fix = text(mapped) if len(node.args) == 1 and not node.keywords else ""
    return Cause(
        title=f"layer {layer} holds {kernel.shape[0]} layers: its parameters have a further axis, of vmap",
        explanation=f"Its parameters are {layer.described()}. What was made under vmap is called under vmap.",
        evidence=shape_evidence(failing, [part for part, _ in arrays_in(failing)]),
        fix=fix,
        replaces=failing.span,
    )


def _one_state(failing: Failing, layer: Layer) -> Cause:
    """An LSTM cell that got its hidden state alone."""
    node, fix = failing.node, ""
    if isinstance(node, ast.Call) and len(node.args) == 2 and failing.aval(node.args[1]) is not None:
        zeros = call(f"{alias(failing.scope, 'jax.numpy')}.zeros_like", node.args[1])
        fix = text(ast.Call(node.func, [node.args[0], ast.Tuple([node.args[1], zeros])], node.keywords))
    return Cause(
        title=f"layer {layer} got one state, {layer.inputs[1]}, and has two",
        explanation="The state of an LSTM cell is a pair: the hidden state and the cell's own.",
        evidence=shape_evidence(failing, [part for part, _ in arrays_in(failing)]),
        fix=fix,
        replaces=failing.span,
    )


def _inside(failing: Failing) -> str:
    """The layer's own expression that failed: `self.weight_hh @ hidden` (f32[24,8] and f32[1,8])."""
    frames = [
        frame for frame in failing.machinery if frame.f_globals.get("__name__", "").startswith(("equinox", "flax"))
    ]
    if not frames:
        return ""
    site = Site(frames[-1], frames[-1].f_lasti)
    node = site.node
    if not isinstance(node, ast.BinOp):
        return ""
    avals = [site.scope.aval(part) for part in (node.left, node.right)]
    return f"`{site.text(node)}` ({avals[0]} and {avals[1]})" if all(avals) else ""


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


_BATCH = " It takes one example; this looks like a batch of them."


def _outermost(failing: Failing, layer: Layer) -> tuple[str, Span | None, str]:
    """The call of the Equinox model mapped over the batch that its layer got, where the model got it as well."""
    if not _is_batch(failing, layer):
        return "", None, ""
    shape = layer.inputs[0].shape
    site = failing.site
    for outer in failing.sites[1:]:
        if getattr(site.definition, "name", "") != "__call__" or not isinstance(outer.node, ast.Call):
            break
        given = [aval for part in outer.node.args if (aval := outer.scope.aval(part)) is not None]
        if len(given) != 1 or given[0].shape[:1] != shape[:1] or len(outer.node.args) != 1:
            break
        site = outer
    node = site.node
    if not isinstance(node, ast.Call) or node.keywords:
        return "", None, _BATCH
    mapped = call(f"{alias(site.scope, 'jax')}.vmap", node.func)
    return text(ast.Call(mapped, node.args, [])), site.span_of(node), _BATCH


def _is_batch(failing: Failing, layer: Layer) -> bool:
    """Whether an Equinox layer got an axis too many, and would take the rest one by one."""
    if failing.says(r"Use `jax\.vmap`|too many values to unpack"):
        return bool(layer.inputs) and bool(layer.inputs[0].shape)
    weight = layer.parameters.get("weight")
    if weight is None or not layer.inputs:
        return False
    shape, features = layer.inputs[0].shape, weight.shape[1:2]
    return len(shape) == len(weight.shape) and shape[1:2] == features


def _channels_first(failing: Failing, layer: Layer) -> str:
    """`jnp.moveaxis(x, -1, 0)` for an Equinox convolution, which has its channels first."""
    weight, node = layer.parameters.get("weight"), failing.node
    if "Conv" not in layer.kind or weight is None or not isinstance(node, ast.Call) or len(node.args) != 1:
        return ""
    aval = failing.aval(node.args[0])
    if aval is None or len(aval.shape) != len(weight.shape) - 1 or aval.shape[-1] != weight.shape[1]:
        return ""
    moved = call(f"{alias(failing.scope, 'jax.numpy')}.moveaxis", node.args[0], ast.Constant(-1), ast.Constant(0))
    return text(ast.Call(node.func, [moved], node.keywords))
