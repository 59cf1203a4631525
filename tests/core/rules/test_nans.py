"""NaN and infinity under `%%jaxtap --when nan`: the expression, its operands, where it went, a fix that works."""

import jax
import jax.numpy as jnp
import pytest
from nan_programs import PROGRAMS, Program
from observed_cells import watched
from watched_cells import IMPORTS, seen

from jaxmagic.core.source.spans import text_of


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_cause_is_named_and_its_fix_removes_it(program: Program):
    cells = [IMPORTS + cell if number == 0 else cell for number, cell in enumerate(program.cells)]
    found = seen(*cells, when=program.when)
    assert (found.finding.rule, found.marked) == (program.rule, program.marked)
    for words in program.says:
        assert words in f"{found.finding.title}\n{found.finding.explanation}\n{found.evidence}"
    assert program.fix in found.finding.fix
    assert bool(program.fix) == bool(found.finding.fix)
    if program.fix:
        again = found.fixed()
        assert not again.grave
        assert again.report.failure is None
        assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(again.notebook.namespace["out"]))


MASKED = {
    "a name of its own": (
        "@jax.jit\ndef f(x):\n    bad = jnp.log(x)\n    return jnp.where(x > 0, bad, 0.0).sum()",
        "jnp.log(jnp.where(x > 0, x, 1))",
    ),
    "one expression": (
        "@jax.jit\ndef f(x):\n    return jnp.where(x > 0, jnp.log(x), 0.0).sum()",
        "jnp.log(jnp.where(x > 0, x, 1))",
    ),
    "an infinity in its place": (
        "def f(x):\n    return jnp.where(x > 0, jnp.log(x), jnp.inf)",
        "jnp.log(jnp.where(x > 0, x, 1))",
    ),
    "a method under vmap": (
        "class Ratio:\n"
        "    def __call__(self, x):\n        return self.of(x).sum()\n"
        "    def of(self, x):\n        return jnp.where(x <= 0, 0.0, x / jnp.maximum(x, 0.0))\n"
        "f = lambda x: jax.jit(jax.vmap(Ratio()))(jnp.stack([x - x, x + 2.0]))",
        "x / jnp.where(x <= 0, 1, jnp.maximum(x, 0.0))",
    ),
    "the body of a loop": (
        "def turn(s, _):\n    return jnp.where(s > 2, jnp.sqrt(s - 2), s + 1), s\n"
        "f = lambda x: jax.lax.scan(turn, x, None, length=4)[0]",
        "jnp.sqrt(jnp.where(s > 2, s - 2, 1))",
    ),
    "a branch and a checkpoint": (
        "from jax.numpy import where, power\n"
        "inner = jax.checkpoint(lambda x: where(x > 0, power(x, 0.5), 0.0))\n"
        "f = jax.jit(lambda x: jax.lax.cond(x.sum() > -9, inner, lambda x: x, x))",
        "power(where(x > 0, x, 1), 0.5)",
    ),
    "its own value is asked": (
        "def f(x):\n    y = jnp.sqrt(x)\n    return jnp.where(jnp.isnan(y), 0.0, y)",
        "",
    ),
    "in one expression": ("@jax.jit\ndef f(x):\n    return jnp.where(jnp.isnan(x**0.5), 0.0, x**0.5)", ""),
    "nan_to_num": ("f = jax.jit(lambda x: jnp.nan_to_num(jnp.log(x)).sum())", ""),
}


@pytest.mark.parametrize(("program", "fix"), MASKED.values(), ids=MASKED)
def test_a_nan_that_reaches_no_result_is_a_note_that_spares_the_gradient(program: str, fix: str):
    found = seen(IMPORTS + program + "\nout = f(jnp.array([-1.0, 1.0]))")
    assert (found.finding.rule, found.finding.severity) == ("nan-masked", "note")
    assert "is thrown away" in found.finding.title
    assert fix in found.finding.fix
    assert bool(fix) == bool(found.finding.fix)
    if fix:
        again = found.fixed()
        assert again.findings == []
        assert again.report.failure is None
        same = jax.tree.map(jnp.array_equal, found.notebook.namespace["out"], again.notebook.namespace["out"])
        assert jax.tree.all(same)


def test_what_jax_masks_inside_of_its_own_functions_is_not_spoken_of():
    cell = "out = jax.jit(lambda x: jax.scipy.special.xlogy(x, x) + jnp.log(-1 - x) + jax.nn.relu(x))(jnp.zeros(2))"
    assert [finding.rule for finding in seen(IMPORTS + cell).findings] == ["nan-made"]
    cell = "out = jax.jit(lambda x: jax.scipy.special.xlogy(x, x) + jax.nn.logsumexp(x - jnp.inf))(jnp.zeros(2))"
    assert seen(IMPORTS + cell).findings == []


SILENT = {
    "attention with a mask": """\
        @jax.jit
        def attend(q, mask):
            scores = jnp.where(mask, q @ q.T, -jnp.inf)
            weights = jax.nn.softmax(scores)
            return (weights @ q).sum()
        mask = jnp.tril(jnp.ones((4, 4), bool))
        out = jax.value_and_grad(attend)(jnp.ones((4, 2)), mask)
        """,
    "the best so far begins at infinity": """\
        best = jnp.inf
        for i in range(3):
            loss = jnp.sqrt(jnp.float32(i))
            best = jnp.minimum(best, loss)
        """,
    "a training step": """\
        import optax
        opt = optax.adamw(1e-2)
        params = {"w": jnp.ones((3, 3))}
        state = opt.init(params)
        @jax.jit
        def step(params, state, x):
            def loss(p):
                h = jax.nn.gelu(x @ p["w"])
                return -jax.nn.log_softmax(h)[:, 0].mean()
            value, grads = jax.value_and_grad(loss)(params)
            updates, state = opt.update(grads, state)
            return optax.apply_updates(params, updates), state, value
        for i in range(3):
            params, state, value = step(params, state, jnp.ones((2, 3)))
        """,
    "a solver": """\
        import diffrax
        term, steps = diffrax.ODETerm(lambda t, y, _: -y), diffrax.PIDController(rtol=1e-4, atol=1e-6)
        out = diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 1.0, 0.1, jnp.ones(2), stepsize_controller=steps).ys
        """,
    "double where": """\
        def f(x):
            safe = jnp.where(x > 0, x, 1.0)
            return jnp.where(x > 0, jnp.log(safe), 0.0).sum()
        out = jax.jit(jax.grad(f))(jnp.array([0.0, 1.0]))
        """,
    "maxima and sums over nothing": """\
        out = jnp.max(jnp.zeros((0,)), initial=-jnp.inf), jax.nn.logsumexp(jnp.full(3, -jnp.inf))
        """,
}


@pytest.mark.parametrize("program", SILENT.values(), ids=SILENT)
def test_programs_without_a_nan_are_left_alone(program: str):
    found = seen(IMPORTS, program)
    assert found.findings == []
    assert found.limits == []


def test_a_program_that_is_stopped_at_a_nan_says_where_it_came_from():
    cell = """\
    def step(c, _):
        y = jnp.sqrt(c)
        return c - 1.0, y
    jax.jit(lambda c: jax.lax.scan(step, c, None, length=9))(3.0)
    """
    found = seen(IMPORTS, cell, stop_when="nan")
    assert found.report.state == "interrupted"
    assert found.marked == "jnp.sqrt(c)"
    assert "iteration 4" in found.evidence


def test_a_named_value_is_enough_and_what_was_donated_is_known_all_the_same():
    cell = """\
    from functools import partial
    @partial(jax.jit, donate_argnums=0)
    def update(w, lr):
        loss = jnp.sum(jnp.log(w))
        return w - lr * jax.grad(lambda w: jnp.sum(jnp.log(w)))(w), loss
    w = jnp.full((100, 100), 2.0)
    for i in range(9):
        w, loss = update(w, 1.0)
    """
    found = seen(IMPORTS, cell, names="loss", when="nan")
    assert found.marked == "jnp.log(w)"
    assert "call 4 of update" in found.evidence


def test_no_code_of_the_users_runs_again():
    cell = """\
    traced, called = [], []
    def host(x):
        called.append(1)
        return x
    @jax.jit
    def f(x):
        traced.append(1)
        return jnp.log(x)
    @jax.jit
    def g(x):
        return jnp.log(jax.pure_callback(host, x, x))
    f(jnp.float32(-1.0)), g(jnp.float32(-1.0))
    """
    found = seen(IMPORTS, cell)
    assert found.notebook.namespace["traced"] == [1]
    assert found.notebook.namespace["called"] == [1]
    assert [finding.rule for finding in found.findings] == ["nan-made", "nan-made"]
    assert "`jax.pure_callback(host, x, x)` = -1 (f32[])" in found.findings[1].evidence[0].text


HOSTS = {
    "between": (
        "@jax.jit\n"
        "def f(x):\n"
        "    y = jax.pure_callback(lambda x: np.asarray(x) - 1, x, x)\n"
        "    jax.debug.callback(lambda y: None, y)\n"
        "    return jnp.log(y)\n"
        "out = f(jnp.float32(5.0)), f(jnp.float32(0.5))",
        "jnp.log(y)",
        ("`y` = -0.5", "call 2 of f"),
    ),
    "another answer each time": (
        "class Walk:\n"
        "    def __init__(self):\n"
        "        self.steps = []\n"
        "    def draw(self, i):\n"
        "        self.steps.append(i)\n"
        "        return np.float32(len(self.steps))\n"
        "    def __call__(self, c, i):\n"
        "        step = io_callback(self.draw, jax.ShapeDtypeStruct((), jnp.float32), i, ordered=True)\n"
        "        return c - step, jnp.sqrt(c)\n"
        "walk = Walk()\n"
        "out = jax.jit(lambda x: jax.lax.scan(walk, x, jnp.arange(6)))(4.0)[1]\n"
        "assert len(walk.steps) == 6",
        "jnp.sqrt(c)",
        ("iteration 3 of the loop", "`c` = -2"),
    ),
    "only told": (
        "told = []\n"
        "def body(state):\n"
        "    i, x = state\n"
        "    io_callback(told.append, None, x)\n"
        "    return i + 1, jnp.log(x)\n"
        "out = jax.jit(lambda x: jax.lax.while_loop(lambda s: s[0] < 5, body, (0, x)))(3.0)\n"
        "assert len(told) == 5",
        "jnp.log(x)",
        ("iteration 3 of the loop",),
    ),
    "the host itself": (
        "def host(x):\n"
        "    return np.where(np.asarray(x) > 0, x, np.nan)\n"
        "def f(x):\n"
        "    return jax.pure_callback(host, x, x, vmap_method='expand_dims') * 2\n"
        "out = jax.jit(jax.vmap(f))(jnp.array([1.0, -1.0]))",
        "jax.pure_callback(host, x, x, vmap_method='expand_dims')",
        ("what the host returned is NaN", "`x`: -1 there"),
    ),
}


@pytest.mark.parametrize(("cell", "marked", "says"), HOSTS.values(), ids=HOSTS)
def test_what_the_host_returned_is_taken_again_without_asking_it(cell: str, marked: str, says: tuple[str, ...]):
    found = seen(IMPORTS + "import numpy as np\nfrom jax.experimental import io_callback", cell)
    assert (found.finding.rule, found.marked) == ("nan-made", marked)
    assert all(words in f"{found.finding.title}\n{found.evidence}" for words in says)
    assert found.limits == []
    assert found.report.failure is None


def test_a_nan_in_the_data_is_no_fault_of_the_cell():
    found = seen(IMPORTS + "data = jnp.array([1.0, jnp.nan])", "out = jax.jit(lambda x: jnp.log(x).sum())(data)")
    assert (found.finding.rule, found.finding.severity) == ("nan-given", "note")
    assert "1 NaN in f32[2], the first at [1]" in found.evidence


def test_of_a_program_compiled_ahead_of_time_the_call_is_known():
    cell = "out = log(-jnp.ones(2)) * 2"
    found = seen(IMPORTS + "log = jax.jit(jnp.log).lower(jnp.ones(2)).compile()", cell)
    assert (found.finding.rule, found.marked) == ("nan-untraced", "log(-jnp.ones(2))")
    assert found.finding.title == "a program compiled ahead of time gave a NaN"
    assert found.limits == []


SHOWN = {
    "print(jnp.log(x))": ["nan-shown"],
    "jax.jit(lambda x: jax.debug.print('{}', jnp.log(x)))(x)": ["nan-shown"],
    "print(jnp.exp(x), 'nano', 'nan.txt')": [],
}


@pytest.mark.parametrize("cell", SHOWN)
def test_a_nan_that_is_shown_points_to_the_magic_that_finds_it(cell: str):
    assert watched(IMPORTS, "x = jnp.float32(-1.0)\n" + cell).rules == SHOWN[cell]
    assert "nan-shown" not in [finding.rule for finding in seen(IMPORTS, "x = jnp.float32(-1.0)\n" + cell).findings]


def test_cotangents_may_be_tapped_as_well():
    cell = """\
    def f(x):
        y = x - 1.0
        return jnp.sqrt(y).sum()
    out = jax.jit(jax.vmap(jax.grad(f)))(jnp.array([[3.0, 2.0], [1.0, 2.0]]))
    """
    found = seen(IMPORTS, cell, when="inf", grad=True)
    assert (found.finding.rule, found.marked) == ("infinity-made", "jnp.sqrt(y)")
    assert "the gradient is infinite" in found.finding.title
    assert any(series.gradient for series in found.report.taps)


DERIVATIVES = {
    "two functions": """\
        def entropy(p):
            return -xlogy(p, p).sum()
        def divergence(p):
            return xlogy(p - 1, p - 1).sum()
        first = jax.grad(entropy)(jnp.ones(3))
        out = jax.grad(divergence)(jnp.ones(3))
        """,
    "one function": """\
        def loss(p):
            first = xlogy(p, p)
            return (first + xlogy(p - 1, p - 1)).sum()
        out = jax.grad(loss)(jnp.ones(4))
        """,
    "two methods": """\
        class Model:
            def entropy(self, p):
                return -xlogy(p, p).sum()
            def divergence(self, p):
                return xlogy(p - 1, p - 1).sum()
        first = jax.value_and_grad(Model().entropy)(jnp.ones(5))
        out = jax.vmap(jax.grad(Model().divergence))(jnp.ones((2, 5)))
        """,
}


@pytest.mark.parametrize("program", DERIVATIVES.values(), ids=DERIVATIVES)
def test_the_derivative_of_one_function_of_jax_is_put_down_to_each_call_of_it(program: str):
    found = seen(IMPORTS + "from jax.scipy.special import xlogy", program)
    spans = [finding.span for finding in found.grave]
    assert [text_of(span) for span in spans if span is not None] == ["xlogy(p - 1, p - 1)"]


def test_a_derivative_that_was_first_taken_under_jit_in_another_cell_is_not_put_down_to_that():
    first = """\
    out = jax.jit(jax.grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0).sum()))(jnp.ones((4, 1)))
    """
    cell = """\
    @jax.custom_vjp
    def length(x):
        return jnp.sqrt((x * x).sum())
    length.defvjp(lambda x: (length(x), x), lambda x, g: (g * x / jnp.sqrt((x * x).sum()),))
    out = jax.vmap(jax.grad(length))(jnp.zeros((4, 2)))
    """
    seen(IMPORTS, first)
    assert seen(IMPORTS, cell).marked == "g * x / jnp.sqrt((x * x).sum())"


def test_nothing_is_watched_without_being_asked_for():
    assert seen(IMPORTS + "out = jnp.log(jnp.float32(-1.0))", when="x > 3").findings == []


def test_one_cause_is_one_finding_however_often_it_happens():
    cell = """\
    @jax.jit
    def f(x):
        return jnp.sqrt(x).sum()
    out = [f(jnp.array([-1.0 - i])) for i in range(5)]
    """
    assert "5 runs of the program gave one" in seen(IMPORTS, cell).evidence


def test_it_can_be_silenced_on_the_line():
    assert seen(IMPORTS + "out = jnp.log(jnp.float32(-1.0))  # jaxmagic: ignore[nan-made]").findings == []
