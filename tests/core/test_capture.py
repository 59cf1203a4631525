"""Every form of jitted function is seen, as it is, and nothing is compiled or traced on our account."""

import random
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmagic.core import jax_internals
from jaxmagic.core.capture import Capture
from jaxmagic.core.limits import Limits
from tests.core.captures import Notebook, events, inputs, is_user, outputs

STEP = """
    @jax.jit
    def step(params, x):
        return {"loss": ((x @ params["w"]) ** 2).sum()}
    x, params = jnp.ones(8), {"w": jnp.ones((8, 4)), "b": jnp.ones(4)}
"""


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


def test_a_jitted_function_with_its_arguments_by_the_paths_of_its_signature(notebook: Notebook):
    notebook.run(STEP)
    seen = notebook.trace("step(params, x)")
    step = seen.of("step")
    trace = seen.only("step")
    assert inputs(trace) == ["params['b']: f32[4]", "params['w']: f32[8,4]", "x: f32[8]"]
    assert outputs(trace) == ["['loss']: f32[]"]
    assert (trace.reason.kind, trace.calls, trace.cached) == ("first call", 1, False)
    assert step.span is not None
    assert (step.span.line, step.span.end_line) == (2, 3)
    assert trace.span is not None
    assert (trace.span.line, trace.span.column, trace.span.end_column) == (1, 0, 15)
    assert trace.program is not None
    assert trace.cost is not None
    assert trace.cost.flops
    assert not seen.limits.lines()


def test_seconds_are_those_of_tracing_lowering_compiling_and_running(notebook: Notebook):
    notebook.run(STEP)
    trace = notebook.trace("step(params, x)").only("step")
    assert min(trace.trace_s, trace.lower_s, trace.compile_s, trace.run_s) > 0
    assert not trace.persistent_cache


FORMS = {
    "static": ("jax.jit(power, static_argnums=1, static_argnames='mode')(x, 3, mode='a')", "power"),
    "partial": ("jax.jit(functools.partial(scale, factor=2.0))(x)", "scale"),
    "lambda": ("jax.jit(lambda x: x + 1)(x)", "<lambda>"),
    "grad": ("jax.jit(jax.grad(norm))(x)", "grad(norm)"),
    "vmap": ("jax.jit(jax.vmap(norm))(jnp.ones((3, 8)))", "vmap(norm)"),
    "bound method": ("jax.jit(Model().forward)(x)", "Model.forward"),
    "decorated method": ("Model().step(x)", "Model.step"),
    "static method": ("Model.helper(x)", "Model.helper"),
    "checkpoint": ("jax.jit(jax.checkpoint(norm))(x)", "checkpoint(norm)"),
    "decorated": ("jax.jit(announced(norm))(x)", "norm"),
}
DEFINITIONS = """
    import functools
    x = jnp.ones(8)
    def norm(x):
        return (x ** 2).sum()
    def power(x, n, *, mode):
        return x ** n
    def scale(x, factor):
        return x * factor
    def announced(f):
        @functools.wraps(f)
        def inner(*args):
            return f(*args)
        return inner
    class Model:
        @functools.partial(jax.jit, static_argnums=0)
        def step(self, x):
            return x + 1
        def forward(self, x):
            return x - 1
        @staticmethod
        @jax.jit
        def helper(x):
            return x * 2
"""


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_jitted_function_is_seen_under_its_name(notebook: Notebook, form: str):
    notebook.run(DEFINITIONS)
    call, name = FORMS[form]
    seen = notebook.trace(call)
    assert seen.names() == [name]
    assert seen.only(name).calls == 1
    assert seen.of(name).span is not None


def test_static_arguments_are_named_and_spelled(notebook: Notebook):
    notebook.run(DEFINITIONS)
    trace = notebook.trace(FORMS["static"][0]).only("power")
    assert inputs(trace) == ["x: f32[8]", "n = 3", "mode = 'a'"]


def test_donated_arguments_are_marked(notebook: Notebook):
    trace = notebook.trace("jax.jit(lambda x, y: x + y, donate_argnums=1)(jnp.ones(3), jnp.ones(3))").only("<lambda>")
    assert [(each.name, each.donated) for each in trace.inputs] == [("x", False), ("y", True)]


def test_a_nested_jit_belongs_to_the_one_it_is_traced_in(notebook: Notebook):
    seen = notebook.trace("""
        @jax.jit
        def inner(x):
            return x * 2
        @jax.jit
        def outer(x):
            return inner(x) + inner(x)
        outer(jnp.ones(3))
    """)
    inner, outer = seen.of("inner"), seen.of("outer")
    assert (inner.parent, outer.parent) == (outer.id, None)
    assert (inner.calls, outer.calls) == (2, 1)
    assert inner.traces[0].cost is None


def test_constants_are_named_after_globals_and_closures(notebook: Notebook):
    seen = notebook.trace("""
        table = jnp.arange(100.0)
        def make(weights):
            return jax.jit(lambda x: x @ weights + table)
        make(jnp.ones((100, 100)))(jnp.ones(100))
    """)
    found = {each.name: each.bytes for each in seen.only("make.<locals>.<lambda>".rpartition(".")[2]).constants}
    assert found == {"weights": 40_000, "table": 400}


LOOPS = {
    "scan": ("jax.lax.scan(body, 0.0, jnp.ones(4))", "body"),
    "while_loop": ("jax.lax.while_loop(lambda i: i < 3, lambda i: i + 1, 0)", "<lambda>"),
    "cond": ("jax.lax.cond(True, lambda x: x, lambda x: x * 2, jnp.ones(3))", "<lambda>"),
}


@pytest.mark.parametrize("kind", LOOPS)
def test_a_loop_run_eagerly_is_a_program_of_its_own(notebook: Notebook, kind: str):
    notebook.run("def body(carry, x):\n    return carry + x, carry\n")
    call, name = LOOPS[kind]
    trace = notebook.trace(f"{call}\n{call}" if kind == "scan" else call).only(name, kind)
    assert trace.calls == (2 if kind == "scan" else 1)
    assert trace.cost is not None


def test_the_span_of_a_loop_run_eagerly_is_the_definition_of_its_body(notebook: Notebook):
    cell = "def body(carry, x):\n    return carry + x, carry\njax.lax.scan(body, 0.0, jnp.ones(4))"
    span = notebook.trace(cell).of("body", "scan").span
    assert span is not None
    assert (span.line, span.column, span.end_line, span.end_column) == (1, 0, 2, 27)


def test_vmap_and_grad_of_a_jitted_function_run_programs_derived_from_it(notebook: Notebook):
    seen = notebook.trace("""
        @jax.jit
        def f(x):
            return (x ** 2).sum()
        jax.vmap(f)(jnp.ones((5, 3)))
        jax.grad(f)(jnp.ones(3))
    """)
    assert inputs(seen.only("f", "vmap")) == ["x: f32[5,3]"]
    ways = [trace.reason.text.rpartition(", ")[2] for trace in seen.of("f", "grad").traces]
    assert ways == ["forward", "backward"]
    assert seen.of("f").calls == 0
    assert not any(trace.calls_exact for trace in seen.of("f", "grad").traces)


def test_what_is_compiled_ahead_of_time_is_said_to_be(notebook: Notebook):
    notebook.run("f = jax.jit(lambda x: x * 2)\nold = f.lower(jnp.ones(5)).compile()\nx = jnp.ones(9)")
    seen = notebook.trace("compiled = f.lower(x).compile()\ncompiled(x)\ncompiled(x)\nold(jnp.ones(5))")
    new, old = [each for each in seen.functions if each.kind == "ahead of time"]
    assert (inputs(new.traces[0]), new.calls, new.traces[0].cached) == (["x: f32[9]"], 2, False)
    assert (inputs(old.traces[0]), old.calls, old.traces[0].cached) == (["args[0]: f32[5]"], 1, True)
    assert min(new.traces[0].lower_s, new.traces[0].compile_s) > 0


@pytest.mark.parametrize("call", ["jax.make_jaxpr(f)(x)", "jax.eval_shape(f, x)", "jax.jit(f).trace(x)"])
def test_what_is_only_evaluated_abstractly_is_said_to_be(notebook: Notebook, call: str):
    notebook.run("def f(x):\n    return x * 2\nx = jnp.ones(3)")
    trace = notebook.trace(call).only("f", "abstract")
    assert (trace.calls, trace.cost) == (0, None)
    assert trace.program is not None


def test_a_trace_that_fails_keeps_the_arguments_and_the_exception_passes(notebook: Notebook):
    notebook.run("f = jax.jit(lambda x, w: x @ w['a'])\nf(jnp.ones(3), {'a': jnp.ones((3, 2))})")
    seen = notebook.trace("f(jnp.ones(8), {'a': jnp.ones((3, 2))})")
    trace = seen.only("<lambda>")
    assert isinstance(seen.error, TypeError)
    assert inputs(trace) == ["x: f32[8]", "w['a']: f32[3,2]"]
    assert str(trace.reason) == "shape of x: f32[3] → f32[8]"
    assert trace.program is None


def test_calls_from_threads_are_seen(notebook: Notebook):
    notebook.run(STEP)
    seen = notebook.trace("""
        import threading
        threads = [threading.Thread(target=lambda: [step(params, x) for _ in range(50)]) for _ in range(3)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    """)
    assert seen.of("step").calls == 150


def test_calls_on_the_fast_path_are_counted(notebook: Notebook):
    notebook.run(STEP)
    trace = notebook.trace("for _ in range(1000): step(params, x)").only("step")
    assert (trace.calls, trace.calls_exact) == (1000, True)


def test_calls_of_two_programs_are_counted_apart(notebook: Notebook):
    notebook.run("f = jax.jit(lambda x: x + 1)\na, b = jnp.ones(2), jnp.ones(3)")
    traces = notebook.trace("for i in range(10): f(a), f(b), f(b)").of("<lambda>").traces
    assert [(trace.calls, trace.calls_exact) for trace in traces] == [(10, True), (20, True)]


def test_calls_are_counted_while_and_after_nans_are_checked(notebook: Notebook):
    notebook.run(STEP)
    seen = notebook.trace("""
        for _ in range(5): step(params, x)
        with jax.debug_nans(True):
            for _ in range(5): step(params, x)
        for _ in range(5): step(params, x)
    """)
    assert seen.of("step").calls == 15


def test_the_check_for_nans_works_under_a_capture(notebook: Notebook):
    notebook.run("f = jax.jit(lambda x: x / x)\nf(jnp.ones(3))")
    seen = notebook.trace("with jax.debug_nans(True):\n    f(jnp.ones(3))\n    f(jnp.zeros(3))")
    assert isinstance(seen.error, FloatingPointError)


def test_a_function_compiled_before_is_shown_and_its_caches_are_as_they_were(notebook: Notebook):
    notebook.run("""
        traced = []
        @jax.jit
        def f(x):
            traced.append(x.shape)
            return x * 2
        x = jnp.ones(3)
        f(x)
    """)
    size = notebook.names["f"]._cache_size()
    trace = notebook.trace("f(x)").only("f")
    assert (trace.cached, trace.calls) == (True, 1)
    assert trace.trace_s > 0
    assert trace.program is not None
    assert notebook.names["f"]._cache_size() == size
    with events() as seen:
        notebook.run("f(x)\nf(x)")
    assert seen == []
    assert len(notebook.names["traced"]) == 2


def test_without_retrace_a_function_compiled_before_is_not_run_again(notebook: Notebook):
    notebook.run("traced = []\nf = jax.jit(lambda x: (traced.append(1), x * 2)[1])\nx = jnp.ones(3)\nf(x)")
    trace = notebook.trace("f(x)", retrace=False).only("<lambda>")
    assert trace.cached
    assert trace.program is not None
    assert notebook.names["traced"] == [1]


def test_looking_again_prints_nothing_and_moves_no_random_state(notebook: Notebook, capsys: pytest.CaptureFixture[str]):
    notebook.run("""
        import random
        import numpy as np
        @jax.jit
        def f(x):
            print("tracing")
            return x * random.random() * np.random.rand()
        x = jnp.ones(3)
        f(x)
    """)
    capsys.readouterr()
    random.seed(1)
    np.random.seed(1)
    seen = notebook.trace("f(x)\nprint('done')")
    after = (random.random(), np.random.rand())
    random.seed(1)
    np.random.seed(1)
    assert after == (random.random(), np.random.rand())
    assert capsys.readouterr().out == "done\n"
    assert any("side effects" in line for line in seen.limits.lines())


def test_looking_again_finds_what_is_not_what_the_code_would_give_now(notebook: Notebook):
    notebook.run("rate = 0.1\ntable = jnp.arange(3.0)\nf = jax.jit(lambda x: x * rate + table)\nf(jnp.ones(3))")
    seen = notebook.trace("rate = 0.5\ntable = jnp.ones(3)\nf(jnp.ones(3))")
    (stale,) = seen.stale
    assert stale.name == "<lambda>"
    drifts = {(drift.what, drift.before, drift.after) for drift in stale.drifts}
    assert ("literal", "0.1", "0.5") in drifts
    assert any(before == "[0., 1., 2.]" for _, before, _ in drifts)
    assert next(drift.span for drift in stale.drifts if drift.what == "literal") is not None


def test_looking_again_at_code_that_now_fails_leaves_the_cell_alone(notebook: Notebook):
    notebook.run("table = [1.0]\nf = jax.jit(lambda x: x * table[0])\nx = jnp.ones(3)\nf(x)")
    seen = notebook.trace("table.clear()\ny = f(x)")
    assert seen.error is None
    assert "IndexError" in seen.stale[0].text


def test_the_body_of_an_eager_loop_is_looked_at_again(notebook: Notebook):
    notebook.run("""
        shapes = []
        def body(carry, x):
            shapes.append(x.shape)
            return carry + x, carry
        xs = jnp.ones(4)
        jax.lax.scan(body, 0.0, xs)
    """)
    before = len(notebook.names["shapes"])
    notebook.trace("jax.lax.scan(body, 0.0, xs)")
    assert len(notebook.names["shapes"]) == before + 1


def test_nothing_is_compiled_that_a_plain_run_does_not_compile(notebook: Notebook):
    cell = """
        y = step(params, x)
        jax.grad(lambda p: step(p, x)["loss"])(params)
        jax.vmap(lambda x: step(params, x))(jnp.ones((3, 8)))
        jax.lax.scan(body, 0.0, x)
        [x + 1 for _ in range(10)]
    """
    notebook.run(STEP)
    notebook.run("def body(carry, x):\n    return carry + x, carry\n" + "")
    notebook.run(cell)
    with events() as plain:
        notebook.run(cell)
    with events() as first:
        notebook.trace(cell)
    with events() as second:
        notebook.trace(cell)
    compilations = "backend_compile_duration"
    assert first.count(compilations) == second.count(compilations) == plain.count(compilations)


def test_the_first_run_compiles_as_often_as_without_a_capture(notebook: Notebook):
    cell = "jax.jit(lambda x: jnp.sin(x) @ jnp.cos(x))(jnp.ones(7))"
    other = cell.replace("7", "11")
    with events() as plain:
        notebook.run(cell)
    with events() as seen:
        notebook.trace(other)
    assert seen.count("backend_compile_duration") <= plain.count("backend_compile_duration")


def test_a_function_is_announced_while_it_is_traced(notebook: Notebook):
    heard: list[str] = []

    class Announced:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            heard.append(f"begin {self.name}")

        def __exit__(self, *_: object) -> None:
            heard.append(f"end {self.name}")

    notebook.run("@jax.jit\ndef inner(x):\n    return x + 1\n@jax.jit\ndef outer(x):\n    return inner(x) * 2\n")
    notebook.trace("outer(jnp.ones(3))\nouter(jnp.ones(3))", tracing=Announced)
    assert heard == ["begin outer", "begin inner", "end inner", "end outer"]


def test_after_a_capture_every_piece_of_jax_is_its_own_again(notebook: Notebook):
    before = {key: getattr(piece.owner, piece.name) for key, piece in jax_internals.PIECES.items()}
    notebook.run(STEP)
    notebook.trace("step(params, x)\nraise ValueError")
    assert {key: getattr(piece.owner, piece.name) for key, piece in jax_internals.PIECES.items()} == before
    state = jax_internals.PIECES["post_hook"]
    assert getattr(state.owner, state.name).get_global() is None


@pytest.mark.parametrize("first_out", ["inner", "outer"])
def test_captures_may_overlap_and_stop_in_any_order(notebook: Notebook, first_out: str):
    before = {key: getattr(piece.owner, piece.name) for key, piece in jax_internals.PIECES.items()}
    notebook.run(STEP)
    notebook.run("step(params, x)")
    outer, inner = (Capture(Limits(), is_user=is_user) for _ in range(2))
    outer.start()
    inner.start()
    notebook.run("step(params, x)\nstep(params, x)")
    order = (inner, outer) if first_out == "inner" else (outer, inner)
    order[0].stop()
    notebook.run("step(params, x)")
    order[1].stop()
    counts = [[each.calls for each in capture.compiled(is_user)] for capture in order]
    assert counts == [[2], [3]]
    assert {key: getattr(piece.owner, piece.name) for key, piece in jax_internals.PIECES.items()} == before


OURS = (
    "tracing.Tracing._enter",
    "tracing.Tracing._begun",
    "tracing.Tracing._answered",
    "tracing.Tracing._look",
    "execution.Execution._entry_of",
    "execution.Execution._ran",
    "execution.Execution._called_one_of",
    "registrar.Registrar.traced",
    "derived.Derived.entry",
    "derived.Derived.ahead_of_time",
    "seconds.Stopwatch._to",
    "registrar.signature_of",
)


@pytest.mark.parametrize("ours", OURS)
def test_a_part_of_ours_that_fails_leaves_the_result_alone_and_a_line_in_the_limits(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, ours: str
):
    notebook.run(STEP)
    notebook.run("old = jax.jit(lambda x: x + 1).lower(x).compile()")
    monkeypatch.setattr(f"jaxmagic.core.{ours}", _fails)
    seen = notebook.trace("""
        for _ in range(3): y = step(params, jnp.ones(8))["loss"]
        z = jax.lax.scan(lambda c, x: (c + x, None), 0.0, old(x))[0]
    """)
    assert seen.error is None
    assert (float(notebook.names["y"]), float(notebook.names["z"])) == (256.0, 16.0)
    assert any("not observed (ZeroDivisionError" in line for line in seen.limits.lines())


def _fails(*_: object, **__: object) -> None:
    raise ZeroDivisionError


def test_a_switch_of_the_nan_check_in_the_cell_stays_as_the_cell_left_it(notebook: Notebook):
    place = jax_internals.PIECES["post_hook"]
    notebook.run(STEP)
    cell = "step(params, x)\njax.config.update('jax_debug_nans', True)\nstep(params, x)\nstep(params, x)"
    try:
        assert notebook.trace(cell).of("step").calls == 3
        assert getattr(place.owner, place.name).get_global().__module__.startswith("jax.")
    finally:
        jax.config.update("jax_debug_nans", False)
    assert getattr(place.owner, place.name).get_global() is None


def test_a_piece_that_jax_no_longer_has_costs_only_what_it_showed(notebook: Notebook, monkeypatch: pytest.MonkeyPatch):
    piece = jax_internals.PIECES["call_impl"]
    monkeypatch.setitem(jax_internals.PIECES, "call_impl", piece._replace(name="_gone"))
    notebook.run(STEP)
    seen = notebook.trace("step(params, x)")
    (trace,) = seen.functions[0].traces
    assert trace.cost is None
    assert trace.program is not None
    assert any(piece.lost in line for line in seen.limits.lines())


def test_leak_checking_accuses_nobody(notebook: Notebook):
    notebook.run(STEP)
    seen = notebook.trace("""
        @jax.jit
        def outer(params, x):
            @jax.jit
            def closed_over(y):
                return y * x
            return jax.lax.scan(lambda c, y: (c + closed_over(y).sum(), y), step(params, x)["loss"], x)
        with jax.checking_leaks():
            outer(params, x)
            jax.grad(lambda p: outer(p, x)[0])(params)
    """)
    assert seen.error is None
    assert "outer" in seen.names()


def test_an_interrupt_while_tracing_takes_everything_off(notebook: Notebook):
    notebook.run("def f(x):\n    raise KeyboardInterrupt\n")
    capture = Capture(Limits(), is_user=is_user)
    capture.start()
    with pytest.raises(KeyboardInterrupt):
        notebook.run("jax.jit(f)(jnp.ones(3))")
    capture.stop()
    assert threading.active_count() >= 1
    assert jax.jit(lambda x: x + 1)(jnp.ones(3)).sum() == 6


def test_a_lambda_jitted_in_a_long_loop_is_listed_up_to_a_limit(notebook: Notebook):
    seen = notebook.trace("x = jnp.ones(3)\nfor i in range(210): jax.eval_shape(jax.jit(lambda x: x), x)")
    assert max(len(each.traces) for each in seen.functions) == 200
    assert any("beyond the first 200" in line for line in seen.limits.lines())
