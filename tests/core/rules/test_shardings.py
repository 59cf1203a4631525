"""Shardings, meshes and names of axes that don't fit: what is said, and the fix applied and run."""

from functools import partial

import pytest
from failing_cells import failed
from several_devices import IMPORTS, Check, outcome_of_all, say_outcomes

MENDED = {
    "arrays on two devices": (
        ["a, b = (jax.device_put(jnp.ones(4), each) for each in jax.devices()[:2])", "out = a * 2 + b"],
        "devices-differ",
        ("b", "CPU device 0", "CPU device 1"),
        "a * 2 + jax.device_put(b, (a * 2).sharding)",
    ),
    "a sharded tree and an array on one device": (
        [
            "class Model:\n    def __init__(self):\n"
            "        self.w = jax.device_put(jnp.ones(4), NamedSharding(mesh, P('x')))\n"
            "    def __call__(self, x):\n        return apply({'w': self.w}, x)\n"
            "apply = jax.jit(lambda p, x: p['w'] * x)\nmodel = Model()",
            "out = model(jax.device_put(jnp.ones(4), jax.devices()[2]))",
        ],
        "devices-differ",
        ("`self.w` is on CPU devices 0, 1, 2, 3", "`x` on CPU device 2"),
        "apply({'w': self.w}, jax.device_put(x, jax.NamedSharding(self.w.sharding.mesh, jax.P())))",
    ),
    "a spec that is too long": (
        ["out = jax.device_put(xs, NamedSharding(mesh, P('x', None)))"],
        "sharding-misfit",
        ("`P('x', None)` has 2 entries, and `xs` has one axis",),
        "P('x')",
    ),
    "a constraint that is too long, in a jit": (
        [
            "@jax.jit\ndef f(x):\n    h = x * 2\n"
            "    return jax.lax.with_sharding_constraint(h, NamedSharding(mesh, P(None, 'x')))",
            "out = f(xs)",
        ],
        "sharding-misfit",
        ("`h` has one axis",),
        "P('x')",
    ),
    "in_specs that are too long": (
        ["f = jax.shard_map(lambda a: a * 2, mesh=mesh, in_specs=P('x', None), out_specs=P('x'))", "out = f(xs)"],
        "sharding-misfit",
        ("`xs` has one axis",),
        "P('x')",
    ),
    "in_shardings that are too long": (
        ["f = jax.jit(lambda a: a * 2, in_shardings=NamedSharding(mesh, P(None, 'x')))", "out = f(xs)"],
        "sharding-misfit",
        ("`xs` has one axis",),
        "P('x')",
    ),
    "a number for each device": (
        ["@over_x\ndef total(x):\n    return x.sum()", "out = total(xs)"],
        "sharding-misfit",
        ("`total` returns f32[], with no axes",),
        "x.sum()[None]",
    ),
    "operands of different layouts": (
        [
            "names = ('data', 'model')\nfull = jax.make_mesh((2, 2), names, axis_types=(AxisType.Explicit,) * 2)",
            "with jax.set_mesh(full):\n    a = jax.device_put(jnp.ones((4, 4)), P('data', None))\n"
            "    b = jax.device_put(jnp.ones((4, 4)), P('model', None))\n    out = a - b",
        ],
        "sharding-ambiguous",
        ("`a - b`",),
        "a - jax.sharding.reshard(b, jax.typeof(a).sharding)",
    ),
    "a mesh of more devices than there are": (
        ["out = jax.make_mesh((8,), ('x',), axis_types=(AxisType.Auto,))"],
        "mesh-size",
        ("a mesh of 8 devices, and there are 4",),
        "jax.make_mesh((jax.device_count(),), ('x',), axis_types=(AxisType.Auto,))",
    ),
    "a name that the mesh does not have": (
        ["out = jax.device_put(jnp.ones((4, 4)), NamedSharding(square, P('dat', 'model')))"],
        "axis-name-unknown",
        ("no axis `dat`", "`data` and `model`"),
        "'data'",
    ),
    "in_specs with another name": (
        ["f = jax.shard_map(lambda a: a, mesh=mesh, in_specs=P('y'), out_specs=P('x'))", "out = f(xs)"],
        "axis-name-unknown",
        ("no axis `y`, only `x`",),
        "'x'",
    ),
    "a vmap whose axis has no name": (
        [
            "class Norm:\n    def __call__(self, x):\n        return x / jax.lax.pmean(x, 'batch')",
            "out = jax.vmap(Norm())(xs + 1)",
        ],
        "axis-name-unknown",
        ("no axis is called `batch`",),
        "jax.vmap(Norm(), axis_name='batch')",
    ),
    "a vmap whose axis has another name": (
        [
            "def f(x):\n    return x - jax.lax.psum(x, 'b')\nbatched = jax.jit(jax.vmap(f, axis_name='batch'))",
            "out = batched(xs)",
        ],
        "axis-name-unknown",
        ("no axis is called `b`",),
        "'batch'",
    ),
    "a collective over another axis of the mesh": (
        [
            "@partial(jax.shard_map, mesh=mesh, in_specs=P('x'), out_specs=P('x'))\n"
            "def f(x):\n    return x + jax.lax.axis_index('i')",
            "out = jax.jit(f)(xs)",
        ],
        "axis-name-unknown",
        ("no axis is called `i`",),
        "'x'",
    ),
    "a constraint without a mesh": (
        ["@jax.jit\ndef f(x):\n    return jax.lax.with_sharding_constraint(x * 2, P('x'))", "out = f(xs)"],
        "mesh-missing",
        ("`with_sharding_constraint` got a PartitionSpec",),
        "jax.NamedSharding(mesh, P('x'))",
    ),
    "in_shardings without a mesh": (
        ["f = jax.jit(lambda a: a * 2, in_shardings=P('data', 'model'))", "out = f(jnp.ones((4, 4)))"],
        "mesh-missing",
        ("`jit` got a PartitionSpec",),
        "jax.NamedSharding(square, P('data', 'model'))",
    ),
    "a shard_map without a mesh": (
        ["f = jax.shard_map(lambda a: a * 2, in_specs=P('x'), out_specs=P('x'))", "out = f(xs)"],
        "mesh-missing",
        ("shard_map got no mesh",),
        "jax.shard_map(lambda a: a * 2, mesh=mesh, in_specs=P('x'), out_specs=P('x'))",
    ),
    "a mean of each device's part": (
        [
            "class Model:\n    def loss(self, x):\n        l = jnp.mean(x ** 2)\n        return l\nmodel = Model()\n"
            "loss = jax.jit(jax.shard_map(model.loss, mesh=mesh, in_specs=P('x'), out_specs=P()))",
            "out = loss(xs)",
        ],
        "result-varies-over-mesh",
        ("`l` differs along mesh axis `x`",),
        "jax.lax.pmean(l, 'x')",
    ),
    "a product over a sharded axis": (
        [
            "specs = P('data', 'model'), P('model', None)\n"
            "@partial(jax.shard_map, mesh=square, in_specs=specs, out_specs=P('data', None))\n"
            "def product(a, b):\n    return a @ b",
            "out = product(jnp.ones((4, 4)), jnp.ones((4, 2)))",
        ],
        "result-varies-over-mesh",
        ("`a @ b` differs along mesh axis `model`",),
        "jax.lax.psum(a @ b, 'model')",
    ),
    "one of two results": (
        [
            "def f(x):\n    return x, x.max()\n"
            "g = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P('x'), out_specs=(P('x'), P())))",
            "out = g(xs)",
        ],
        "result-varies-over-mesh",
        ("`x.max()` differs", "`out_specs[1]`"),
        "jax.lax.pmax(x.max(), 'x')",
    ),
    "a carry that comes to differ": (
        [
            "def f(x):\n    def body(c, v):\n        return c + v, None\n"
            "    return jax.lax.scan(body, 0.0, x)[0][None]",
            "out = over_x(f)(xs)",
        ],
        "carry-type",
        ("leaves as f32[] differing over x",),
        "jax.lax.pcast(0.0, ('x',), to='varying')",
    ),
    "a branch that is the same everywhere": (
        ["def f(x):\n    return jax.lax.cond(x[0] > 2, lambda: x.sum(), lambda: 0.0)[None]", "out = over_x(f)(xs)"],
        "branch-type",
        ("differing over x",),
        "jax.lax.pcast(0.0, ('x',), to='varying')",
    ),
}  # fmt: skip

TOLD = {
    "a size that does not divide": (
        [
            "batch = {'image': jnp.ones((8, 3)), 'label': jnp.ones(6)}",
            "jax.device_put(batch, NamedSharding(mesh, P('x')))",
        ],
        "sharding-misfit",
        ("axis 0 of `batch['label']` has size 6", "into 4 equal parts", "4 and 8 can"),
    ),
    "an argument that does not divide": (
        ["f = jax.jit(over_x(lambda a: a * 2))", "f(jnp.ones((7, 2)))"],
        "sharding-misfit",
        ("axis 0 of `jnp.ones((7, 2))` has size 7", "mesh axis 'x'"),
    ),
    "in_shardings that do not divide": (
        ["f = jax.jit(lambda p: p['w'], in_shardings=NamedSharding(mesh, P(None, 'x')))", "f({'w': jnp.ones((4, 6))})"],
        "sharding-misfit",
        ("axis 1 of `jnp.ones((4, 6))` has size 6",),
    ),
    "fewer specs than arguments": (
        ["f = jax.shard_map(lambda a, b: a, mesh=mesh, in_specs=(P('x'),), out_specs=P('x'))", "f(xs, xs)"],
        "sharding-misfit",
        ("`in_specs` has one entry, and 2 arguments were passed",),
    ),
    "more specs than results": (
        ["f = jax.shard_map(lambda a: (a, a), mesh=mesh, in_specs=P('x'), out_specs=(P('x'),) * 3)", "f(xs)"],
        "sharding-misfit",
        ("`out_specs` has 3 entries, and 2 results are returned",),
    ),
    "fewer shardings than arguments": (
        ["f = jax.jit(lambda a, b: a, in_shardings=(NamedSharding(mesh, P('x')),))", "f(xs, xs)"],
        "sharding-misfit",
        ("`in_shardings` has one entry, and 2 arguments were passed",),
    ),
    "a pmap over more rows than devices": (
        ["step = jax.pmap(lambda x: x * 2)", "step(jnp.ones((8, 2)))"],
        "sharding-misfit",
        ("has size 8, and there are 4 devices", "(4, 2, …)"),
    ),
    "a pmap over different lengths": (
        ["jax.pmap(lambda x, y: x * y)(jnp.ones((4, 2)), jnp.ones((3, 2)))"],
        "sharding-misfit",
        ("axis 0 differs between `jnp.ones((4, 2))` f32[4,2] and `jnp.ones((3, 2))` f32[3,2]",),
    ),
    "a product whose sum is cut": (
        [
            "full = jax.make_mesh((2, 2), ('data', 'model'), axis_types=(AxisType.Explicit,) * 2)",
            "with jax.set_mesh(full):\n    a = jax.device_put(jnp.ones((4, 4)), P(None, 'model'))\n"
            "    b = jax.device_put(jnp.ones((4, 4)), P('model', None))\n    a @ b",
        ],
        "sharding-ambiguous",
        ("`a @ b`", "summed over"),
    ),
    "a mesh with too few names": (
        ["jax.make_mesh((2, 2), ('x',))"],
        "mesh-size",
        ("the mesh has 2 axes and 1 name",),
    ),
    "an exchange of parts that are too small": (
        ["def f(x):\n    return jax.lax.all_to_all(x, 'x', 0, 0)", "over_x(f)(xs)"],
        "sharding-misfit",
        ("`x` has size 2 on each device, and is to be cut into 4 parts", "tiled=True"),
    ),
    "a collective under jit alone": (
        ["@jax.jit\ndef f(x):\n    return jax.lax.psum(x, 'batch')", "f(xs)"],
        "axis-name-unknown",
        ("no axis is called `batch`", "a plain sum"),
    ),
}  # fmt: skip


def mended(cells: list[str], rule: str, said: tuple[str, ...], fix: str) -> None:
    program = failed(IMPORTS, *cells)
    finding = program.finding
    assert finding.rule == rule
    assert all(each in finding.title for each in said), finding.title
    assert finding.fix == fix
    assert "out" in program.fixed().namespace


def told(cells: list[str], rule: str, said: tuple[str, ...]) -> None:
    finding = failed(IMPORTS, *cells).finding
    assert finding.rule == rule
    assert all(each in f"{finding.title} {finding.explanation}" for each in said), finding
    assert finding.fix == ""


CHECKS: dict[str, Check] = {
    **{name: partial(mended, *row) for name, row in MENDED.items()},
    **{name: partial(told, *row) for name, row in TOLD.items()},
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    return outcome_of_all(__file__)


@pytest.mark.parametrize("name", CHECKS)
def test_what_does_not_fit_the_devices_is_told(outcomes: dict[str, str], name: str):
    assert outcomes[name] == "ok", outcomes[name]


if __name__ == "__main__":
    say_outcomes(CHECKS)
