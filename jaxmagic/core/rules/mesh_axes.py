"""Names of axes: those that a mesh does not have, that nothing binds, and over which a result still differs."""

import ast
import difflib
import math
import re
from collections.abc import Iterator

import jax

from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import made_from
from jaxmagic.core.rules.rewrite import alias, call, copied, replaced, text
from jaxmagic.core.rules.shardings import axes_in_words, mapped_function
from jaxmagic.core.rules.wording import listed
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import name_called
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span

Fix = tuple[str, Span | None]

_BINDING = ("vmap", "pmap")


@on_error("axis-name-unknown", "an axis name that the mesh does not have, or that no vmap, pmap or shard_map binds")
def axis_name_unknown(failing: Failing) -> Cause | None:
    """`psum(x, "batch")` and its kin go over an axis that a `vmap` or `pmap` around them calls so (`axis_name`), or an
    axis of the mesh of a `shard_map`. A spec names axes of its mesh. Under `jit` alone there is no axis with a name.

    Sure: JAX looked for the name. The fix names an axis that is there, where there is one only, or one whose name is
    nearly the same.
    """
    mesh = failing.says(
        r"Resource axis: (?P<name>\S+) of .+ is not found in mesh: \((?P<there>[^()]*)\)"
    ) or failing.says(
        r"(?:in|out)_specs argument must refer to an axis marked as manual \(frozenset\(\{(?P<there>[^{}]*)\}\)\).*?"
        r"_specs\S* refers to '(?P<name>\w+)'"
    )
    if mesh is not None:
        there = re.findall(r"'([^']+)'", mesh["there"])
        fix, replaces = _renamed(failing, mesh["name"], there)
        return Cause(
            title=f"the mesh has no axis `{mesh['name']}`, {_having(there)}",
            explanation="A spec says along which axes of the mesh an array is cut, by the names that the mesh was made "
            "with.",
            evidence=(Evidence(f"axes of the mesh: {', '.join(there) or 'none'}", failing.span),),
            fix=fix,
            replaces=replaces,
        )
    unbound = failing.says(r"(?:Found an )?unbound axis name: (\S+?)(?:\.|$|\s)")
    return _unbound(failing, unbound[1]) if unbound is not None and failing.kind == "NameError" else None


def _having(there: list[str]) -> str:
    return f"only {listed(there)}" if there else "which has no axes at all: there is no mesh in context"


def _renamed(failing: Failing, name: str, there: list[str]) -> Fix:
    """The name of an axis that is there, where the other one is written just once."""
    near = there if len(there) == 1 else difflib.get_close_matches(name, there, 1)
    places = list(_written(failing, name)) if near else []
    return (repr(near[0]), places[0]) if len(places) == 1 else ("", None)


def _written(failing: Failing, name: str) -> Iterator[Span]:
    """Where a string stands in the failing expression, or in what the called function was made from."""
    called = failing.node.func if isinstance(failing.node, ast.Call) else None
    for file, tree in [(failing.site.file, failing.node), *made_from(failing, called)]:
        found = [each for each in ast.walk(tree) if _is_string(each, name)] if tree is not None else []
        if found:
            yield from (span_of(file, each) for each in found)
            return


def _is_string(node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _unbound(failing: Failing, name: str) -> Cause:
    mapping = _mapping(failing)
    names = [each for each in (_axis_name(node) for _, node in mapping) if each]
    names += [name for _, node in mapping if _mapper(node) == "shard_map" for name in _mesh_names(failing, node)]
    fix, replaces = _renamed(failing, name, list(dict.fromkeys(names))) if names else _bound(mapping, name)
    around = [each for each in failing.transforms if each.partition(" ")[0] in (*_BINDING, "shard_map")]
    under = ", ".join(failing.transforms)
    if names:
        why = f"around it {listed(list(dict.fromkeys(names)))} {'is' if len(set(names)) == 1 else 'are'} bound."
    elif around:
        why = f"The {around[0].partition(' ')[0]} around it gives its axis no name: say `axis_name={name!r}`."
    else:
        why = (
            "Nothing around it maps: under `jit` alone, or outside, the whole array is there, and a plain sum does it."
        )
    return Cause(
        title=f"no axis is called `{name}` here",
        explanation=f"A collective goes over an axis that a vmap, pmap or shard_map around it has named; {why}"
        if names
        else f"A collective goes over an axis that a vmap, pmap or shard_map around it has named. {why}",
        evidence=(Evidence(f"runs {'under ' * bool(under)}{under or 'outside of any transformation'}", failing.span),),
        fix=fix,
        replaces=replaces,
    )


def _mapping(failing: Failing) -> list[tuple[str, ast.Call]]:
    """The vmap, pmap and shard_map calls that the failing line ran under, in the expressions of the outer frames."""
    found: list[tuple[str, ast.Call]] = []
    for inner, outer in zip(failing.sites, failing.sites[1:], strict=False):
        if not any(each.partition(" ")[0] in (*_BINDING, "shard_map") for each in inner.entered):
            continue
        called = outer.node.func if isinstance(outer.node, ast.Call) else None
        marked = getattr(inner.definition, "decorator_list", [])
        for file, tree in [
            *((inner.file, each) for each in marked),
            (outer.file, outer.node),
            *made_from(failing, called),
        ]:
            if tree is not None and (calls := [each for each in ast.walk(tree) if _maps(each)]):
                found += [(file, each) for each in calls if isinstance(each, ast.Call)]
                break
    return found


def _maps(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _mapper(node) in (*_BINDING, "shard_map")


def _mapper(node: ast.Call) -> str:
    """What maps: `jax.vmap(…)`, or `partial(jax.vmap, …)`."""
    if name_called(node) == "partial" and node.args:
        return getattr(node.args[0], "attr", getattr(node.args[0], "id", ""))
    return name_called(node)


def _axis_name(node: ast.Call) -> str:
    named = next((word.value for word in node.keywords if word.arg == "axis_name"), None)
    return named.value if isinstance(named, ast.Constant) and isinstance(named.value, str) else ""


def _mesh_names(failing: Failing, node: ast.Call) -> list[str]:
    """Axes of the mesh that a shard_map is given; of all that are to be seen, where that is no plain name."""
    meshes = _meshes(failing)
    given = next((word.value for word in node.keywords if word.arg == "mesh"), None)
    chosen = [meshes[given.id]] if isinstance(given, ast.Name) and given.id in meshes else list(meshes.values())
    return [str(name) for mesh in chosen for name in mesh.axis_names]


def _bound(mapping: list[tuple[str, ast.Call]], name: str) -> Fix:
    """The one vmap or pmap around, with that name for its axis."""
    if len(mapping) != 1 or _mapper(mapping[0][1]) not in _BINDING:
        return "", None
    file, node = mapping[0]
    keywords = [*node.keywords, ast.keyword("axis_name", ast.Constant(name))]
    return text(copied(ast.Call(node.func, node.args, keywords))), span_of(file, node)


def _meshes(failing: Failing) -> dict[str, jax.sharding.Mesh]:
    """Meshes by the names that the user's frames see."""
    held = {**failing.sites[-1].scope.globals, **failing.scope.globals, **failing.scope.locals}
    return {name: each for name, each in list(held.items()) if isinstance(each, jax.sharding.Mesh) and name[:1] != "_"}


@on_error("mesh-missing", "a PartitionSpec alone, or a shard_map without mesh, where no mesh is in context")
def mesh_missing(failing: Failing) -> Cause | None:
    """A `PartitionSpec` names axes, and not the mesh that they are of. Give a `NamedSharding(mesh, spec)`, pass `mesh=`
    to `shard_map`, or put a mesh in context with `jax.set_mesh`.

    Sure: JAX looked for a mesh. The fix uses the one mesh that the code can see.
    """
    specs = failing.says(r"(\w+) requires a non-empty mesh in context if you are passing `PartitionSpec`s")
    if specs is None and not failing.says(r"^The context mesh cannot be empty"):
        return None
    meshes = _meshes(failing)
    file, node = _without_mesh(failing, specs is not None)
    named = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)} if node is not None else set()
    fitting = [
        name for name, mesh in meshes.items() if {each for each in named if isinstance(each, str)} <= {*mesh.axis_names}
    ]
    fix, replaces = ("", None) if len(fitting) != 1 or node is None else _with_mesh(failing, file, node, fitting[0])
    kept = f"`{fitting[0]}` is there, but not in context. " if len(fitting) == 1 else ""
    what = f"`{specs[1]}` got a PartitionSpec" if specs else "shard_map got no mesh"
    return Cause(
        title=f"{what}, and no mesh is in context",
        explanation=f"A spec names axes, and not the mesh that they are of. {kept}Give the mesh with it, or put it in "
        "context around the call: `with jax.set_mesh(mesh):`.",
        evidence=tuple(Evidence(f"{name}: a mesh over {_axes_of(meshes[name])}") for name in fitting[:3]),
        fix=fix,
        replaces=replaces,
    )


def _axes_of(mesh: jax.sharding.Mesh) -> str:
    return ", ".join(f"{axis} ({size})" for axis, size in mesh.shape.items())


def _without_mesh(failing: Failing, specs: bool) -> tuple[str, ast.Call | None]:
    """The one spec, or the one shard_map, in the failing expression or in what the called function was made from."""
    called = failing.node.func if isinstance(failing.node, ast.Call) else None
    wanted = ("P", "PartitionSpec") if specs else ("shard_map",)
    for file, tree in [(failing.site.file, failing.node), *made_from(failing, called)]:
        calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)] if tree is not None else []
        found = [each for each in calls if name_called(each) in wanted]
        if found:
            return file, found[0] if len(found) == 1 else None
    return "", None


def _with_mesh(failing: Failing, file: str, node: ast.Call, mesh: str) -> Fix:
    if name_called(node) == "shard_map":
        keywords = [ast.keyword("mesh", ast.Name(mesh)), *node.keywords]
        return text(copied(ast.Call(node.func, node.args, keywords))), span_of(file, node)
    named = f"{alias(failing.scope, 'jax')}.NamedSharding"
    return text(call(named, ast.Name(mesh), node)), span_of(file, node)


_REPLICATED = re.compile(
    r"out_specs(?P<path>\[\S*?\])? is (?:P|PartitionSpec)\((?P<spec>[^\n]*?)\) which implies that the corresponding "
    r"output value is replicated across mesh ax[ei]s (?P<axes>.+?), but could not infer"
)
_REDUCTIONS = {"sum": "psum", "dot": "psum", "matmul": "psum", "vdot": "psum", "mean": "pmean", "max": "pmax",
               "min": "pmin"}  # fmt: skip


@on_error(
    "result-varies-over-mesh", "out_specs of a shard_map say that a result is the same on all devices, and it is not"
)
def result_varies(failing: Failing) -> Cause | None:
    """An axis of the mesh that `out_specs` leaves out stands for a promise: the result is the same along it. What was
    computed from a sharded argument differs from device to device until a `psum`, `pmean` or `all_gather` goes over
    that axis: a mean of a device's part is not the mean. `check_vma=False` silences the check and gives one device's
    result.

    Sure: JAX followed the axes through the program. The fix reduces as the returned expression does.
    """
    match = _REPLICATED.search(failing.message)
    if match is None:
        return None
    axes = re.findall(r"'(\w+)'", match["axes"])
    path = match["path"] or ""
    function = mapped_function(failing)
    returned = function.returned() if function is not None else []
    result = returned[0] if len(returned) == 1 else None
    if path and result is not None:
        index = int(found[0]) if (found := re.findall(r"\d+", path)) else 0
        result = result.elts[index] if isinstance(result, ast.Tuple) and index < len(result.elts) else None
    fix, span = "", None
    if function is not None and result is not None:
        span = function.span_of(result)
        value = function.assigned(result.id) if isinstance(result, ast.Name) else result
        reduction = _reduction(value)
        over = ast.Constant(axes[0]) if len(axes) == 1 else ast.Tuple([ast.Constant(axis) for axis in axes])
        if reduction:
            fix = text(call(f"{alias(failing.scope, 'jax.lax')}.{reduction}", result, over))
    part = "a part of " if isinstance(result, ast.Tuple | ast.List | ast.Dict) else ""
    shown = f"{part}`{source.text_of(span)}`" if span is not None else "a result"
    return Cause(
        title=f"{shown} differs along mesh axis {listed(axes)}, and `out_specs{path}` says that it does not",
        explanation=f"Each device computes it from its own part of the arrays, and nothing joins the parts over "
        f"{listed(axes)}. Reduce with `psum`, `pmean`, … over the axis, or name it in `out_specs` to keep all parts. "
        "`check_vma=False` would return one device's part for the whole.",
        span=span,
        evidence=(Evidence(f"out_specs{path} is P({match['spec'].rstrip(',')})", failing.span),),
        fix=fix,
        replaces=span,
    )


def _reduction(value: ast.expr | None) -> str:
    """The collective that goes on with what an expression does last."""
    match value:
        case ast.Call():
            return _REDUCTIONS.get(name_called(value), "")
        case ast.BinOp(op=ast.MatMult()):
            return "psum"
    return ""


_DEVICES = re.compile(r"Number of devices (\d+) must be >= the product of mesh_shape \(([\d, ]*)\)")
_NAMES = re.compile(r"got devices\.ndim == (\d+) and len\(axis_names\) == (\d+)")


@on_error("mesh-size", "a mesh of more devices than there are, or with another number of names than axes")
def mesh_size(failing: Failing) -> Cause | None:
    """A mesh arranges the devices that there are along axes with names. A machine with one CPU shows as many devices
    as XLA is told of before JAX first looks: `XLA_FLAGS=--xla_force_host_platform_device_count=8`.

    Sure: JAX counted them.
    """
    names = _NAMES.search(failing.message)
    if names is not None:
        return Cause(
            title=f"the mesh has {axes_in_words(int(names[1]))} and {names[2]} name{'s' * (names[2] != '1')}",
            explanation="Each axis of a mesh has one name. `jax.make_mesh((2, 4), ('data', 'model'))` arranges the "
            "devices along two.",
            evidence=(Evidence(f"devices: {axes_in_words(int(names[1]))}, names: {names[2]}", failing.span),),
        )
    match = _DEVICES.search(failing.message)
    if match is None:
        return None
    there, sizes = int(match[1]), [int(size) for size in re.findall(r"\d+", match[2])]
    node, fix = failing.node, ""
    if len(sizes) == 1 and isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Tuple):
        count = ast.Tuple([call(f"{alias(failing.scope, 'jax')}.device_count")])
        fix = text(replaced(node, node.args[0], count))
    return Cause(
        title=f"a mesh of {math.prod(sizes)} devices, and there {'are' if there > 1 else 'is'} {there}",
        explanation=f"`jax.devices()` has {there}. On a CPU, the environment variable "
        f"`XLA_FLAGS=--xla_force_host_platform_device_count={math.prod(sizes)}`, set before JAX is first used, makes "
        "more of them.",
        evidence=(Evidence(f"jax.device_count() is {there}"),),
        fix=fix,
        replaces=failing.span,
    )
