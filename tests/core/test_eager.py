import gc
import linecache
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

from jaxmagic.core.jax_internals import PIECES
from jaxmagic.core.limits import Limits
from jaxmagic.core.programs.eager import EagerRecord
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.wrapping import wrapped


@pytest.fixture
def record():
    made = EagerRecord(Limits(), Policy().is_user)
    yield made
    made.stop()


def model(x, w):
    h = jnp.tanh(x @ w)
    if float(h.sum()) > 0:  # no tracer can do this
        h = h * 2.0
    total, rows = jax.lax.scan(lambda c, row: (c + row.sum(), row * c), 0.0, h)
    slope = jax.grad(lambda v: (v**2).sum())(h)
    return rows.at[0].add(total) + slope + jax.vmap(jnp.sin)(h)


def test_code_that_cannot_be_traced_has_a_program_equal_to_what_ran(record):
    x, w = jnp.ones((3, 4)), jnp.full((4, 5), 0.1)
    plain = model(x, w)
    record.start()
    answer = model(x, w)
    record.stop()
    jaxpr = record.jaxpr()
    assert [aval.str_short() for aval in jaxpr.in_avals] == ["float32[3,4]", "float32[4,5]"]
    np.testing.assert_array_equal(answer, plain)
    np.testing.assert_allclose(jaxpr_as_fun(jaxpr)(x, w)[-1], answer, rtol=1e-6)
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.make_jaxpr(model)(x, w)


def test_its_equations_point_at_the_lines_that_ran(record):
    record.start()
    model(jnp.ones((3, 4)), jnp.ones((4, 5)))
    record.stop()
    shown = record.program("cell")
    assert shown is not None
    assert (shown.root.kind, shown.root.name) == ("eager", "cell")
    (tanh,) = [equation for equation in shown.root.equations if equation.primitive == "tanh"]
    span = shown.frames[tanh.frame].span
    assert linecache.getline(span.file, span.line)[span.column : span.end_column] == "jnp.tanh(x @ w)"
    (scan,) = [equation for equation in shown.root.equations if equation.primitive == "scan"]
    assert [region.kind for region in scan.regions] == ["scan body"]


def test_nothing_run_is_no_program(record):
    record.start()
    record.stop()
    assert record.program() is None


def test_no_array_is_kept_alive(record):
    record.start()
    x = jnp.arange(5.0) * 2
    y = jnp.sin(x)
    seen = weakref.ref(x), weakref.ref(y)
    del x, y
    gc.collect()
    assert [each() for each in seen] == [None, None]


def test_beyond_the_cap_operations_run_unobserved_and_the_report_says_so():
    limits = Limits()
    record = EagerRecord(limits, Policy().is_user, most=3)
    record.start()
    x = jnp.ones(3)
    for _ in range(10):
        x = x + 1
    record.stop()
    shown = record.program()
    assert shown is not None
    assert shown.equations == 3
    assert limits.lines() == ("eager operations beyond the first 3: not observed",)
    assert x.tolist() == [11.0] * 3


def test_afterwards_jax_is_as_it_was_and_operations_take_the_fast_path(record):
    pieces = [PIECES[key] for key in ("call_impl", "fast_path")]
    before = [getattr(piece.owner, piece.name) for piece in pieces]
    record.start()
    x = jnp.ones(3) + 1
    record.stop()
    assert [getattr(piece.owner, piece.name) for piece in pieces] == before
    slow = []
    x = x + 1
    with wrapped("call_impl", lambda inner, *args, **params: slow.append(params["name"]) or inner(*args, **params)):
        x = x + 1
    assert slow == []
