"""Arguments that jit refuses, buffers that were given away, callbacks that can't be transformed."""

import io

import jax.numpy as jnp
import pytest
from failing_cells import failed

IMPORTS = "import jax, numpy as np, jax.numpy as jnp\nfrom functools import partial\n"

REFUSED = [
    (
        "non-array-argument",
        "@jax.jit\ndef reduce(x, how):\n    return x.sum() if how == 'sum' else x.mean()\n"
        "out = reduce(jnp.ones(3), 'sum')",
        "@jax.jit(static_argnames='how')",
        3.0,
    ),
    (
        "non-array-argument",
        "out = jax.jit(lambda x, f: f(x))(1.0, jnp.sin)",
        "jax.jit(lambda x, f: f(x), static_argnames='f')",
        jnp.sin(1.0),
    ),
    (
        "non-array-argument",
        "out = jax.jit(lambda d: d['a'] * 2)({'a': 1.0, 'name': 'run'})",
        "{'a': 1.0}",
        2.0,
    ),
    (
        "non-array-argument",
        "class Model:\n    @jax.jit\n    def forward(self, x):\n        return x * 2\nout = Model().forward(1.0)",
        "@jax.jit(static_argnums=0)",
        2.0,
    ),
    (
        "unhashable-static",
        "@partial(jax.jit, static_argnames='sizes')\ndef f(x, sizes=(1,)):\n"
        "    return x * sum(sizes)\nout = f(1.0, sizes=[1, 2])",
        "(1, 2)",
        3.0,
    ),
    (
        "unhashable-static",
        "@partial(jax.jit, static_argnums=1)\ndef f(x, sizes):\n    return x * sum(sizes)\ns = [1, 2]\nout = f(1.0, s)",
        "tuple(s)",
        3.0,
    ),
    (
        "unhashable-static",
        "@partial(jax.jit, static_argnames=('n', 't'))\ndef f(x, n=2, t=None):\n"
        "    return x * n + t.sum()\nout = f(1.0, t=jnp.arange(3))",
        "@partial(jax.jit, static_argnames=('n',))",
        5.0,
    ),
    ("not-a-function", "def f(x):\n    return x + 1\nout = jax.jit(f(1.0))", "jax.jit(f)(1.0)", 2.0),
]


@pytest.mark.parametrize(("rule", "body", "fix", "result"), REFUSED)
def test_an_argument_that_jit_refuses_is_named_and_handled(rule: str, body: str, fix: str, result: float):
    program = failed(IMPORTS + body)
    assert program.finding.rule == rule
    assert program.finding.fix == fix
    assert jnp.allclose(program.fixed().namespace["out"], result)


def test_the_parameter_and_the_function_are_named():
    program = failed(IMPORTS + REFUSED[4][1])
    assert program.finding.title == "static argument `sizes` is a list, which can't be hashed"
    assert "of `f`" in program.finding.explanation


def test_a_result_that_is_no_array_is_shown_at_the_return():
    program = failed(IMPORTS + "def f(x):\n    return x, 'done'\njax.jit(f)(1.0)")
    assert program.finding.rule == "result-not-array"
    assert program.marked == "x, 'done'"


def test_an_integer_beyond_32_bits_is_named():
    program = failed(IMPORTS + "jax.jit(lambda n: n)(2**40)")
    assert program.finding.rule == "integer-too-big"
    assert "`n`: `2**40`" in program.finding.title


def test_the_call_that_took_a_donated_buffer_is_found_in_another_cell():
    program = failed(
        IMPORTS + "@partial(jax.jit, donate_argnums=0)\ndef update(params, g):\n    return params - 0.1 * g",
        "params = jnp.ones(4)\nnew = update(params, jnp.ones(4))",
        "out = params + 1",
    )
    assert program.finding.rule == "donated-buffer"
    assert program.finding.title == "`params` (float32[4]) was donated to `update` and is deleted"
    assert program.finding.evidence[0].span is not None
    assert program.finding.evidence[0].span.line == 2
    assert program.finding.fix == "params = update(params, jnp.ones(4))"
    assert jnp.allclose(program.fixed().namespace["out"], 1.9)


def test_donation_by_name_and_through_an_assigned_jit():
    program = failed(
        IMPORTS + "step = jax.jit(lambda state, x: state + x, donate_argnames='state')\nstate = jnp.ones(2)",
        "other = step(state, 1.0)",
        "out = jnp.sum(state)",
    )
    assert program.finding.fix == "state = step(state, 1.0)"
    assert program.fixed().namespace["out"] == 4.0


def test_an_array_that_was_deleted_by_hand_is_not_blamed_on_a_call():
    program = failed(IMPORTS + "x = jnp.ones(2)\nx.delete()\nx + 1")
    assert program.finding.rule == "donated-buffer"
    assert "`.delete()`" in program.finding.title
    assert not program.finding.fix


def test_a_read_only_view_becomes_a_copy():
    program = failed(IMPORTS + "x = jnp.ones(2)\nv = np.asarray(x)\nv[0] = 5\nout = v")
    assert program.finding.rule == "read-only-view"
    assert program.finding.fix == "np.array(x)"
    assert program.fixed().namespace["out"][0] == 5


CALLBACK = IMPORTS + "def f(x):\n    return jax.pure_callback({function}, jax.ShapeDtypeStruct(x.shape, x.dtype), x)\n"


@pytest.mark.parametrize(
    ("function", "method"), [("np.sinh", "expand_dims"), ("lambda v: np.float32(v) * 2", "sequential")]
)
def test_a_callback_under_vmap_says_how_it_takes_a_batch(function: str, method: str):
    program = failed(CALLBACK.format(function=function) + "out = jax.vmap(f)(jnp.ones(3))")
    assert program.finding.rule == "callback-under-vmap"
    assert f"vmap_method='{method}'" in program.finding.fix
    assert program.fixed().namespace["out"].shape == (3,)


FURTHER = [
    (
        "class Host:\n    def __call__(self, x):\n        return jax.pure_callback(np.cos, x, x)\n"
        "out = jax.jit(jax.vmap(jax.vmap(Host())))(jnp.zeros((2, 3)))",
        "callback-under-vmap",
        "jax.pure_callback(np.cos, x, x, vmap_method='expand_dims')",
    ),
    (
        "def step(c, x):\n    return c + jax.pure_callback(np.cosh, jax.ShapeDtypeStruct((), x.dtype), x), None\n"
        "out = jax.grad(lambda xs: jax.lax.scan(step, 0.0, xs)[0])(jnp.ones(3))",
        "callback-under-grad",
        "jnp.cosh(x)",
    ),
    (
        "class Layer:\n    def act(self, x):\n"
        "        return jax.pure_callback(np.tanh, jax.ShapeDtypeStruct(x.shape, x.dtype), x)\n"
        "out = jax.jit(jax.value_and_grad(lambda x: Layer().act(x).sum()))(jnp.ones(2))",
        "callback-under-grad",
        "jnp.tanh(x)",
    ),
]


@pytest.mark.parametrize(("body", "rule", "fix"), FURTHER)
def test_callbacks_in_modules_and_loops_are_mended_where_they_stand(body: str, rule: str, fix: str):
    program = failed(IMPORTS + body)
    assert (program.finding.rule, program.finding.fix) == (rule, fix)
    assert "out" in program.fixed().namespace


def test_a_numpy_callback_under_grad_has_a_twin_with_a_derivative():
    program = failed(CALLBACK.format(function="np.sinh") + "out = jax.grad(f)(jnp.float32(1.0))")
    assert program.finding.rule == "callback-under-grad"
    assert program.finding.fix == "jnp.sinh(x)"
    assert jnp.allclose(program.fixed().namespace["out"], jnp.cosh(1.0))


def test_the_original_exception_of_a_callback_is_shown_first():
    program = failed(
        IMPORTS + "class BadData(Exception): pass\ndef check(v):\n    if v < 0:\n"
        "        raise BadData('negative value')\n    return v",
        "@jax.jit\ndef g(x):\n    return jax.pure_callback(check, jax.ShapeDtypeStruct((), x.dtype), x) * 2",
        "float(g(jnp.float32(-1)))",
    )
    assert program.finding.rule == "callback-exception"
    assert program.finding.title == "the callback `check` raised BadData: negative value"
    assert program.marked == "raise BadData('negative value')"
    assert "`check` was handed to JAX here" in program.evidence


def test_a_scan_of_no_steps_without_jit_is_said_to_be_right():
    program = failed(
        IMPORTS + "with jax.disable_jit():\n    out = jax.lax.scan(lambda c, x: (c + x, x), 0.0, jnp.zeros(0))"
    )
    assert program.finding.rule == "zero-length-without-jit"
    assert program.fixed().namespace["out"][0] == 0.0


def test_the_module_that_was_removed_is_named_with_what_took_over():
    program = failed(IMPORTS + "from jax.experimental.host_callback import call, id_tap")
    assert program.finding.rule == "host-callback-removed"
    assert program.finding.fix.splitlines()[1] == "# id_tap: jax.debug.callback(f, x)"


def test_no_tracing_is_only_possibly_a_retrace():
    program = failed(
        IMPORTS + "@jax.jit\ndef f(x):\n    jax.debug.callback(lambda v: None, x)\n    return x\nf(1.0)",
        "with jax.no_tracing(True):\n    f(1.0)",
    )
    assert program.finding.rule == "no-tracing-false-alarm"
    assert not program.finding.sure


DELETED = [
    (
        (
            "def update(p, b):\n    return {'w': p['w'] - b}, b.sum()\nstep = jax.jit(update, donate_argnums=(0,))",
            "params = {'w': jnp.ones(3)}",
        ),
        "for b in [jnp.ones(3)] * 2:\n    new, out = step(params, b)",
        "`params['w']` ",
        "params, out = step(params, b)",
    ),
    (
        (
            "class Trainer:\n    def __init__(self):\n        self.params = jnp.ones(3)\n"
            "    @partial(jax.jit, static_argnums=0, donate_argnums=1)\n    def _step(self, params):\n"
            "        return params * 0.5\n    def step(self):\n        new = self._step(self.params)\nt = Trainer()",
            "t.step()",
        ),
        "out = t.params + 1\n",
        "`t.params` (float32[3]) was donated to `self._step`",
        "self.params = self._step(self.params)",
    ),
    (
        (
            "import equinox as eqx\nstep = eqx.filter_jit(lambda m, x: m * x, donate='all')",
            "m = jnp.ones(2)",
            "new = step(m, 2.0)",
        ),
        "out = m.sum()",
        "`m` (float32[2]) was donated to `step` and is deleted",
        "m = step(m, 2.0)",
    ),
    (
        ("f = jax.jit(lambda a, b: a + b, donate_argnums=0)\nx = jnp.ones(3)",),
        "out = f(x, x)",
        "`x` (f32[3]) is donated and passed a second time in the same call",
        "jnp.copy(x)",
    ),
]


@pytest.mark.parametrize(("before", "use", "title", "fix"), DELETED)
def test_a_donated_array_is_found_in_trees_loops_and_objects(before: tuple[str, ...], use: str, title: str, fix: str):
    program = failed(IMPORTS + before[0], *before[1:], use)
    assert program.finding.rule == "donated-buffer"
    assert program.finding.title.startswith(title)
    assert "donated" in program.finding.title
    assert program.finding.fix == fix
    assert not fix or "out" in program.fixed().namespace


VIEWS = [
    (
        "class Env:\n    def __init__(self):\n        self.s = np.asarray(jnp.zeros(3))\nenv = Env()",
        "env.s += 1\nout = env.s",
    ),
    ("v = np.asarray(jnp.arange(3.0))", "v.sort()\nout = v"),
    ("host = jax.device_get({'w': jnp.ones(2)})", "host['w'][0] = 5.0\nout = host['w']"),
]


@pytest.mark.parametrize(("made", "use"), VIEWS)
def test_a_view_is_copied_where_it_was_made(made: str, use: str):
    program = failed(IMPORTS + made, use)
    assert program.finding.rule == "read-only-view"
    assert program.finding.sure
    assert program.fixed().namespace["out"].flags.writeable


OBJECTS = [
    (
        "from dataclasses import dataclass\n@dataclass\nclass State:\n    x: jax.Array\n    n: int\n"
        "@jax.jit\ndef f(s):\n    return s.x + s.n",
        "out = f(State(jnp.ones(2), 1))",
        "@jax.tree_util.register_dataclass\n@dataclass",
    ),
    (
        "class Act:\n    def __init__(self):\n        self.fast = jax.jit(self.apply)\n"
        "    def apply(self, x, kind):\n        return jnp.tanh(x) if kind == 'tanh' else x",
        "out = Act().fast(jnp.ones(2), 'tanh')",
        "jax.jit(self.apply, static_argnames='kind')",
    ),
    (
        "class M:\n    @partial(jax.jit, static_argnums=(0, 2))\n    def run(self, x, opts):\n"
        "        return x * opts['s']",
        "out = M().run(2.0, {'s': 3.0})",
        "@partial(jax.jit, static_argnums=(0,))",
    ),
]


@pytest.mark.parametrize(("before", "call", "fix"), OBJECTS)
def test_objects_and_methods_are_handed_over_as_jit_takes_them(before: str, call: str, fix: str):
    program = failed(IMPORTS + before, call)
    assert program.finding.fix == fix
    assert "out" in program.fixed().namespace


def test_an_object_that_cant_be_hashed_is_named_by_its_class():
    program = failed(
        IMPORTS + "from dataclasses import dataclass\n@dataclass\nclass Config:\n    sizes: list\n"
        "f = jax.jit(lambda x, cfg: x, static_argnames='cfg')",
        "f(1.0, cfg=Config([1]))",
    )
    assert program.finding.title == "static argument `cfg` is a Config, which can't be hashed"
    assert "frozen dataclass" in program.finding.explanation


def test_the_callback_is_told_from_what_it_called():
    program = failed(
        IMPORTS + "def inner(v):\n    raise KeyError('missing')\ndef check(v):\n    inner(v)",
        "@jax.jit\ndef g(x):\n    jax.debug.callback(check, x)\n    return x",
        "g(1.0).block_until_ready()\njax.effects_barrier()",
    )
    assert program.finding.title == "the callback `check` raised KeyError: 'missing'"
    assert program.marked == "raise KeyError('missing')"
    assert "raised in `inner`, which it called" in program.evidence


def test_a_result_of_another_shape_than_was_declared_is_no_exception_of_the_callback():
    program = failed(
        IMPORTS
        + "f = jax.jit(lambda x: jax.pure_callback(lambda v: np.ones(3, 'f'), jax.ShapeDtypeStruct((2,), 'f'), x))",
        "out = f(1.0) + 0",
    )
    assert program.finding.title == "a callback returned shape (3,), but (2,) was declared"
    assert program.finding.fix == "(3,)"
    assert program.fixed().namespace["out"].shape == (3,)


def test_a_breakpoint_becomes_a_print_of_what_was_just_computed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    cell = IMPORTS + "@jax.jit\ndef f(x):\n    y = x * 2\n    jax.debug.breakpoint(backend='cli')\n    return y"
    program = failed(cell, "out = f(1.0).block_until_ready()\njax.effects_barrier()")
    assert program.finding.rule == "debugger-without-terminal"
    assert program.finding.fix == "jax.debug.print('y = {y}', y=y)"
    program.fixed()
    assert "y = 2.0" in capfd.readouterr().out


def test_a_scan_of_no_steps_in_a_lambda_is_kept_compiled_where_it_is_called():
    program = failed(
        IMPORTS + "f = lambda xs: jax.lax.scan(lambda c, x: (c + x, x), 0.0, xs)\n"
        "with jax.disable_jit():\n    out = f(jnp.zeros(0))"
    )
    assert program.fixed().namespace["out"][0] == 0.0


def test_a_result_that_is_read_elsewhere_keeps_its_name_too():
    program = failed(
        IMPORTS + "f = jax.jit(lambda p: p * 0.5, donate_argnums=0)\np = jnp.ones(2)",
        "new = f(p)\nshown = new.sum()",
        "out = p + 1",
    )
    assert program.finding.fix == "p = new = f(p)"
    assert program.fixed().namespace["out"].tolist() == [1.5, 1.5]
