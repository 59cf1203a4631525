"""Rare corners of JAX under every kind of tap: the program's result is its own, and nothing fails because of us."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from jax.experimental import checkify, io_callback
from jax.experimental.ode import odeint

from tests.core.tapped_programs import body
from tests.core.tapping import same, tap

XS = jnp.arange(1.0, 4.0)
KINDS: list[dict[str, Any]] = [{"grad": True, "stop_when": "nan"}, {"when": "nan"}, {"ring": True}]


def doubled(v):
    d = v * 2.0
    return d


def conjugate_gradient(x):
    return jax.scipy.sparse.linalg.cg(doubled, x, maxiter=3)[0]


def custom_root(x):
    def equation(y):
        d = y**2 - x
        return d

    def solve(f, y):
        return lax.while_loop(lambda y: jnp.abs(f(y)).max() > 1e-3, lambda y: y - f(y) / (2 * y), y)

    return lax.custom_root(equation, jnp.ones_like(x), solve, lambda g, y: y / g(jnp.ones_like(y)))


def integrated(x):
    def field(y, t):
        d = -y
        return d

    return odeint(field, x, jnp.linspace(0, 1, 3))


def custom_vmap(x):
    function = jax.custom_batching.custom_vmap(doubled)
    function.def_vmap(lambda size, batched, x: (doubled(x), True))
    return function(x) + jax.vmap(function)(x)


def linear_transpose(x):
    return jax.linear_transpose(doubled, x)(x)[0]


def user_checks(x):
    def checked(x):
        d = jnp.log(x)
        checkify.check(d.sum() > -100, "too small")
        return d

    return checkify.checkify(checked)(x)[1]


def float_checks(x):
    function = checkify.checkify(lambda x: lax.scan(body, 1.0, x)[1], errors=checkify.float_checks)
    return function(x)[1]


def reduction(x):
    def add(a, b):
        d = a + b
        return d

    return lax.reduce(x, np.float32(0), add, (0,)), lax.reduce_window(x, np.float32(0), add, (2,), (1,), "VALID")


def map_in_batches(x):
    return lax.map(doubled, x, batch_size=2)


def nan_checks(x):
    with jax.debug_nans(True):
        return doubled(x)


def exported(x):
    return export.export(jax.jit(doubled))(x).call(x)


def custom_gradient(x):
    @jax.custom_gradient
    def function(x):
        d = x * 2
        return d, lambda g: (g * x,)

    return jax.grad(lambda x: function(x).sum())(x)


def scan_of_remat(x):
    policy = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    block = jax.checkpoint(body, policy=policy, prevent_cse=False)
    return jax.grad(lambda x: lax.scan(block, 1.0, x)[0])(x)


def remat_with_closure(x):
    w = x * 3
    return jax.grad(lambda y: jax.checkpoint(lambda y: doubled(w * y))(y).sum())(x)


def named(x):
    with jax.named_scope("outer"):
        return jax.named_call(doubled, name="inner")(x)


def cond_in_scan_under_vmap(x):
    def step(c, y, t):
        return c, lax.cond(y > t, doubled, lambda y: y, y)

    return jax.vmap(lambda t: lax.scan(lambda c, y: step(c, y, t), 0.0, XS)[1])(x)


def grad_of_vmapped_cond(x):
    return jax.grad(lambda x: jax.vmap(lambda t: lax.cond(t > 1, doubled, lambda t: t, t))(x).sum())(x)


def jvp_of_while_under_vmap(x):
    loop = lambda t: lax.while_loop(lambda c: c < 10, doubled, t)
    return jax.vmap(lambda t: jax.jvp(loop, (t,), (1.0,))[1])(x)


def callbacks_of_the_user(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    d = jax.pure_callback(lambda v: np.asarray(v) * 2, shape, x)
    k = io_callback(lambda v: np.asarray(v) + 1, shape, d, ordered=True)
    jax.debug.callback(lambda v: None, k, ordered=True)
    return k


def third_derivatives(x):
    return jax.jacrev(jax.jacfwd(jax.jacrev(lambda x: (doubled(x) ** 4).sum())))(x)


def hessian_of_scan(x):
    return jax.hessian(lambda x: lax.scan(lambda c, y: (doubled(c) * y, None), x[0], x)[0])(x)


def grad_of_fori(x):
    return jax.grad(lambda x: lax.fori_loop(0, 3, lambda i, c: doubled(c), x).sum())(x)


def platform_dependent(x):
    return lax.platform_dependent(x, cpu=doubled, default=lambda x: x)


def static_argument(x):
    return jax.jit(lambda x, n: doubled(x) * n, static_argnames="n")(x, n=3)


PROGRAMS: list[Callable[..., Any]] = [
    *(conjugate_gradient, custom_root, integrated, custom_vmap, linear_transpose, user_checks, float_checks),
    *(reduction, map_in_batches, nan_checks, exported, custom_gradient, scan_of_remat, remat_with_closure, named),
    *(cond_in_scan_under_vmap, grad_of_vmapped_cond, jvp_of_while_under_vmap, callbacks_of_the_user),
    *(third_derivatives, hessian_of_scan, grad_of_fori, platform_dependent, static_argument),
]


@pytest.mark.parametrize(
    "wrap", [pytest.param(jax.jit, id="jit"), pytest.param(lambda f: f, id="plain", marks=pytest.mark.one_pair)]
)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_keeps_its_result_under_every_kind_of_tap(program, wrap):
    plain = wrap(program)(XS)
    for kind in KINDS:
        tapped = tap("d k", wrap(program), XS, **kind)
        assert tapped.error is None, kind
        assert same(tapped.result, plain), kind


def test_reductions_are_said_not_to_be_tapped():
    (line,) = tap("d", jax.jit(reduction), XS).limits
    assert line.startswith("values inside of reductions and kernels: not tapped")


def test_exported_functions_are_said_not_to_be_tapped():
    (line,) = tap("d", exported, XS).limits
    assert line == "exported functions: not tapped (a stored program can't hold a callback)"


def test_lanes_of_a_branch_are_marked_outside_of_jit_too():
    (event,) = tap("d", grad_of_vmapped_cond, XS).events
    assert event.active == (False, True, True)
