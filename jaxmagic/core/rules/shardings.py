"""Arrays that are laid out over devices in a way that doesn't go: other devices, sizes, numbers of axes."""

import ast
import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax

from jaxmagic.core.failures.operands import aval_of, is_tracer
from jaxmagic.core.lines.containers import children
from jaxmagic.core.rules.calls import short_type
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import Function, at_path, function_of, made_from
from jaxmagic.core.rules.rewrite import alias, call, replaced, text
from jaxmagic.core.source.nodes import name_called, parts
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Aval, Evidence, Span

_DEEPEST = 5
_SPEC = r"(?:P|PartitionSpec)\([^()]*(?:\([^()]*\)[^()]*)*\)"


class Given(NamedTuple):
    """An array in an operand of the failing expression."""

    node: ast.expr
    """The operand."""
    name: str
    """The operand's source and the path to the array: `params['b']`."""
    value: Any

    @property
    def aval(self) -> Aval | None:
        return aval_of(self.value)

    @property
    def devices(self) -> list[int]:
        held = isinstance(self.value, jax.Array) and not is_tracer(self.value)
        return sorted(device.id for device in self.value.sharding.device_set) if held else []


def given(failing: Failing) -> list[Given]:
    """The arrays that the failing expression works on, those in containers too."""
    nodes = parts(failing.node)
    if isinstance(failing.node, ast.Call):
        nodes = [*nodes, *(word.value for word in failing.node.keywords if word.value not in nodes)]
    return [
        Given(node, _named(failing, node, path), value)
        for node in nodes
        for path, value in _arrays(_value(failing, node), "", 0)
    ]


def _value(failing: Failing, node: ast.expr) -> Any:
    """An array as the library got it, since what is told from the source has no devices."""
    received = failing.received.get(node)
    return received if isinstance(received, jax.Array) else failing.value(node)


def _named(failing: Failing, node: ast.expr, path: str) -> str:
    inside = at_path(node, path) if isinstance(node, ast.Dict | ast.Tuple | ast.List) else None
    return failing.text(inside) if inside is not None else failing.text(node) + path


def _arrays(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if aval_of(value) is not None:
        yield path, value
    elif depth < _DEEPEST:
        for step, part in itertools.islice(children(value, lambda cls: False) or (), 200):
            yield from _arrays(part, path + step, depth + 1)


def of_shape(failing: Failing, shape: tuple[int, ...]) -> Given | None:
    """The one that has that shape; the first of several."""
    return next((each for each in given(failing) if each.aval is not None and each.aval.shape == shape), None)


@on_error("devices-differ", "one computation got arrays that were put on different devices")
def devices_differ(failing: Failing) -> Cause | None:
    """A program runs on one set of devices. JAX moves a fresh array to where the others are, but none that was put
    somewhere on purpose: by `device_put`, with a sharding, or as the result of such arrays.

    Sure: JAX compared the devices. The fix moves the array that is on fewer of them.
    """
    match = failing.says(
        r"Received incompatible devices for jitted computation\. Got argument (\S+) of (.+?) with shape (\S+) and "
        r"(?:with )?device ids (\[[\d, ]*\]) on platform (\w+) and argument (\S+) of .+? with shape (\S+) and "
        r"(?:with )?device ids (\[[\d, ]*\]) on platform (\w+)"
    )
    if match is None:
        return None
    sides = [(match[1], match[3], match[4], match[5]), (match[6], match[7], match[8], match[9])]
    found = [_on(failing, ids) for _, _, ids, _ in sides]
    shown = [
        (f"`{one.name}`" if one else f"argument `{name}` of `{match[2]}`", _places(ids, platform), short_type(kind))
        for one, (name, kind, ids, platform) in zip(found, sides, strict=True)
    ]
    fix = _moved(failing, found)
    return Cause(
        title=f"{shown[0][0]} is on {shown[0][1]} and {shown[1][0]} on {shown[1][1]}",
        explanation="A program runs on one set of devices, and JAX does not move an array that was put somewhere on "
        "purpose, by `device_put` or as a result of such arrays. Put both on the same devices.",
        evidence=tuple(
            Evidence(f"{name.strip('`')}: {kind} on {places}", failing.site.span_of(one.node) if one else failing.span)
            for one, (name, places, kind) in zip(found, shown, strict=True)
        ),
        fix=fix,
        replaces=failing.span if fix else None,
    )


def _on(failing: Failing, ids: str) -> Given | None:
    wanted = [int(each) for each in re.findall(r"\d+", ids)]
    return next((each for each in given(failing) if each.devices == wanted), None)


def _places(ids: str, platform: str) -> str:
    numbers = re.findall(r"\d+", ids)
    return f"{platform} device{'s' * (len(numbers) > 1)} {', '.join(numbers)}"


def _moved(failing: Failing, found: list[Given | None]) -> str:
    """The failing expression with the array on fewer devices put where the other one is."""
    first, second = found
    if first is None or second is None or first.node is second.node or not isinstance(failing.node, ast.expr):
        return ""
    target, moving = (second, first) if len(second.devices) > len(first.devices) else (first, second)
    jax_name = alias(failing.scope, "jax")
    place = ast.parse(f"({target.name}).sharding", mode="eval").body
    if len(target.devices) > 1:
        if type(target.value.sharding) is not jax.sharding.NamedSharding:
            return ""
        whole = f"{jax_name}.NamedSharding({text(place)}.mesh, {jax_name}.P())"
        place = ast.parse(whole, mode="eval").body
    return text(replaced(failing.node, moving.node, call(f"{jax_name}.device_put", moving.node, place)))


_UNEVEN = (
    re.compile(r"array axis (?P<axis>\d+) is partitioned (?P<parts>\d+) times, but the dimension size is (?P<size>\d+) "
               r"\(full shape: \((?P<shape>[\d, ]*)\)"),
    re.compile(r"global size of its dimension (?P<axis>\d+) should be divisible by (?P<parts>\d+), but it is equal to "
               r"(?P<size>\d+) \(full shape: \((?P<shape>[\d, ]*)\)"),
    re.compile(r"passed (?P<path>args\S*) of shape \w+\[(?P<shape>[\d,]*)\](?:\S*), where args\S* is bound to .+?'s "
               r"parameter '(?P<name>\w+)', corresponds to in_specs\S* of value " + _SPEC + r", which maps array axis "
               r"(?P<axis>\d+) \(of size (?P<size>\d+)\) to mesh ax[ei]s (?P<mesh>.+?) \(of (?:total )?size "
               r"(?P<parts>\d+)\)"),
)  # fmt: skip
_RANK = re.compile(
    rf"spec=(?P<spec>{_SPEC}).*?only valid for values of rank at least \d+, but was applied to a value of rank "
    r"(?P<rank>\d+)"
)
_IN_RANK = re.compile(
    rf"in_specs\S* is (?P<spec>{_SPEC}) which has length \d+, but the passed args\S*, where args\S* is bound to .+?'s "
    r"parameter '(?P<name>\w+)', has shape (?P<type>\S+), which has rank (?P<rank>\d+)"
)
_OUT_RANK = re.compile(
    rf"out_specs(?P<path>\S*) is (?P<spec>{_SPEC}) which has length \d+, but (?P<name>.+?)\(\*args\)\S* has shape "
    r"(?P<type>\S+), which has rank (?P<rank>\d+)"
)


@on_error(
    "sharding-misfit", "a sharding or a spec does not fit the array: a size does not divide, or an axis is missing"
)
def sharding_misfit(failing: Failing) -> Cause | None:
    """A sharding cuts an axis into as many equal parts as there are devices along the mesh axis, so the size must be a
    multiple of that number; and a spec has at most one entry for each axis of the array. In a tree that gets one
    sharding, the leaf that it does not fit is named by its path.

    Sure: JAX compared shape and sharding. There is a fix where only one spec is left.
    """
    if _of_pmap(failing) and (cause := _pmapped(failing)) is not None:
        return cause
    match = next(filter(None, (pattern.search(failing.message) for pattern in _UNEVEN)), None)
    if match is not None:
        return _uneven(failing, match.groupdict())
    for pattern in (_IN_RANK, _OUT_RANK, _RANK):
        if (match := pattern.search(failing.message)) is not None:
            return _outputs(failing, match) if pattern is _OUT_RANK else _too_long(failing, match.groupdict())
    return _counted(failing) or _exchanged(failing)


def _uneven(failing: Failing, said: dict[str, str]) -> Cause:
    shape = tuple(int(size) for size in re.findall(r"\d+", said["shape"]))
    size, devices = int(said["size"]), int(said["parts"])
    found = of_shape(failing, shape)
    name = f"`{found.name}`" if found else f"argument `{said['name']}`" if said.get("name") else "an array"
    aval = (found.aval if found else None) or shape
    below, above = size // devices * devices, -(-size // devices) * devices
    sizes = f"{below} and {above} can" if below else f"{above} can"
    mesh = f"mesh axis {said['mesh']}" if said.get("mesh") else "the mesh"
    return Cause(
        title=f"axis {said['axis']} of {name} has size {size}, which can't be cut into {devices} equal parts",
        explanation=f"The spec lays that axis over {mesh}, {devices} parts of the same size; {sizes} be cut "
        "so. Pad or crop the array, leave the axis whole (None in its place of the spec), or use another number of "
        "devices.",
        evidence=(Evidence(f"{name.strip('`')}: {aval}", failing.site.span_of(found.node) if found else failing.span),),
    )


def _entries(spec: str) -> list[ast.expr]:
    node = ast.parse(spec, mode="eval").body
    return node.args if isinstance(node, ast.Call) else []


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _shorter(spec: str, rank: int) -> list[ast.expr] | None:
    """The spec with as many entries as there are axes, where that can only be one."""
    entries = _entries(spec)
    named = [entry for entry in entries if not _is_none(entry)]
    if all(map(_is_none, entries[rank:])):
        return entries[:rank]
    return named if len(named) == rank else None


def _too_long(failing: Failing, said: dict[str, str]) -> Cause:
    spec, rank = f"P({', '.join(text(entry) for entry in _entries(said['spec']))})", int(said["rank"])
    found = next((each for each in given(failing) if each.aval is not None and len(each.aval.shape) == rank), None)
    output = re.search(r"One of \w+ outputs", failing.message) is not None
    found = None if output else found
    name = f"`{found.name}`" if found else f"`{said['name']}`" if said.get("name") else "the result" if output else "it"
    kind = found.aval if found else short_type(said["type"]) if said.get("type") else None
    left = _shorter(said["spec"], rank)
    fix, replaces = _respelled(failing, said["spec"], left) if left is not None else ("", None)
    return Cause(
        title=f"`{spec}` has {_entry_count(len(_entries(said['spec'])))}, and {name} has {axes_in_words(rank)}",
        explanation="A spec has an entry for each axis of the array, from the first on: the mesh axis that it is cut "
        "along, or None. It may have fewer, but not more.",
        evidence=(Evidence(f"{name.strip('`')}: {kind}", failing.site.span_of(found.node) if found else failing.span),)
        if kind
        else (),
        fix=fix,
        replaces=replaces,
    )


def _entry_count(count: int) -> str:
    return "one entry" if count == 1 else f"{count} entries"


def axes_in_words(rank: int) -> str:
    return {0: "no axes", 1: "one axis"}.get(rank, f"{rank} axes")


def _respelled(failing: Failing, spec: str, left: list[ast.expr]) -> tuple[str, Span | None]:
    """The spec as it is to be, where it is written just once: in the failing expression, or where it was made."""
    wanted = [text(entry) for entry in _entries(spec)]
    called = failing.node.func if isinstance(failing.node, ast.Call) else None
    for file, tree in [(failing.site.file, failing.node), *made_from(failing, called)]:
        nodes = [node for node in ast.walk(tree) if _is_spec(node, wanted)] if tree is not None else []
        if len(nodes) == 1 and isinstance(nodes[0], ast.Call):
            return text(ast.Call(nodes[0].func, left, [])), span_of(file, nodes[0])
        if nodes:
            break
    return "", None


def _is_spec(node: ast.AST, entries: list[str]) -> bool:
    return (
        isinstance(node, ast.Call)
        and name_called(node) in ("P", "PartitionSpec")
        and [text(entry) for entry in node.args] == entries
    )


def mapped_function(failing: Failing) -> Function | None:
    """The function that the failing call runs on each device, where it is found by its name or in its place."""
    called = failing.node.func if isinstance(failing.node, ast.Call) else None
    function = function_of(failing.site, called)
    if function is not None or called is None:
        return function
    for _, tree in [(failing.site.file, called), *made_from(failing, called)]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and name_called(node) in ("shard_map", "pmap") and node.args:
                return function_of(failing.site, node.args[0])
    return None


def _outputs(failing: Failing, match: re.Match[str]) -> Cause:
    """A result without axes that `out_specs` lays over the mesh."""
    spec = f"P({', '.join(text(entry) for entry in _entries(match['spec']))})"
    function = mapped_function(failing)
    rank, path = int(match["rank"]), match["path"]
    returned = function.returned() if function is not None else []
    result = returned[0] if len(returned) == 1 and not path else None
    fix, replaces = "", None
    if function is not None and result is not None and rank == 0:
        fix, replaces = text(ast.Subscript(result, ast.Constant(None))), function.span_of(result)
    axes = ", ".join(text(entry) for entry in _entries(match["spec"]) if not _is_none(entry))
    way = (
        f" With an axis of its own, each device's number is one element of the result. If it is to be their "
        f"sum, return `jax.lax.psum(…, {axes})` with `out_specs=P()`."
        if rank == 0
        else " It may have fewer entries than the result has axes, but not more."
    )
    return Cause(
        title=f"`out_specs{path}` is `{spec}`, and `{match['name']}` returns {short_type(_plain(match['type']))}, "
        f"with {axes_in_words(rank)}",
        explanation=f"`out_specs` joins what the devices return along axes that the result has.{way}",
        span=replaces,
        evidence=(Evidence("called here", failing.span),),
        fix=fix,
        replaces=replaces,
    )


def _plain(kind: str) -> str:
    return kind.partition("{")[0]


_PREFIX = re.compile(r"shard_map (?P<specs>in_specs|out_specs)(?P<at>\S*)\n+.*?subtree of (?:type )?\w+ of length "
                     r"(?P<had>\d+), but the full pytree has a subtree of the same type but of length (?P<wanted>\d+)",
                     re.DOTALL)  # fmt: skip
_SHARDINGS = re.compile(
    r"pjit (?P<specs>in_shardings|out_shardings).*?got a tuple or list of length (?P<had>\d+) for an args tuple of "
    r"length (?P<wanted>\d+)",
    re.DOTALL,
)


def _counted(failing: Failing) -> Cause | None:
    """As many specs as there are arguments or results, and not more or fewer."""
    match = _PREFIX.search(failing.message) or _SHARDINGS.search(failing.message)
    if match is None:
        return None
    specs, had, wanted = match["specs"], match["had"], match["wanted"]
    what = "results are returned" if specs.startswith("out") else "arguments were passed"
    function = mapped_function(failing)
    evidence = [Evidence(f"called with {wanted} arguments" if "in" in specs else "called here", failing.span)]
    if function is not None and function.returned() and specs.startswith("out"):
        evidence.append(Evidence(f"returns {wanted}", function.span_of(function.returned()[0])))
    return Cause(
        title=f"`{specs}` has {_entry_count(int(had))}, and {wanted} {what}",
        explanation=f"`{specs}` has one entry for each, in order; one that is no tuple serves for all.",
        evidence=tuple(evidence),
    )


_EXCHANGED = re.compile(
    r"all_to_all requires the size of the mapped axis axis_name to equal x\.shape\[split_axis\], but they are (\d+) "
    r"and (\d+)|"
    r"reduce_scatter operand scatter dimension size (?P<size>\d+) must be divisible by shard_count (?P<parts>\d+)"
)


def _exchanged(failing: Failing) -> Cause | None:
    """A collective that gives each device a piece of every other device's part."""
    match = _EXCHANGED.search(failing.message)
    arrays = [each for each in given(failing) if each.aval is not None and each.aval.shape]
    if match is None or not arrays or not isinstance(failing.node, ast.Call):
        return None
    devices, size = (match["parts"], match["size"]) if match["size"] else (match[1], match[2])
    tiled = match["size"] is None and not any(word.arg == "tiled" for word in failing.node.keywords)
    way = f" With `tiled=True` a multiple of {devices} will do." if tiled else ""
    return Cause(
        title=f"`{arrays[0].name}` has size {size} on each device, and is to be cut into {devices} parts",
        explanation=f"The collective gives each of {devices} devices a piece of this one's part of the array.{way}",
        evidence=(
            Evidence(f"{arrays[0].name}: {arrays[0].aval} on each device", failing.site.span_of(arrays[0].node)),
        ),
    )


def _of_pmap(failing: Failing) -> bool:
    return any(frame.f_globals.get("__name__", "").endswith("pmap") for frame in failing.machinery)


def _pmapped(failing: Failing) -> Cause | None:
    """A leading axis that is longer than there are devices."""
    if not failing.says(
        r"axis to squeeze out which has size not equal to one|requires \d+ (?:logical devices|replicas)|is partitioned|"
        r"^pmap got inconsistent sizes"
    ):
        return None
    arrays = [each for each in given(failing) if each.aval is not None and each.aval.shape]
    sizes = sorted({each.aval.shape[0] for each in arrays if each.aval is not None}, key=str)
    count = jax.local_device_count()
    if len(sizes) == 1 and isinstance(sizes[0], int) and sizes[0] > count:
        title = f"axis 0 of `{arrays[0].name}` has size {sizes[0]}, and there are {count} devices"
        each = sizes[0] // count
        way = (
            f" Give each device {each}: reshape to `({count}, {each}, …)` and `jax.vmap` inside."
            if sizes[0] % count == 0
            else ""
        )
    elif len(sizes) > 1:
        told = " and ".join(f"`{each.name}` {each.aval}" for each in arrays[:4])
        title = f"pmap: axis 0 differs between {told}"
        way = " What is the same for every device gets None in `in_axes`."
    else:
        return None
    return Cause(
        title=title,
        explanation=f"`pmap` runs the function once on each device, for one index of axis 0.{way} `jax.jit` of an "
        "array that is sharded with `device_put` cuts any multiple of the number of devices.",
        evidence=tuple(Evidence(f"{each.name}: {each.aval}", failing.site.span_of(each.node)) for each in arrays[:8]),
    )


_TYPES = re.compile(r"(\w+) got incompatible shardings for broadcasting: (\([^()]*\)), (\([^()]*\))")


@on_error("sharding-ambiguous", "two arrays whose axes are laid out differently, on a mesh with explicit axes")
def sharding_ambiguous(failing: Failing) -> Cause | None:
    """On a mesh with explicit axes the sharding is part of an array's type, and JAX does not guess how a result should
    be laid out where the operands disagree: `reshard` one of them, or say `out_sharding`.

    Sure: JAX compared the shardings.
    """
    if failing.kind != "ShardingTypeError" or not isinstance(failing.node, ast.expr):
        return None
    match = _TYPES.search(failing.message)
    arrays = given(failing)[:2]
    told = [f"`{each.name}` ({each.aval})" for each in arrays]
    fix = ""
    jax_name = alias(failing.scope, "jax")
    if match is not None and len(arrays) == 2 and _full(arrays[0]) == _full(arrays[1]):
        first, second = arrays
        place = ast.parse(f"{jax_name}.typeof({first.name}).sharding", mode="eval").body
        fix = text(replaced(failing.node, second.node, call(f"{jax_name}.sharding.reshard", second.node, place)))
    contracted = failing.says(r"Contracting dimensions are sharded")
    why = (
        "The axes that are summed over are sharded, so each device has only a part of every sum."
        if contracted
        else "Each is laid out over the mesh in its own way."
    )
    return Cause(
        title=f"`{failing.text(failing.node)}`: how the result is to be laid out over the mesh is not clear",
        explanation=f"{why} {' and '.join(told)}. `{jax_name}.sharding.reshard` gives an array another layout; matmul, "
        "einsum and reshape take `out_sharding`.",
        evidence=tuple(Evidence(f"{each.name}: {each.aval}", failing.site.span_of(each.node)) for each in arrays),
        fix=fix,
        replaces=failing.span,
    )


def _full(each: Given) -> tuple[int | str, ...]:
    return each.aval.shape if each.aval is not None else ()
