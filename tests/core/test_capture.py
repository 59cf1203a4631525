"""Every form of jitted function is seen, as it is."""

import pytest

from tests.core.captures import STEP, Notebook, inputs, outputs


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


def test_a_function_made_by_exec_is_the_users(notebook: Notebook):
    seen = notebook.trace("exec('def made(x):\\n    return x * 2')\njax.jit(made)(jnp.ones(3))")
    assert seen.names() == ["made"]


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
    "fori_loop": ("jax.lax.fori_loop(0, 4, lambda i, x: x + i, jnp.ones(3))", "<lambda>"),
    "map": ("jax.lax.map(lambda x: x * 2, jnp.ones(3))", "<lambda>"),
    "switch": ("jax.lax.switch(1, [lambda x: x, lambda x: x * 2], jnp.ones(3))", "<lambda>"),
}
"""By the function that was called, whatever primitive JAX makes of it."""


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
        for _ in range(7):
            jax.vmap(f)(jnp.ones((5, 3)))
            jax.grad(f)(jnp.ones(3))
        jax.jvp(f, (jnp.ones(3),), (jnp.ones(3),))
    """)
    assert inputs(seen.only("f", "vmap")) == ["x: f32[5,3]"]
    ways = [trace.reason.text.rpartition(", ")[2] for trace in seen.of("f", "grad").traces]
    assert ways == ["forward", "backward"]
    counts = [
        (trace.calls, trace.calls_exact) for kind in ("vmap", "grad", "jvp") for trace in seen.of("f", kind).traces
    ]
    assert counts == [(7, True), (7, True), (7, True), (1, True)]
    assert seen.of("f").calls == 0


def test_a_derived_program_is_forward_or_backward_by_what_jax_was_doing(notebook: Notebook):
    seen = notebook.trace("""
        @jax.custom_vjp
        def clip(x):
            return x
        clip.defvjp(lambda x: (x * 2, x), lambda x, g: (g * x,))
        @jax.jit
        def f(x):
            return clip(x).sum()
        jax.grad(f)(jnp.ones(3))
        jax.vmap(jax.grad(f))(jnp.ones((2, 3)))
        @jax.jit
        def g(x):
            return (x ** 3).sum()
        jax.linearize(g, jnp.ones(3))[1](jnp.ones(3))
        jax.hessian(g)(jnp.ones(3))
    """)

    def ways(name: str, kind: str) -> list[str]:
        return [trace.reason.text.rpartition(", ")[2] for trace in seen.of(name, kind).traces]

    assert ways("f", "grad") == ["forward", "backward"] * 2
    assert ways("g", "linearize") == ["linear part"]
    assert set(ways("g", "grad")) == {"forward", "backward"}


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
