"""Settings that are traced: axes, lengths and shapes, and plain numbers that jax.numpy made into tracers."""

import jax.numpy as jnp
import pytest
from failing_cells import failed

IMPORTS = "import jax, jax.numpy as jnp\nfrom functools import partial\n"

STATIC = [
    (
        "@jax.jit\ndef lowest(x, axis):\n    return x.min(axis)\nout = lowest(jnp.ones((2, 3)), 0)",
        "x.min(axis)",
        "@jax.jit(static_argnames='axis')",
    ),
    (
        "out = jax.jit(lambda n: jnp.zeros((n, 2)))(3)",
        "jnp.zeros((n, 2))",
        "jax.jit(lambda n: jnp.zeros((n, 2)), static_argnames='n')",
    ),
    ("out = jax.jit(lambda x, n: x.reshape(n, -1))(jnp.ones(4), 2)", "x.reshape(n, -1)", None),
    ("out = jax.jit(lambda x, n: jnp.repeat(x, n))(jnp.ones(4), 2)", "jnp.repeat(x, n)", None),
    ("out = jax.jit(lambda x, n: jnp.tile(x, n))(jnp.ones(4), 2)", "jnp.tile(x, n)", None),
    ("out = jax.jit(lambda n: jax.nn.one_hot(1, n))(3)", "jax.nn.one_hot(1, n)", None),
    (
        "out = jax.jit(lambda k, n: jax.random.normal(k, (n,)))(jax.random.key(0), 3)",
        "jax.random.normal(k, (n,))",
        None,
    ),
    ("out = jax.jit(lambda k, n: jax.random.split(k, n))(jax.random.key(0), 3)", "jax.random.split(k, n)", None),
    ("out = jax.jit(lambda dt: jnp.arange(0.0, 1.0, dt))(0.25)", "jnp.arange(0.0, 1.0, dt)", None),
    (
        "class Window:\n    def take(self, x, i, n):\n        return jax.lax.dynamic_slice(x, (i,), (n,))\n"
        "out = jax.jit(Window().take)(jnp.arange(9), 2, 3)",
        "jax.lax.dynamic_slice(x, (i,), (n,))",
        "jax.jit(Window().take, static_argnames='n')",
    ),
    (
        "@partial(jax.jit, static_argnames='mode')\ndef f(x, n, mode):\n"
        "    return jnp.linspace(0, x, n)\nout = f(1.0, 3, 'a')",
        "jnp.linspace(0, x, n)",
        "@partial(jax.jit, static_argnames=('mode', 'n'))",
    ),
]


@pytest.mark.parametrize(("body", "marked", "fix"), STATIC)
def test_a_traced_setting_is_made_static_at_the_jit_that_traces_it(body: str, marked: str, fix: str | None):
    program = failed(IMPORTS + body)
    assert program.finding.rule == "argument-must-be-static"
    assert program.text == marked
    assert fix is None or program.finding.fix == fix
    assert "out" in program.fixed().namespace


def test_the_decorator_is_found_on_a_method_of_another_cell():
    program = failed(
        IMPORTS + "class Model:\n    @partial(jax.jit, static_argnums=0)\n    def pool(self, x, axis):\n"
        "        return self.go(x, axis)\n"
        "    def go(self, x, axis):\n        return jnp.max(x, axis=axis)",
        "out = Model().pool(jnp.ones((2, 3)), 1)",
    )
    assert program.text == "jnp.max(x, axis=axis)"
    assert program.finding.fix == "@partial(jax.jit, static_argnums=(0, 2))"
    assert program.fixed().namespace["out"].shape == (2,)


CONSTANTS = [
    (
        "@partial(jax.jit, static_argnums=0)\ndef head(n, x):\n"
        "    k = jnp.minimum(n, x.shape[0])\n    return jnp.arange(k)\n"
        "out = head(3, jnp.arange(10))",
        "jnp.minimum(n, x.shape[0])",
        "min(n, x.shape[0])",
        3,
    ),
    (
        "@jax.jit\ndef flat(x):\n    return x.reshape(jnp.maximum(x.shape[0], 4))\nout = flat(jnp.ones((2, 2)))",
        "jnp.maximum(x.shape[0], 4)",
        "max(x.shape[0], 4)",
        4,
    ),
    (
        "@jax.jit\ndef flat(x):\n    return x.reshape(jnp.prod(jnp.array(x.shape)))\nout = flat(jnp.ones((2, 3)))",
        "jnp.prod(jnp.array(x.shape))",
        "import math\nreturn x.reshape(math.prod(x.shape))",
        6,
    ),
]


@pytest.mark.parametrize(("body", "made", "fix", "length"), CONSTANTS)
def test_jax_numpy_on_plain_numbers_is_named_as_what_made_the_tracer(body: str, made: str, fix: str, length: int):
    program = failed(IMPORTS + body)
    assert program.finding.rule == "constant-became-traced"
    assert program.finding.fix == fix
    assert f"`{made}`" in program.finding.explanation
    assert program.fixed().namespace["out"].shape == (length,)


@pytest.mark.parametrize(
    ("body", "fix"),
    [
        ("out = jax.jit(lambda x: jnp.nonzero(x))(jnp.ones(4))", "jnp.nonzero(x, size=4)"),
        ("out = jax.jit(lambda x: jnp.where(x > 0))(jnp.ones((2, 3)))", "jnp.where(x > 0, size=6)"),
        ("out = jax.jit(lambda x: jnp.unique(x))(jnp.ones(4))", "jnp.unique(x, size=4)"),
        ("out = jax.jit(lambda x: jnp.argwhere(x))(jnp.ones(4))", "jnp.argwhere(x, size=4)"),
        (
            "i = jnp.array([0, 0, 1])\nout = jax.jit(lambda x, i: jax.ops.segment_sum(x, i))(jnp.ones(3), i)",
            "jax.ops.segment_sum(x, i, num_segments=3)",
        ),
        (
            "out = jax.vmap(lambda x: jax.ops.segment_max(x, segment_ids=jnp.argsort(x)))(jnp.ones((2, 3)))",
            "jax.ops.segment_max(x, segment_ids=jnp.argsort(x), num_segments=3)",
        ),
    ],
)
def test_a_result_of_unknown_length_gets_a_size(body: str, fix: str):
    program = failed(IMPORTS + body)
    assert program.finding.rule == "data-dependent-shape"
    assert program.finding.fix == fix
    assert "out" in program.fixed().namespace


def test_bincount_is_told_that_it_needs_a_length():
    program = failed(IMPORTS + "jax.jit(lambda x: jnp.bincount(x))(jnp.arange(4))")
    assert program.finding.rule == "data-dependent-shape"
    assert "With `length=…`" in program.finding.explanation
    assert not program.finding.fix  # how large the numbers are, only the user knows


def test_each_new_static_value_is_said_to_compile():
    program = failed(IMPORTS + STATIC[0][0])
    assert "compiles once" in program.finding.explanation
    assert program.operands == {"x": "f32[2,3]", "axis": "i32[]*"}
    assert jnp.asarray(1).weak_type


JITTED_ELSEWHERE = [
    ("def f(x, n):\n    return jnp.tile(x, n)", "g = jax.jit(f)", "out = g(jnp.ones(2), 3)"),
    (
        "class Net:\n    def __init__(self):\n        self.fast = jax.jit(self.apply)\n"
        "    def apply(self, x, n):\n        return jnp.tile(x, n)",
        "net = Net()",
        "out = net.fast(jnp.ones(2), 3)",
    ),
    (
        "from functools import partial, wraps\ndef logged(f):\n    @wraps(f)\n    def run(*args):\n"
        "        return f(*args)\n    return run",
        "@jax.jit\n@logged\ndef f(x, n):\n    return jnp.tile(x, n)",
        "out = f(jnp.ones(2), 3)",
    ),
    (
        "def grow(y, times):\n    return jnp.tile(y, times)",
        "@jax.jit\ndef f(x, n):\n    k = n\n    return grow(x, times=k)",
        "out = f(jnp.ones(2), 3)",
    ),
]


@pytest.mark.parametrize("cells", JITTED_ELSEWHERE)
def test_the_jit_is_found_wherever_it_was_made(cells: tuple[str, ...]):
    program = failed(IMPORTS + cells[0], *cells[1:])
    assert program.finding.rule == "argument-must-be-static"
    assert "static_argnames" in program.finding.fix
    assert program.fixed().namespace["out"].shape == (6,)


def test_all_settings_of_one_call_are_made_static_together():
    program = failed(IMPORTS + "@jax.jit\ndef f(n, m):\n    return jnp.zeros((n, m))", "out = f(2, 3)")
    assert program.finding.title == "`n` and `m` decide the shape of the result, so they can't be traced"
    assert program.fixed().namespace["out"].shape == (2, 3)


def test_an_array_is_not_made_static_as_it_can_t_be_hashed():
    program = failed(IMPORTS + "@jax.jit\ndef f(n):\n    return jnp.zeros(n)", "f(jnp.array(3))")
    assert program.finding.rule == "argument-must-be-static"
    assert not program.finding.fix


def test_only_what_the_value_is_computed_from_is_named_as_its_origin():
    cell = IMPORTS + "@jax.jit\ndef f(key, n):\n    return jax.random.split(key, n)"
    program = failed(cell, "f(jax.random.key(0), 3)")
    assert "depends on `n`." in program.finding.explanation
    (brought,) = [fact for fact in program.finding.evidence if fact.text.startswith("argument")]
    assert brought.span is not None
    assert brought.text == "argument `n` of f is traced by jit"
    assert brought.span.column == 11


def test_repeats_of_an_array_say_that_the_length_has_to_be_given():
    program = failed(IMPORTS + "jax.jit(lambda x, n: jnp.repeat(x, n))(jnp.arange(2), jnp.array([1, 2]))")
    assert program.finding.rule == "data-dependent-shape"
    assert "total_repeat_length" in program.finding.explanation
