"""Every nest of transformations: exactly which events come, in which order, with which loop address."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from tests.core.tapping import Event, tap

Nest = Callable[[], tuple[Callable[..., Any], tuple[Any, ...], list[tuple]]]
NESTS: dict[str, Nest] = {}
XS = jnp.arange(1.0, 4.0)
SUMS = [("d", (0,), 1.0), ("d", (1,), 3.0), ("d", (2,), 6.0)]
"""Running sums of `XS`, one for each step of a scan."""


def nest(function: Nest) -> Nest:
    NESTS[function.__name__] = function
    return function


def running_sum(c, x):
    d = c + x
    return d, d


def doubled_sum(c, x):
    e = c * 2
    c, _ = lax.scan(running_sum, e, jnp.arange(2.0))
    return c, c


NESTED = [
    ("d", (0, 0), 2.0),
    ("d", (0, 1), 3.0),
    ("e", (0,), 2.0),
    ("d", (1, 0), 6.0),
    ("d", (1, 1), 7.0),
    ("e", (1,), 6.0),
]
"""Two steps of `doubled_sum` from 1: a frame's values come when it ends, so the inner loop's come first."""


def total(c, xs=XS):
    return lax.scan(running_sum, c, xs)[0]


def square(x):
    d = x * 3
    return d * d


@nest
def jit():
    return jax.jit(square), (2.0,), [("d", (), 6.0)]


@nest
def jit_in_jit():
    inner = jax.jit(square)
    return jax.jit(lambda x: inner(x) + 1), (2.0,), [("d", (), 6.0)]


@nest
def inner_jit_called_twice():
    inner = jax.jit(square)
    return jax.jit(lambda x: inner(inner(x))), (1.0,), [("d", (), 3.0), ("d", (), 27.0)]


@nest
def inner_jit_in_a_scan():
    inner = jax.jit(square)
    body = lambda c, x: (inner(x), None)
    return jax.jit(lambda: lax.scan(body, 0.0, XS)), (), [("d", (i,), 3.0 * (i + 1)) for i in range(3)]


@nest
def scan():
    return jax.jit(lambda c: lax.scan(running_sum, c, XS)), (0.0,), SUMS


@nest
def scan_outside_of_jit():
    return lambda c: lax.scan(running_sum, c, XS), (0.0,), SUMS


@nest
def reversed_scan():
    expected = [("d", (2,), 3.0), ("d", (1,), 5.0), ("d", (0,), 6.0)]
    return jax.jit(lambda c: lax.scan(running_sum, c, XS, reverse=True)), (0.0,), expected


@nest
def unrolled_scan():
    return jax.jit(lambda c: lax.scan(running_sum, c, XS, unroll=2)), (0.0,), SUMS


@nest
def fully_unrolled_scan():
    return jax.jit(lambda c: lax.scan(running_sum, c, XS, unroll=True)), (0.0,), SUMS


@nest
def nested_scan():
    return jax.jit(lambda c: lax.scan(doubled_sum, c, None, length=2)), (1.0,), NESTED


@nest
def the_same_body_scanned_twice():
    return jax.jit(lambda c: total(total(c))), (0.0,), [*SUMS, ("d", (0,), 7.0), ("d", (1,), 9.0), ("d", (2,), 12.0)]


@nest
def fori_loop():
    body = lambda i, c: running_sum(c, 1.0)[0]
    return jax.jit(lambda c: lax.fori_loop(5, 8, body, c)), (0.0,), [("d", (i,), i + 1.0) for i in range(3)]


@nest
def fori_loop_of_unknown_length():
    body = lambda i, c: running_sum(c, 1.0)[0]
    return jax.jit(lambda c, n: lax.fori_loop(0, n, body, c)), (0.0, 3), [("d", (i,), i + 1.0) for i in range(3)]


@nest
def while_loop():
    def condition(c):
        k = c * 1
        return k < 3

    expected = []
    for i in range(3):
        expected += [("k", (i,), float(i)), ("d", (i,), i + 1.0)]
    body = lambda c: running_sum(c, 1.0)[0]
    return jax.jit(lambda c: lax.while_loop(condition, body, c)), (0.0,), [*expected, ("k", (3,), 3.0)]


@nest
def scan_in_a_while_loop():
    body = lambda c: total(c, jnp.ones(2))
    expected = [("d", (i, j), 2.0 * i + j + 1) for i in range(2) for j in range(2)]
    return jax.jit(lambda c: lax.while_loop(lambda c: c < 3, body, c)), (0.0,), expected


@nest
def map_over_rows():
    return jax.jit(lambda xs: lax.map(square, xs)), (XS,), [("d", (i,), 3.0 * (i + 1)) for i in range(3)]


@nest
def cond_in_a_scan():
    body = lambda c, x: (lax.cond(x > 1.5, lambda c: running_sum(c, x)[0], lambda c: c, c), None)
    return jax.jit(lambda c: lax.scan(body, c, XS)), (0.0,), [("d", (1,), 2.0), ("d", (2,), 5.0)]


@nest
def switch():
    branches = [lambda x: x, square, lambda x: -x]
    return jax.jit(lambda i, x: lax.switch(i, branches, x)), (1, 2.0), [("d", (), 6.0)]


@nest
def grad():
    return jax.jit(jax.grad(square)), (2.0,), [("d", (), 6.0)]


@nest
def grad_outside_of_jit():
    return jax.grad(square), (2.0,), [("d", (), 6.0)]


@nest
def grad_of_jit():
    return jax.grad(jax.jit(square)), (2.0,), [("d", (), 6.0)]


@nest
def value_and_grad():
    return jax.jit(jax.value_and_grad(square)), (2.0,), [("d", (), 6.0)]


@nest
def jvp():
    return jax.jit(lambda x: jax.jvp(square, (x,), (1.0,))), (2.0,), [("d", (), 6.0)]


@nest
def vjp():
    return jax.jit(lambda x: jax.vjp(square, x)[1](1.0)), (2.0,), [("d", (), 6.0)]


@nest
def linearize():
    return lambda x: jax.linearize(square, x)[1](1.0), (2.0,), [("d", (), 6.0)]


@nest
def hessian():
    return jax.jit(jax.hessian(square)), (2.0,), [("d", (), 6.0)]


@nest
def jacfwd():
    return jax.jit(jax.jacfwd(square)), (2.0,), [("d", (), 6.0)]


@nest
def grad_of_scan():
    return jax.jit(jax.grad(total)), (0.0,), SUMS


@nest
def grad_of_nested_scan():
    return jax.jit(jax.grad(lambda c: lax.scan(doubled_sum, c, None, length=2)[0])), (1.0,), NESTED


@nest
def grad_of_a_loop_invariant():
    def body(c, x, w):
        d = w * 2
        return c + d * x, None

    loss = lambda w: lax.scan(lambda c, x: body(c, x, w), 0.0, XS)[0]
    return jax.jit(jax.grad(loss)), (5.0,), [("d", (i,), 10.0) for i in range(3)]


@nest
def grad_of_cond():
    return jax.jit(jax.grad(lambda x: lax.cond(x > 0, square, lambda x: x, x))), (2.0,), [("d", (), 6.0)]


@nest
def remat():
    return jax.jit(jax.grad(jax.checkpoint(square))), (2.0,), [("d", (), 6.0)]


@nest
def remat_that_saves_dots():
    policy = jax.checkpoint_policies.dots_saveable
    return jax.jit(jax.grad(jax.checkpoint(square, policy=policy))), (2.0,), [("d", (), 6.0)]


@nest
def remat_that_saves_everything():
    policy = jax.checkpoint_policies.everything_saveable
    return jax.jit(jax.grad(jax.checkpoint(square, policy=policy))), (2.0,), [("d", (), 6.0)]


@nest
def scan_of_remat():
    body = jax.checkpoint(running_sum)
    return jax.jit(jax.grad(lambda c: lax.scan(body, c, XS)[0])), (0.0,), SUMS


@nest
def remat_of_scan():
    return jax.jit(jax.grad(jax.checkpoint(total))), (0.0,), SUMS


@nest
def custom_jvp():
    function = jax.custom_jvp(square)
    function.defjvp(lambda p, t: (square(*p), t[0]))
    return jax.jit(function), (2.0,), [("d", (), 6.0)]


@nest
def grad_of_custom_jvp():
    function = jax.custom_jvp(square)
    function.defjvp(lambda p, t: (square(*p), t[0]))
    return jax.jit(jax.grad(function)), (2.0,), [("d", (), 6.0)]


def with_custom_vjp():
    function = jax.custom_vjp(square)

    def forward(x):
        return square(x), x

    def backward(x, g):
        k = g * x
        return (k,)

    function.defvjp(forward, backward)
    return function


@nest
def custom_vjp():
    return jax.jit(with_custom_vjp()), (2.0,), [("d", (), 6.0)]


@nest
def grad_of_custom_vjp():
    return jax.jit(jax.grad(with_custom_vjp())), (2.0,), [("d", (), 6.0), ("k", (), 2.0)]


@nest
def scan_of_custom_vjp_under_grad():
    function = with_custom_vjp()
    loss = lambda x: lax.scan(lambda c, y: (c + function(x * y), None), 0.0, XS[:2])[0]
    expected = [("d", (0,), 3.0), ("d", (1,), 6.0), ("k", (1,), 2.0), ("k", (0,), 1.0)]
    return jax.jit(jax.grad(loss)), (1.0,), expected


@nest
def vmap():
    return jax.jit(jax.vmap(square)), (XS,), [("d", (), [3.0, 6.0, 9.0])]


@nest
def vmap_outside_of_jit():
    return jax.vmap(square), (XS,), [("d", (), [3.0, 6.0, 9.0])]


@nest
def vmap_of_jit():
    return jax.vmap(jax.jit(square)), (XS,), [("d", (), [3.0, 6.0, 9.0])]


@nest
def vmap_in_vmap():
    function = jax.vmap(jax.vmap(lambda x, y: square(x + y), (None, 0)), (0, None))
    return jax.jit(function), (jnp.arange(2.0), XS), [("d", (), [[3.0, 6.0, 9.0], [6.0, 9.0, 12.0]])]


@nest
def vmap_over_another_axis():
    function = jax.vmap(lambda x: square(x).sum(), in_axes=1)
    return jax.jit(function), (jnp.arange(6.0).reshape(2, 3),), [("d", (), [[0.0, 9.0], [3.0, 12.0], [6.0, 15.0]])]


@nest
def vmap_of_something_unbatched():
    function = jax.vmap(lambda x, w: x * square(w), in_axes=(0, None))
    return jax.jit(function), (XS, 2.0), [("d", (), 6.0)]


@nest
def vmap_with_a_named_axis():
    def normalized(x):
        d = x / lax.psum(x, "i")
        return d

    return jax.jit(jax.vmap(normalized, axis_name="i")), (jnp.array([1.0, 3.0]),), [("d", (), [0.25, 0.75])]


@nest
def vmap_of_scan():
    expected = [("d", (i,), [SUMS[i][2], SUMS[i][2] + 1]) for i in range(3)]
    return jax.jit(jax.vmap(total, in_axes=(0, None))), (jnp.arange(2.0), XS), expected


@nest
def vmap_of_grad():
    return jax.jit(jax.vmap(jax.grad(square))), (XS,), [("d", (), [3.0, 6.0, 9.0])]


@nest
def grad_of_vmap():
    return jax.jit(jax.grad(lambda xs: jax.vmap(square)(xs).sum())), (XS,), [("d", (), [3.0, 6.0, 9.0])]


@nest
def scan_of_vmap():
    body = lambda c, x: (c + jax.vmap(square)(x).sum(), None)
    return jax.jit(lambda c: lax.scan(body, c, jnp.ones((2, 2)))), (0.0,), [("d", (i,), [3.0, 3.0]) for i in range(2)]


@nest
def vmap_of_cond():
    choose = lambda x: lax.cond(x > 1.5, square, lambda x: running_sum(x, 10.0)[0], x)
    expected = [("d", (), [11.0, 12.0, 13.0], (True, False, False)), ("d", (), [3.0, 6.0, 9.0], (False, True, True))]
    return jax.jit(jax.vmap(choose)), (XS,), expected


@nest
def vmap_of_a_cond_that_all_lanes_agree_on():
    choose = lambda p, x: lax.cond(p, square, lambda x: x, x)
    return jax.jit(jax.vmap(choose, (None, 0))), (True, XS), [("d", (), [3.0, 6.0, 9.0])]


@nest
def vmap_in_vmap_of_cond():
    choose = lambda p, x: lax.cond(p, square, lambda x: x, x)
    function = jax.vmap(jax.vmap(choose, (0, None)), (None, 0))
    expected = [("d", (), [[3.0, 3.0], [6.0, 6.0]], (True, False, True, False))]
    return jax.jit(function), (jnp.array([True, False]), jnp.array([1.0, 2.0])), expected


@nest
def vmap_of_while_loop():
    def condition(c):
        k = c * 1
        return k < 4

    expected = [
        ("k", (0,), [0.0, 3.0]),
        ("d", (0,), [2.0, 5.0]),
        ("k", (1,), [2.0, 5.0]),
        ("d", (1,), [4.0, 7.0], (True, False)),
        ("k", (2,), [4.0, 5.0], (True, False)),
    ]
    loop = lambda c: lax.while_loop(condition, lambda c: running_sum(c, 2.0)[0], c)
    return jax.jit(jax.vmap(loop)), (jnp.array([0.0, 3.0]),), expected


@nest
def vmap_of_a_scan_in_a_while_loop():
    loop = lambda c: lax.while_loop(lambda c: c < 4, lambda c: total(c, jnp.ones(2)), c)
    expected = [
        ("d", (0, 0), [1.0, 4.0]),
        ("d", (0, 1), [2.0, 5.0]),
        ("d", (1, 0), [3.0, 6.0], (True, False)),
        ("d", (1, 1), [4.0, 7.0], (True, False)),
    ]
    return jax.jit(jax.vmap(loop)), (jnp.array([0.0, 3.0]),), expected


@nest
def associative_scan():
    def add(a, b):
        d = a + b
        return d

    return jax.jit(lambda xs: lax.associative_scan(add, xs)), (XS,), [("d", (), [3.0]), ("d", (), [6.0])]


@nest
def comprehension():
    return jax.jit(lambda x: sum([square(x * i) for i in range(3)])), (1.0,), [("d", (), 3.0 * i) for i in range(3)]


@nest
def jacrev():
    return jax.jit(jax.jacrev(square)), (2.0,), [("d", (), 6.0)]


@nest
def value_and_grad_with_aux():
    return jax.jit(jax.value_and_grad(lambda x: (square(x), x), has_aux=True)), (2.0,), [("d", (), 6.0)]


@nest
def hessian_of_scan():
    return jax.jit(jax.hessian(lambda c: total(c) ** 2)), (0.0,), SUMS


@nest
def jvp_of_while_loop():
    loop = lambda c: lax.while_loop(lambda c: c < 3, lambda c: running_sum(c, 1.0)[0], c)
    return jax.jit(lambda c: jax.jvp(loop, (c,), (1.0,))), (0.0,), [("d", (i,), i + 1.0) for i in range(3)]


@nest
def grad_of_fori_loop():
    loop = lambda c: lax.fori_loop(0, 3, lambda i, c: running_sum(c, 1.0)[0], c)
    return jax.jit(jax.grad(loop)), (0.0,), [("d", (i,), i + 1.0) for i in range(3)]


@nest
def grad_of_unrolled_reversed_scan():
    scan = lambda c: lax.scan(running_sum, c, XS, reverse=True, unroll=2)[0]
    return jax.jit(jax.grad(scan)), (0.0,), [("d", (2,), 3.0), ("d", (1,), 5.0), ("d", (0,), 6.0)]


@nest
def scan_of_remat_that_saves_nothing():
    body = jax.checkpoint(running_sum, policy=jax.checkpoint_policies.nothing_saveable)
    return jax.jit(jax.grad(lambda c: lax.scan(body, c, XS)[0] ** 2)), (0.0,), SUMS


@nest
def remat_in_remat():
    return jax.jit(jax.grad(jax.checkpoint(lambda x: jax.checkpoint(square)(x) ** 2))), (2.0,), [("d", (), 6.0)]


@nest
def scan_in_a_cond():
    choose = lambda p, c: lax.cond(p, total, lambda c: c, c)
    return jax.jit(choose), (True, 0.0), SUMS


@nest
def cond_in_a_while_loop():
    body = lambda c: lax.cond(c < 2, lambda c: running_sum(c, 1.0)[0], lambda c: c + 1, c)
    return jax.jit(lambda c: lax.while_loop(lambda c: c < 3, body, c)), (0.0,), [("d", (0,), 1.0), ("d", (1,), 2.0)]


@nest
def vmap_of_switch():
    branches = [lambda x: x, square]
    function = jax.vmap(lambda i, x: lax.switch(i, branches, x))
    return jax.jit(function), (jnp.array([1, 0]), jnp.array([1.0, 2.0])), [("d", (), [3.0, 6.0], (True, False))]


@nest
def vmap_of_grad_of_scan():
    expected = [("d", (i,), [SUMS[i][2], SUMS[i][2] + 1]) for i in range(3)]
    return jax.jit(jax.vmap(jax.grad(lambda c: total(c) ** 2))), (jnp.arange(2.0),), expected


@nest
def vmap_of_custom_vjp_under_grad():
    function = with_custom_vjp()
    expected = [("d", (), [3.0, 6.0, 9.0]), ("k", (), [1.0, 2.0, 3.0])]
    return jax.jit(jax.grad(lambda xs: jax.vmap(function)(xs).sum())), (XS,), expected


@nest
def grad_of_jit_in_vmap_in_scan():
    inner = jax.jit(square)
    body = lambda c, x: (c + jax.vmap(inner)(x * c).sum(), None)
    loss = lambda c: lax.scan(body, c, jnp.ones((2, 2)))[0]
    return jax.jit(jax.grad(loss)), (1.0,), [("d", (0,), [3.0, 3.0]), ("d", (1,), [57.0, 57.0])]


@nest
def linearized_scan():
    return jax.jit(lambda c: jax.linearize(total, c)[1](1.0)), (0.0,), SUMS


@nest
def map_in_batches():
    expected = [("d", (0,), [3.0, 6.0]), ("d", (), [9.0])]
    return jax.jit(lambda xs: lax.map(square, xs, batch_size=2)), (XS,), expected


@nest
def jacobian_in_a_scan():
    body = lambda c, x: (c + jax.jacfwd(square)(x), None)
    return jax.jit(lambda: lax.scan(body, 0.0, XS)[0]), (), [("d", (i,), 3.0 * (i + 1)) for i in range(3)]


@nest
def custom_linear_solve():
    def matvec(x):
        d = x * 2
        return d

    solve = lambda b: lax.custom_linear_solve(matvec, b, lambda matvec, b: b / 2, symmetric=True)
    return jax.jit(solve), (4.0,), []


@nest
def method():
    class Model:
        scale = 3.0

        def __call__(self, x):
            d = x * self.scale
            return d

    return jax.jit(Model().__call__), (2.0,), [("d", (), 6.0)]


UNORDERED = ("vmap_of_custom_vjp_under_grad", "map_in_batches")
"""Under vmap JAX allows no order among taps: XLA runs those of different lines as it likes."""


@pytest.mark.parametrize("name", NESTS)
def test_every_event_of_a_nest_comes_in_order_with_its_loop_address(name: str):
    function, arguments, expected = NESTS[name]()
    plain = function(*arguments)
    tapped = tap("d e k", NESTS[name]()[0], *arguments)
    assert tapped.error is None
    events = [Event(*each) for each in expected]
    assert (sorted(tapped.events, key=str) == sorted(events, key=str)) if name in UNORDERED else tapped.events == events
    assert jax.tree.all(jax.tree.map(jnp.array_equal, tapped.result, plain))
    assert tapped.limits == ()
