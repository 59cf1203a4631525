"""Real values beside lines: which runs are shown, and what of them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmagic
from jaxmagic.core.nojit.remaining import ABSTRACT
from jaxmagic.records import LineValue, NoJit, StillTraced


def nojit(call: Any, *only: Any, **options: Any) -> NoJit:
    with jaxmagic.nojit(*only, **options) as recorder:
        call()
    assert recorder.report is not None
    assert recorder.report.limits == ()
    assert recorder.report.nojit is not None
    return recorder.report.nojit


def of(record: NoJit, name: str) -> list[LineValue]:
    return [value for value in record.values if value.name == name]


def texts(record: NoJit, name: str) -> list[str]:
    return [f"{value.run} {value.kept}: {value.text}" for value in of(record, name)]


def first_line(function: Any) -> int:
    """Of a jitted function, its decorator's."""
    return function.__wrapped__.__code__.co_firstlineno


def test_a_small_value_is_shown_and_a_large_one_reduced():
    @jax.jit
    def f(x):
        y = x * 2
        z = jnp.ones((100, 100)) * x
        return y, z

    record = nojit(lambda: f(jnp.float32(3.0)))
    (y,), (z,) = of(record, "y"), of(record, "z")
    assert (y.text, str(y.aval), y.span.line) == ("6.", "f32[]", first_line(f) + 2)
    assert (z.text, str(z.aval)) == ("", "f32[100,100]")
    assert z.summary is not None
    assert (z.summary.min, z.summary.max, z.summary.count) == (3.0, 3.0, 10_000)


def test_of_many_runs_the_first_and_the_last_three_are_shown():
    def body(carry, t):
        carry = carry + t
        return carry, None

    record = nojit(lambda: lax.scan(body, jnp.float32(0), jnp.arange(100, dtype=jnp.float32)))
    carries = [value for value in of(record, "carry") if value.span.line == body.__code__.co_firstlineno + 1]
    assert [(value.run, value.kept) for value in carries] == [
        *((run, "first") for run in range(3)),
        *((run, "last") for run in range(97, 100)),
    ]
    assert [value.text for value in carries[-2:]] == ["4851.", "4950."]


def test_a_run_that_takes_another_branch_is_shown():
    @jax.jit
    def f(x):
        y = x * 2
        if x > 49:
            y = -x
        return y

    record = nojit(lambda: [f(jnp.float32(i)) for i in [*range(10), 50, *range(10)]])
    branch = [value for value in record.values if value.kept == "branch"]
    assert {value.run for value in branch} == {10}
    assert [value.text for value in branch if value.name == "y"] == ["100.", "-50."]


def test_turns_of_a_loop_in_a_function_are_runs():
    @jax.jit
    def f(x):
        for i in range(10):
            x = x + i
        return x

    record = nojit(lambda: f(jnp.float32(0)))
    stored = [value for value in of(record, "x") if value.span.line == first_line(f) + 3]
    assert [value.text for value in stored] == ["0.", "1.", "3.", "28.", "36.", "45."]


def test_pytrees_are_looked_into_and_attributes_too():
    class Box:
        scaled: Any

    @jax.jit
    def f(params):
        box = Box()
        box.scaled = params["w"] * 2
        return {"out": (box.scaled, params["w"])}

    record = nojit(lambda: [f({"w": jnp.arange(2.0)}), None][1])
    assert texts(record, "params['w']") == ["0 first: [0., 1.]"]
    assert texts(record, "box.scaled") == ["0 first: [0., 2.]"]
    assert texts(record, "return['out'][0]") == ["0 first: [0., 2.]"]


def test_nan_and_infinity_are_counted():
    @jax.jit
    def f(x):
        y = jnp.log(x)
        return y

    record = nojit(lambda: f(jnp.array([-1.0, 0.0, 1.0])))
    (y,) = of(record, "y")
    assert y.text == "[nan, -inf, 0.]"
    assert y.summary is not None
    assert (y.summary.nan, y.summary.neginf) == (1, 1)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "bool", "complex64", "float16", "uint32"])
def test_every_dtype_has_a_text(dtype: str):
    @jax.jit
    def f(x):
        y = x
        return y

    (y,) = of(nojit(lambda: f(jnp.ones(2, dtype))), "y")
    assert y.text
    assert y.aval.dtype == dtype


def test_keys_have_their_bits():
    @jax.jit
    def f(key):
        a, _ = jax.random.split(key)
        return a

    (a,) = of(nojit(lambda: f(jax.random.key(0))), "a")
    assert a.aval.dtype == "key<fry>"
    assert a.text.startswith("[")


def test_values_under_vmap_and_grad_are_those_behind_the_tracers():
    def f(x):
        y = x * 2
        return y.sum()

    record = nojit(lambda: (jax.vmap(f)(jnp.arange(6.0).reshape(3, 2)), jax.grad(f)(jnp.ones(2))))
    batch, gradient = of(record, "y")
    assert (str(batch.aval), batch.lanes, batch.text) == ("f32[2]", (3,), "[[0., 2.], [4., 6.], [8., 10.]]")
    assert (str(gradient.aval), gradient.lanes, gradient.text) == ("f32[2]", (), "[2., 2.]")


def test_donated_arrays_leave_their_values():
    step = jax.jit(lambda x: x + 1, donate_argnums=0)

    def f(x):
        y = x * 2
        z = step(y)
        return z

    record = nojit(lambda: f(jnp.ones(2)), excluded=[step])
    assert texts(record, "y") == ["0 first: [2., 2.]"]


def test_nothing_is_kept_alive():
    import gc
    import weakref

    @jax.jit
    def f(x):
        y = x + 1
        kept.append(weakref.ref(y))
        return x

    kept: list[Any] = []
    with jaxmagic.nojit():
        f(jnp.ones(2))
        gc.collect()
        assert kept[0]() is None


def test_leak_checking_stays_silent():
    with jax.checking_leaks():
        nojit(lambda: jax.vmap(jax.jit(lambda x: x * 2))(jnp.ones(3)))


def test_in_the_scope_of_some_functions_only_theirs_are_shown():
    @jax.jit
    def inside(x):
        y = x + 1
        return y

    @jax.jit
    def outside(x):
        z = x * 2
        return z

    record = nojit(lambda: (inside(jnp.ones(2)), outside(jnp.ones(2))), inside)
    assert {value.function.rpartition(".")[2] for value in record.values} == {"inside"}


# --------------------------------------------------------------------------------------- what stays traced


def traced(call: Any) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.function.rpartition(".")[2], each.transforms) for each in nojit(call).traced]


def square(x):
    return x * x


def test_vmap_and_grad_are_named_with_the_line_that_asked_for_them():
    record = nojit(lambda: jax.vmap(square)(jnp.ones(3)))
    (found,) = record.traced
    assert isinstance(found, StillTraced)
    assert (found.function, found.transforms) == ("square", ("vmap ×3",))
    assert found.call is not None
    assert found.call.line == test_vmap_and_grad_are_named_with_the_line_that_asked_for_them.__code__.co_firstlineno + 1
    assert traced(lambda: jax.grad(square)(1.0)) == [("square", ("grad",))]


def test_each_of_several_transformations_is_named():
    assert traced(lambda: jax.vmap(jax.grad(square))(jnp.ones(3))) == [("square", ("grad", "vmap ×3"))]


def test_eval_shape_is_named_and_checkpoint_and_custom_rules_meet_real_values():
    assert traced(lambda: jax.checkpoint(lambda x: x * 2)(1.0)) == []
    assert traced(lambda: jax.eval_shape(lambda x: x * 2, 1.0)) == [("<lambda>", (ABSTRACT,))]

    @jax.custom_vjp
    def custom(x):
        return x * 2

    def forward(x):
        return x * 2, None

    custom.defvjp(forward, lambda _, g: (g,))
    assert traced(lambda: jax.grad(custom)(1.0)) == []


def test_what_a_compiled_function_traces_is_not_left_over():
    assert nojit(lambda: jax.jit(jax.vmap(square))(jnp.ones(3)), lambda: 0).traced == ()


# ---------------------------------------------------------------------------------------------- loops


def both(call: Any) -> None:
    """What a loop gives in Python is what it gives compiled."""
    expected = call()
    with jaxmagic.nojit() as recorder:
        found = call()
    assert recorder.report is not None
    assert recorder.report.nojit is not None
    for left, right in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5)
        assert (left.shape, left.dtype, left.weak_type) == (right.shape, right.dtype, right.weak_type)


XS, KEY = jnp.arange(5.0), jax.random.key(0)
LOOPS = {
    "scan": lambda: lax.scan(lambda c, x: (c + x, c * x), 0.0, XS),
    "scan backwards": lambda: lax.scan(lambda c, x: (c + x, c * x), 0.0, XS, reverse=True),
    "scan without xs": lambda: lax.scan(lambda c, _: (c * 2, c), 1.0, None, length=4),
    "scan by keywords": lambda: lax.scan(f=lambda c, x: (c + x["a"], None), init=0.0, xs={"a": XS}, unroll=2),
    "scan of a pytree": lambda: lax.scan(lambda c, x: ((c[0] + x, c[1]), {"y": x}), (0.0, jnp.ones(2)), XS),
    "scan of weak numbers": lambda: lax.scan(lambda c, x: (c * 2, (c * 3, 1.0, c + x)), 1, XS),
    "scan in a scan": lambda: lax.scan(lambda c, x: (lax.scan(lambda d, y: (d + y * x, d), c, XS)[0], c), 0.0, XS),
    "while": lambda: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, 1.0)),
    "fori": lambda: lax.fori_loop(0, 5, lambda i, c: c + i, 0.0),
    "fori over nothing": lambda: lax.fori_loop(0, 0, lambda i, c: c + i, 0.0),
    "map": lambda: lax.map(lambda x: x * 2, XS),
    "map over nothing": lambda: lax.map(lambda x: x * 2, jnp.zeros(0)),
    "cond": lambda: lax.cond(XS.sum() > 3, lambda x: x * 2, lambda x: x, XS),
    "cond by keywords": lambda: lax.cond(XS.sum() > 30, true_fun=lambda x: x * 2, false_fun=lambda x: x, operand=XS),
    "cond of Python numbers": lambda: lax.cond(
        True, lambda: {"a": 1, "b": (2.0, True)}, lambda: {"a": 2, "b": (3.0, False)}
    ),
    "switch of Python numbers": lambda: lax.switch(5, [lambda: 1, lambda: 2]),
    "switch": lambda: lax.switch(1, [lambda x: x, lambda x: x * 2], XS),
    "associative scan": lambda: lax.associative_scan(jnp.add, XS),
    "checkpoint": lambda: jax.value_and_grad(jax.checkpoint(lambda x: {"y": jnp.sin(x) ** 2}["y"]))(0.5),
    "checkpoint with a policy": lambda: jax.grad(
        jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=jax.checkpoint_policies.everything_saveable)
    )(0.5),
    "checkpoint by keywords": lambda: jax.checkpoint(lambda x, *, n: x**n, static_argnums=())(XS, n=2.0),
    "checkpoint with a static argument": lambda: jax.checkpoint(lambda x, n: x[:n], static_argnums=1)(XS, 2),
    "scan of a checkpoint": lambda: jax.grad(
        lambda c: lax.scan(jax.checkpoint(lambda c, x: (jnp.sin(c) + x, c)), c, XS)[1].sum()
    )(0.5),
    "vmap of a checkpoint": lambda: jax.vmap(jax.grad(jax.checkpoint(lambda x: jnp.sin(x) * 2)))(XS),
    "keys": lambda: jax.random.key_data(lax.scan(lambda k, _: (jax.random.split(k)[0], k), KEY, length=3)[1]),
    "checkpoint in a checkpoint": lambda: jax.grad(jax.checkpoint(lambda x: jax.checkpoint(jnp.sin)(x) * x))(0.5),
    "hessian of a checkpoint": lambda: jax.hessian(jax.checkpoint(lambda x: (jnp.sin(x) * x).sum()))(XS),
    "jvp of a checkpoint": lambda: jax.jvp(jax.checkpoint(jnp.sin), (XS,), (XS,)),
    "jvp of a while": lambda: jax.jvp(lambda x: lax.while_loop(lambda c: c < 9, lambda c: c * 2, x), (3.0,), (1.0,)),
    "grad of a fori": lambda: jax.grad(lambda x: lax.fori_loop(0, 4, lambda i, c: c * x, 1.0))(2.0),
    "grad of a cond": lambda: jax.grad(lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x))(2.0),
    "hessian of a scan": lambda: jax.hessian(lambda c: lax.scan(lambda c, x: (jnp.tanh(c * x), None), c, XS)[0])(0.3),
    "map in batches": lambda: lax.map(lambda x: x * 2, jnp.arange(10.0), batch_size=3),
    "scan over keys": lambda: lax.scan(lambda c, k: (c + jax.random.normal(k), c), 0.0, jax.random.split(KEY, 4)),
    "scan of booleans": lambda: lax.scan(lambda c, x: (~c, c), True, XS),
    "scan of NumPy arrays": lambda: lax.scan(lambda c, x: (c + x, x), np.float32(0), np.arange(4, dtype=np.int32)),
    "scan of nothing": lambda: lax.scan(lambda c, x: (None, x), None, XS),
    "a root": lambda: lax.custom_root(
        lambda x: x**3 - 2.0,
        1.0,
        lambda f, x: lax.fori_loop(0, 20, lambda _, x: x - f(x) / (3 * x * x), x),
        lambda g, y: y / g(1.0),
    ),
    "everything at once": lambda: jax.jit(
        jax.vmap(jax.grad(lambda c: lax.scan(jax.jit(lambda c, x: (jnp.sin(c) * x, c)), c, XS)[0]))
    )(XS),
    "grad of a scan": lambda: jax.grad(lambda c: lax.scan(lambda c, x: (jnp.sin(c) + x, c), c, XS)[1].sum())(0.5),
    "vmap of a scan": lambda: jax.vmap(lambda c: lax.scan(lambda c, x: (c + x, c), c, XS))(XS),
    "vmap of a cond": lambda: jax.vmap(lambda x: lax.cond(x > 2, lambda x: x * 2, lambda x: x, x))(XS),
    "vmap of a while": lambda: jax.vmap(lambda x: lax.while_loop(lambda c: c < 5, lambda c: c + 1, x))(XS),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_in_python_gives_what_it_gives_compiled(name: str):
    both(LOOPS[name])


def test_a_scan_with_wrong_arguments_raises_what_jax_raises():
    with pytest.raises(TypeError), jaxmagic.nojit():
        lax.scan()  # pyright: ignore[reportCallIssue]
    with pytest.raises(ValueError, match="scan got values with different leading axis sizes"), jaxmagic.nojit():
        lax.scan(lambda c, x: (c, x), 0.0, (jnp.ones(2), jnp.ones(3)))


def test_a_carry_that_jit_would_refuse_is_told():
    with jaxmagic.nojit() as recorder:
        lax.scan(lambda c, x: (c.astype(jnp.bfloat16), x), jnp.float32(0), XS)
    assert recorder.report is not None
    assert recorder.report.limits == (
        "a scan's carry goes in as f32[] and comes out as bf16[]: with jit that is an error",
    )


def test_costs_are_told_by_line():
    @jax.jit
    def f(x):
        cheap = x + 1
        for _ in range(50):
            x = x * 2
        return x + cheap

    record = nojit(lambda: f(jnp.ones(3)))
    first = first_line(f)
    by_line = {cost.span.line - first: cost.operations for cost in record.costs if cost.span.file == __file__}
    assert (by_line[2], by_line[4]) == (1, 50)
    assert record.operations >= 52
    assert sum(cost.seconds for cost in record.costs) > 0
