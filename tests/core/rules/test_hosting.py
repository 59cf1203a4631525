"""Callbacks that call JAX, never run, raise under another name, or run for every example."""

import pytest
from observed_cells import watched

IMPORTS = "import jax, numpy as np, jax.numpy as jnp\nfrom jax.experimental import io_callback\n"

INSIDE = [
    (
        "def host(x):\n    return jnp.sin(x)\n@jax.jit\ndef f(x):\n"
        "    return jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)\nout = f(jnp.ones(3))",
        "jnp.sin(x)",
    ),
    (
        "class Log:\n    def write(self, v):\n        self.last = jnp.max(v)\nlog = Log()\n@jax.jit\ndef f(x):\n"
        "    jax.debug.callback(log.write, x)\n    return x * 2\nout = f(jnp.ones(3))",
        "jnp.max(v)",
    ),
    (
        "@jax.jit\ndef f(x):\n    def norm(v):\n        return np.float32(jnp.linalg.norm(v))\n"
        "    return io_callback(norm, jax.ShapeDtypeStruct((), jnp.float32), x)\nout = f(jnp.ones(4))",
        "jnp.linalg.norm(v)",
    ),
]


@pytest.mark.parametrize(("body", "marked"), INSIDE)
def test_jax_inside_of_a_callback_becomes_numpy(body: str, marked: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["jax-in-callback"]
    assert cell.marked("jax-in-callback") == marked
    assert cell.fixed("jax-in-callback").rules == []


DROPPED = [
    "def show(v):\n    seen.append(float(v))\n    return v\n@jax.jit\ndef f(x):\n"
    "    jax.pure_callback(show, jax.ShapeDtypeStruct((), x.dtype), x)\n    return x + 1\nout = f(jnp.float32(2))",
    "def show(v):\n    seen.append(float(v))\n    return v\ndef body(c, x):\n"
    "    unused = jax.pure_callback(show, jax.ShapeDtypeStruct((), c.dtype), c)\n    return c + x, None\n"
    "out = jax.lax.scan(body, 0.0, jnp.ones(2))",
    "class Model:\n    def __call__(self, x):\n        shape = jax.ShapeDtypeStruct((), x.dtype)\n"
    "        jax.pure_callback(lambda v: seen.append(float(v)) or v, shape, x)\n        return x * 2\n"
    "out = jax.jit(Model())(jnp.float32(2))",
]


@pytest.mark.parametrize("body", DROPPED)
def test_a_pure_callback_without_a_reader_never_runs(body: str):
    cell = watched(IMPORTS + "seen = []\n" + body)
    assert cell.rules == ["callback-dropped"]
    assert cell.notebook.namespace["seen"] == []
    fixed = cell.fixed("callback-dropped")
    assert fixed.rules == []
    assert fixed.notebook.namespace["seen"]


def test_an_except_clause_with_the_callbacks_own_exception_never_matches():
    cell = watched(
        IMPORTS
        + "class Negative(Exception): pass\ndef check(v):\n    if v < 0:\n        raise Negative('below zero')\n"
        "@jax.jit\ndef f(x):\n    jax.debug.callback(check, x)\n    return x\n"
        "out = None\ntry:\n    out = jax.block_until_ready(f(jnp.float32(1)))\nexcept Negative:\n    out = 'caught'"
    )
    assert cell.rules == ["except-never-matches", "callback-raises"]
    assert cell.marked("except-never-matches") == "Negative"
    assert cell.fixed("except-never-matches").rules == ["callback-raises"]


def test_a_callback_that_may_raise_is_worth_a_note_that_says_where_it_was_staged():
    cell = watched(
        IMPORTS + "def check(v):\n    if v < 0:\n        raise ValueError('below zero')\n@jax.jit\ndef f(x):\n"
        "    jax.debug.callback(check, x)\n    return x\nout = f(1.0)"
    )
    assert cell.rules == ["callback-raises"]
    assert cell.found("callback-raises").severity == "note"
    assert "ValueError from the callback `check`" in cell.found("callback-raises").title


LANES = [
    "def check(x):\n    jax.lax.cond(x > 2, lambda v: jax.debug.print('big: {}', v), lambda v: None, x)\n    return x\n"
    "out = jax.vmap(check)(jnp.array([1.0, 3.0]))",
    "class Guard:\n    def __call__(self, x):\n        bad = x > 2\n"
    "        jax.lax.cond(bad, lambda v: jax.debug.print('big: {}', v), lambda v: None, x)\n        return x\n"
    "out = jax.jit(jax.vmap(Guard()))(jnp.array([1.0, 3.0]))",
    "def step(c, x):\n    jax.lax.cond(x > 2, lambda v: jax.debug.print('big: {}', v), lambda v: None, x)\n"
    "    return c + x, None\nout = jax.vmap(lambda xs: jax.lax.scan(step, 0.0, xs)[0])(jnp.array([[1.0], [3.0]]))",
]


@pytest.mark.parametrize("body", LANES)
def test_a_guarded_print_under_vmap_is_decided_on_the_host_instead(body: str, capfd: pytest.CaptureFixture[str]):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["effect-in-every-lane"]
    capfd.readouterr()
    assert cell.fixed("effect-in-every-lane").rules == []
    assert capfd.readouterr().out.splitlines() == ["big: 3.0"]


@pytest.mark.parametrize(
    "body",
    [
        "def host(x):\n    return np.sin(np.asarray(x))\n@jax.jit\ndef f(x):\n"
        "    return jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1\nout = f(jnp.ones(3))",
        "def log(v):\n    print(float(v))\n@jax.jit\ndef f(x):\n    jax.debug.callback(log, x)\n    return x\nf(1.0)",
        "def f(x, flag):\n    jax.lax.cond(flag, lambda v: jax.debug.print('{}', v), lambda v: None, x)\n    return x\n"
        "out = jax.vmap(f, in_axes=(0, None))(jnp.ones(2), True)",
    ],
)
def test_callbacks_that_keep_to_the_rules_are_left_alone(body: str):
    assert watched(IMPORTS + body).rules == []


AS_THEY_CAME = [
    ("def host(x):\n    return x * 2", "x * 2", "np.asarray(x) * 2"),
    ("def host(x):\n    return x + 1 if (x == x).all() else x", "x == x", "np.asarray(x) == np.asarray(x)"),
    ("host = lambda x: x.reshape(-1)", "x.reshape(-1)", "np.asarray(x).reshape(-1)"),
]


@pytest.mark.parametrize(("host", "marked", "fix"), AS_THEY_CAME)
def test_operators_on_what_a_callback_is_handed_are_noted(host: str, marked: str, fix: str):
    cell = watched(
        f"import jax, numpy as np, jax.numpy as jnp\n{host}\nf = jax.jit(lambda x: jax.pure_callback(host, "
        "jax.ShapeDtypeStruct(x.shape, x.dtype), x))\nout = f(jnp.ones(3))"
    )
    assert cell.rules == ["array-in-callback"]
    assert cell.found("array-in-callback").severity == "note"
    assert (cell.marked("array-in-callback"), cell.found("array-in-callback").fix) == (marked, fix)


@pytest.mark.parametrize(
    "host",
    [
        "def host(x):\n    x = np.asarray(x)\n    return x * 2",
        "def host(x):\n    return np.sinh(x)",
        "def host(x):\n    y = np.asarray(x)\n    return y / y.sum()",
    ],
)
def test_callbacks_that_convert_first_are_left_alone(host: str):
    cell = watched(
        f"import jax, numpy as np, jax.numpy as jnp\n{host}\nf = jax.jit(lambda x: jax.pure_callback(host, "
        "jax.ShapeDtypeStruct(x.shape, x.dtype), x))\nout = f(jnp.ones(3))"
    )
    assert cell.rules == []
