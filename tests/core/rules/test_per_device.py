"""Prints that each of several devices makes for itself."""

from functools import partial

import pytest
from observed_cells import watched
from several_devices import IMPORTS, Check, outcome_of_all, say_outcomes

PRINTS = {
    "in a compiled shard_map, and outside": (
        "def f(x):\n    jax.debug.print('x={}', x)\n    return x\njax.jit(over_x(f))(xs);\njax.jit(lambda x: x)(xs);",
        "jax.debug.print('device {d}: x={}', x, d=jax.lax.axis_index('x'))",
        "x: f32[2] of f32[8] on each device",
    ),
    "in a shard_map that is not compiled": (
        "@over_x\ndef f(x):\n    jax.debug.print('{d}', d=x)\n    return x\nf(xs);",
        "jax.debug.print('device {device}: {d}', d=x, device=jax.lax.axis_index('x'))",
        "x: f32[2] on each device",
    ),
    "in a pmap, whose axis gets a name": (
        "def f(x):\n    y = x * 2\n    jax.debug.print(f'{x.shape} {{y}}', y=y)\n    return y\n"
        "out = jax.pmap(f)(xs.reshape(4, 2))",
        "jax.pmap(f, axis_name='devices')",
        "y: f32[2] on each device",
    ),
    "in a lambda under pmap": (
        "out = jax.pmap(lambda x: [jax.debug.print('{}', x), x][1])(xs.reshape(4, 2))",
        "jax.pmap(lambda x: [jax.debug.print('device {d}: {}', x, d=jax.lax.axis_index('devices')), x][1], "
        "axis_name='devices')",
        "x: f32[2] on each device",
    ),
    "in a method, over two axes": (
        "class Model:\n    def layer(self, w, x):\n        h = x @ w\n"
        "        jax.debug.print('h {}', h)\n        return h\n"
        "@jax.jit\n@partial(jax.shard_map, mesh=square, in_specs=(P(), P('data')), out_specs=P('data'))\n"
        "def apply(w, x):\n    return Model().layer(w, x)\napply(jnp.ones((3, 3)), jnp.ones((4, 3)));",
        "jax.debug.print('device {d}: h {}', h, d=jax.lax.axis_index(('data', 'model')))",
        "h: f32[2,3] on each device",
    ),
    "in a scan, under grad": (
        "def body(c, v):\n    jax.debug.print('c {}', c)\n    return c * v, None\n"
        "def loss(w, x):\n    return jax.lax.psum(jax.lax.scan(body, w * x[0], x)[0], 'x')\n"
        "step = jax.jit(jax.grad(jax.shard_map(loss, mesh=mesh, in_specs=(P(), P('x')), out_specs=P())))\n"
        "for w in range(3):\n    step(w + 1.0, xs)",
        "jax.debug.print('device {d}: c {}', c, d=jax.lax.axis_index('x'))",
        "printed: c ",  # which of the devices come first is not said
    ),
}

QUIET = {
    "the device is shown": (
        "def f(x):\n    jax.debug.print('{}: {}', jax.lax.axis_index('x'), x)\n    return x\nover_x(f)(xs);"
    ),
    "the device is shown by a name": (
        "def log(rank, x):\n    jax.debug.print('{r}: {x}', r=rank, x=x)\n"
        "def f(x):\n    d = jax.lax.axis_index('x')\n    log(d, x)\n    return x\njax.jit(over_x(f))(xs);"
    ),
    "one device prints": (
        "def f(x):\n    first = jax.lax.axis_index('x') == 0\n"
        "    jax.lax.cond(first, lambda: jax.debug.print('{}', x), lambda: None)\n    return x\n"
        "g = jax.jit(over_x(f))\nfor _ in range(4):\n    g(xs)"
    ),
    "a sharded array under jit": (
        "@jax.jit\ndef f(x):\n    jax.debug.print('{}', x)\n    return x\n"
        "for _ in range(4):\n    f(jax.device_put(xs, NamedSharding(mesh, P('x'))))"
    ),
    "a mesh of one device": (
        "one = jax.make_mesh((1,), ('x',), axis_types=(AxisType.Auto,))\n"
        "def f(x):\n    jax.debug.print('{}', x)\n    return x\n"
        "jax.jit(jax.shard_map(f, mesh=one, in_specs=P('x'), out_specs=P('x')))(xs);"
    ),
    "lanes of a vmap": (
        "def f(x):\n    jax.debug.print('{}', x)\n    return x / jax.lax.psum(x, 'i')\n"
        "jax.jit(jax.vmap(f, axis_name='i'))(xs + 1);"
    ),
}


def labels(cell: str, fix: str, evidence: str) -> None:
    program = watched(IMPORTS, cell + "\njax.effects_barrier()")
    finding = program.found("print-per-device")
    assert fix in finding.fix, finding.fix
    assert any(evidence in each.text for each in finding.evidence), finding.evidence
    fixed = program.fixed("print-per-device")
    shown = {line.text[:8] for line in fixed.report.printed}
    assert {"device 0", "device 1", "device 2", "device 3"} <= shown, shown
    assert fixed.report.failure is None
    assert fixed.rules == [], fixed.rules


def says_nothing(cell: str) -> None:
    program = watched(IMPORTS, cell + "\njax.effects_barrier()")
    assert program.report.failure is None, program.report.failure
    assert program.report.printed
    assert program.rules == [], program.rules


CHECKS: dict[str, Check] = {
    **{f"a print {name}": partial(labels, *row) for name, row in PRINTS.items()},
    **{f"no finding where {name}": partial(says_nothing, cell) for name, cell in QUIET.items()},
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    return outcome_of_all(__file__)


@pytest.mark.parametrize("name", CHECKS)
def test_a_print_of_several_devices_is_labelled(outcomes: dict[str, str], name: str):
    assert outcomes[name] == "ok", outcomes[name]


if __name__ == "__main__":
    say_outcomes(CHECKS)
