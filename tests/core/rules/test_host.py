"""Notes on the old `host_callback`: each call with its spelling of today."""

from collections.abc import Iterator

import pytest
from observed_cells import watched

from jaxmagic.core import host_callback

IMPORTS = """\
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import host_callback as hcb
seen = []
def look(x, *_):
    seen.append(np.asarray(x).tolist())
    return np.asarray(x) * 2
"""


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    host_callback.install()
    yield
    host_callback.remove()


@pytest.mark.parametrize(
    ("body", "marked", "fix"),
    [
        (
            "y = hcb.call(look, x)",
            "hcb.call(look, x)",
            "jax.experimental.io_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype), x)",
        ),
        (
            "y = hcb.call(look, x + 1, result_shape=x)",
            "hcb.call(look, x + 1, result_shape=x)",
            "jax.experimental.io_callback(look, x, x + 1)",
        ),
        (
            "y = hcb.call(look, x * 1.0)",
            "hcb.call(look, x * 1.0)",
            "jax.experimental.io_callback(look, jax.eval_shape(lambda: x * 1.0), x * 1.0)",
        ),
        ("y = hcb.id_tap(look, x)", "hcb.id_tap(look, x)", "jax.debug.callback(look, x, ())\ny = x"),
        (
            "y = hcb.id_tap(look, x, result=x + 1)",
            "hcb.id_tap(look, x, result=x + 1)",
            "jax.debug.callback(look, x, ())\ny = x + 1",
        ),
        (
            "y = hcb.id_print(x, what='x')",
            "hcb.id_print(x, what='x')",
            "jax.debug.print('what: x  {}', x)\ny = x",
        ),
        ("y = x; hcb.id_tap(look, x)", "hcb.id_tap(look, x)", "jax.debug.callback(look, x, ())"),
    ],
)
def test_the_fix_is_the_same_call_in_todays_spelling(body: str, marked: str, fix: str):
    cell = IMPORTS + f"@jax.jit\ndef f(x):\n    {body}\n    return y\nresult = f(jnp.ones(2)).tolist()"
    program = watched(cell)
    finding = program.found("host-callback-used")
    assert finding.severity == "note"
    assert program.marked("host-callback-used") == marked
    assert finding.fix == fix
    fixed = program.fixed("host-callback-used")
    assert fixed.notebook.namespace["result"] == program.notebook.namespace["result"]
    assert "host-callback-used" not in fixed.rules


def test_a_tap_inside_of_an_expression_gets_a_fix_to_read():
    program = watched(IMPORTS + "jax.jit(lambda x: hcb.id_tap(look, x) + 1)(1.0)")
    finding = program.found("host-callback-used")
    assert (finding.fix, finding.replaces) == ("jax.debug.callback(look, x, ())", None)


def test_waiting_is_called_effects_barrier():
    program = watched(IMPORTS + "hcb.barrier_wait()")
    assert program.found("host-callback-used").fix == "jax.effects_barrier()"
    assert program.fixed("host-callback-used").rules == []
