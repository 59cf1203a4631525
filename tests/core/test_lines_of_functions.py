"""Shapes beside lines, in every form that a function can have, and in those of Equinox and Flax."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from cells import run_cell
from flax import nnx

INLINED = sys.version_info >= (3, 12)
"""Comprehensions run in the frame of their function."""

JAX = {"jax": jax, "jnp": jnp, "np": np}


def test_methods_and_attributes_of_the_users_classes():
    cell = run_cell(
        """
        class Model:
            def __init__(self, size):
                self.w = jnp.ones((size, size))
            def __call__(self, x):
                self.last = x @ self.w
                return self.last
        model = Model(3)
        y = model(jnp.ones((2, 3)))
        """,
        JAX,
    )
    assert cell.hints("Model.__init__") == ["3 self.w: f32[3,3]"]
    assert cell.hints("Model.__call__") == [
        "4 self: {.w: f32[3,3]}",
        "4 x: f32[2,3]",
        "5 self.last: f32[2,3]",
        "6 return: f32[2,3]",
    ]
    assert "7 model: {.w: f32[3,3]}" in cell.hints("<module>")


def test_lambdas_and_nested_functions():
    cell = run_cell(
        """
        def outer(x):
            def inner(y):
                z = y + x
                return z
            return inner(x[0])
        first = lambda v: v[0]
        first(outer(jnp.ones((2, 3))))
        """,
        JAX,
    )
    assert cell.hints("outer.<locals>.inner") == ["2 y: f32[3]", "3 z: f32[2,3]", "4 return: f32[2,3]"]
    (argument, returned) = [hint for hint in cell.record.hints() if hint.function == "<lambda>"]
    assert (argument.span.column, returned.span.column) == (15, 18)


def test_comprehensions_show_what_they_build_and_their_variable():
    cell = run_cell(
        """
        def f(xs):
            rows = [
                x * 2
                for x in xs
            ]
            return rows
        f([jnp.ones(2), jnp.ones(3)])
        """,
        JAX,
    )
    assert "2 rows: {[0]: f32[2], [1]: f32[3]}" in cell.hints("f")
    inside = [str(hint) for hint in cell.of("f" if INLINED else "f.<locals>.<listcomp>", "x")]
    assert inside == ["x: f32[2]", "x: f32[3]"]


def test_a_comprehension_does_not_show_the_outer_variable_of_the_same_name():
    cell = run_cell("def f(x):\n    y = [x for x in range(3)]\n    return x\nf(jnp.ones(2))", JAX)
    assert [hint.role for hint in cell.of("f", "x")] == ["argument"]


def test_decorated_functions():
    cell = run_cell(
        """
        import functools
        def logged(f):
            @functools.wraps(f)
            def wrapper(*args, **kwargs):
                return f(*args, **kwargs)
            return wrapper
        @logged
        @jax.jit
        def work(x, *, bias):
            return x + bias
        work(jnp.ones(3), bias=jnp.ones(()))
        """,
        JAX,
    )
    assert cell.hints("work") == ["9 x: f32[3]", "9 bias: f32[]", "10 return: f32[3]"]
    assert "4 args: {[0]: f32[3]}" in cell.hints("logged.<locals>.wrapper")
    assert "4 kwargs: {['bias']: f32[]}" in cell.hints("logged.<locals>.wrapper")
    (call,) = cell.calls("work")
    assert call.span.line == 9


def test_generators_go_on_in_their_line():
    cell = run_cell(
        """
        def windows(x):
            for start in range(3):
                part = x[start:]
                got = yield part
        sizes = [w.size for w in windows(jnp.ones(4))]
        """,
        JAX,
    )
    assert [str(hint) for hint in cell.of("windows", "part")] == ["part: f32[4]", "part: f32[3]", "part: f32[2]"]


def test_what_is_sent_into_a_generator_is_shown():
    cell = run_cell("def g():\n    x = yield\n    yield x\ni = g(); next(i)\ni.send(jnp.ones(3))", JAX)
    assert cell.hints("g") == ["2 x: f32[3]"]


def test_recursion_has_a_call_for_each_shape():
    cell = run_cell("def halve(x):\n    h = x[::2]\n    return h if h.size < 2 else halve(h)\nhalve(jnp.ones(8))", JAX)
    assert [str(hint) for hint in cell.of("halve", "h")] == ["h: f32[4]", "h: f32[2]", "h: f32[1]"]
    assert len(cell.calls("halve")) == 3
    assert [str(hint) for hint in cell.of("halve", "return")] == ["return: f32[1]"] * 3


def test_coroutines():
    cell = run_cell(
        """
        import asyncio
        async def fetch(n):
            await asyncio.sleep(0)
            x = jnp.ones(n)
            return x
        async def both():
            a, b = await asyncio.gather(fetch(2), fetch(3))
            return a[0] + b
        asyncio.run(both())
        """,
        JAX,
    )
    assert sorted(str(hint) for hint in cell.of("fetch", "x")) == ["x: f32[2]", "x: f32[3]"]
    assert cell.hints("both") == ["7 a: f32[2]", "7 b: f32[3]", "8 return: f32[3]"]


def test_threads():
    cell = run_cell(
        """
        import threading
        def work(n):
            x = jax.jit(lambda a: a * 2)(jnp.ones(n))
        threads = [threading.Thread(target=work, args=(n,)) for n in (2, 3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """,
        JAX,
    )
    assert sorted(str(hint) for hint in cell.of("work", "x")) == ["x: f32[2]", "x: f32[3]"]


def test_globals_and_variables_of_an_outer_function():
    cell = run_cell(
        """
        def f():
            total = jnp.ones(2)
            def g():
                global shared
                nonlocal total
                shared = jnp.ones(3)
                total = jnp.ones(4)
            g()
        f()
        """,
        JAX,
    )
    assert cell.hints("f.<locals>.g") == ["6 shared: f32[3]", "7 total: f32[4]"]


def test_unpacking_and_walrus_and_loops():
    cell = run_cell(
        "(a, *b), c = (1, jnp.ones(2)), (d := jnp.ones(3))\nfor i, e in enumerate([jnp.ones(4)]): f = e", JAX
    )
    shown = {(hint.name, str(hint.leaves[0].aval)) for hint in cell.record.hints()}
    assert {("b", "f32[2]"), ("c", "f32[3]"), ("d", "f32[3]"), ("f", "f32[4]")} <= shown


def test_the_call_of_an_equinox_module():
    cell = run_cell(
        """
        class Net(eqx.Module):
            linear: eqx.nn.Linear
            def __init__(self, key):
                self.linear = eqx.nn.Linear(3, 2, key=key)
            def __call__(self, x):
                y = self.linear(x)
                return jax.nn.relu(y)
        @eqx.filter_jit
        @eqx.filter_value_and_grad
        def loss(net, xs):
            out = jax.vmap(net)(xs)
            return out.sum()
        net = Net(jax.random.key(0))
        value, grads = loss(net, jnp.ones((16, 3)))
        """,
        {**JAX, "eqx": eqx},
    )
    assert "5 x: f32[3] ×16 (vmap)" in cell.hints("Net.__call__")
    assert "6 y: f32[2] ×16 (vmap)" in cell.hints("Net.__call__")
    assert "5 self: {.linear.weight: f32[2,3], .linear.bias: f32[2]}" in cell.hints("Net.__call__")
    (call,) = cell.calls("Net.__call__")
    assert call.transforms == ("vmap ×16", "grad", "jit loss")
    assert "14 grads: {.linear.weight: f32[2,3], .linear.bias: f32[2]}" in cell.hints("<module>")


def test_the_call_of_an_nnx_module():
    cell = run_cell(
        """
        class Block(nnx.Module):
            def __init__(self, rngs):
                self.dense = nnx.Linear(4, 4, rngs=rngs)
            def __call__(self, x):
                h = self.dense(x)
                return x + h
        @nnx.jit
        def step(model, x):
            loss, grads = nnx.value_and_grad(lambda m: m(x).sum())(model)
            return loss
        loss = step(Block(nnx.Rngs(0)), jnp.ones((2, 4)))
        """,
        {**JAX, "nnx": nnx},
    )
    assert "5 h: f32[2,4]" in cell.hints("Block.__call__")
    assert "4 self: {.dense.bias: f32[4], .dense.kernel: f32[4,4]}" in cell.hints("Block.__call__")
    assert "3 self.dense: {.bias: f32[4], .kernel: f32[4,4]}" in cell.hints("Block.__init__")
    assert "9 grads: {['dense']['bias']: f32[4], ['dense']['kernel']: f32[4,4]}" in cell.hints("step")
    (call,) = cell.calls("Block.__call__")
    assert call.transforms == ("grad", "jit step")


def test_functions_of_earlier_cells_are_shown_under_their_own_file():
    earlier = run_cell("def helper(x):\n    y = x + 1\n    return y", JAX)
    later = run_cell("out = jax.jit(helper)(jnp.ones(5))", {**JAX, "helper": earlier.names["helper"]})
    (hint,) = later.of("helper", "y")
    assert (hint.span.file, str(hint)) == (earlier.file, "y: f32[5]")


def test_a_module_of_the_users_is_shown(tmp_path, monkeypatch):
    (tmp_path / "my_layers.py").write_text("def project(x):\n    y = x[..., 0]\n    return y\n")
    monkeypatch.syspath_prepend(tmp_path)
    cell = run_cell("import my_layers\nout = jax.jit(my_layers.project)(jnp.ones((4, 2)))", JAX)
    (hint,) = cell.of("project", "y")
    assert (hint.span.file, str(hint)) == (str(tmp_path / "my_layers.py"), "y: f32[4]")


def test_libraries_are_not_shown():
    cell = run_cell("import optax\nstate = optax.adam(1e-3).init({'w': jnp.ones(2)})", JAX)
    assert {call.function for call in cell.record.calls()} == {"<module>"}
