"""Shapes beside lines: variables, spans, calls, transformations and provenance."""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cells import run_cell

from jaxmagic.core import jax_internals

JAX = {"jax": jax, "jnp": jnp, "np": np}


def test_every_variable_of_a_jitted_function_has_its_shape():
    cell = run_cell(
        """
        @jax.jit
        def layer(x, w):
            y = x @ w
            z = jnp.tanh(y)
            return z.sum(axis=0)

        out = layer(jnp.ones((8, 3)), jnp.ones((3, 4)))
        """,
        JAX,
    )
    assert cell.hints("layer") == [
        "2 x: f32[8,3]",
        "2 w: f32[3,4]",
        "3 y: f32[8,4]",
        "4 z: f32[8,4]",
        "5 return: f32[4]",
    ]
    assert cell.hints("<module>") == ["7 out: f32[4]"]
    (call,) = cell.calls("layer")
    assert (call.traced, call.transforms, call.times) == (True, ("jit layer",), 1)
    assert {hint.call for hint in cell.of("layer", "y")} == {call.id}
    assert (call.span.line, call.span.end_line) == (2, 5)
    assert cell.limits.lines() == ()


def test_a_function_that_begins_with_a_lambda_keeps_its_own_lines():
    cell = run_cell(
        """
        @jax.jit
        def step(x):
            loss = lambda p: p * 2
            return jax.tree.map(lambda p: p + 1, loss(x))

        out = step(jnp.ones(3))
        """,
        JAX,
    )
    assert cell.hints("step") == ["2 x: f32[3]", "4 return: f32[3]"]
    (call,) = cell.calls("step")
    assert call.span.line == 2


def test_concrete_arrays_and_numpy_arrays_are_shown_too():
    cell = run_cell("a = np.ones((2, 3))\nb = jnp.asarray(a)\nc = b[0]\nd = 3.0", JAX)
    assert cell.hints("<module>") == ["1 a: np f64[2,3]", "2 b: f32[2,3]", "3 c: f32[3]"]
    (call,) = cell.calls("<module>")
    assert not call.traced


def test_what_a_name_held_before_is_not_told_of_a_call_over_several_lines():
    cell = run_cell("""
        def step(x):
            x = jnp.add(
                x,
                jnp.ones((2, 3)),
            )
            return x
        x = step(jnp.ones(3))
        x = jnp.sum(
            x,
        )
        for x in jnp.split(
            jnp.ones(4),
            4,
        ):
            pass
    """, {"jnp": jnp})  # fmt: skip
    assert cell.hints("step") == ["1 x: f32[3]", "2 x: f32[2,3]", "6 return: f32[2,3]"]
    assert cell.hints("<module>") == ["7 x: f32[2,3]", "8 x: f32[]", "11 x: f32[1]"]


def test_what_a_name_held_before_is_not_told_of_the_function_that_takes_it():
    cell = run_cell("""
        @jax.jit
        def w(x):
            return x
        w(jnp.ones(4))
    """, {"jax": jax, "jnp": jnp, "w": jnp.ones(3)})  # fmt: skip
    assert cell.hints("<module>") == []


def test_a_hint_says_which_text_it_belongs_to():
    cell = run_cell(
        """
        def f(x, scale=2):
            y = (x *
                 scale); z = y[0]
            for row in y:
                total = row.sum()
            return total
        f(jnp.ones((2, 3)))
        """,
        JAX,
    )
    spans = {hint.name: hint.span for hint in cell.record.hints()}
    places = {name: (span.line, span.column, span.end_line, span.end_column) for name, span in spans.items()}
    assert places == {
        "x": (1, 6, 1, 7),
        "y": (2, 4, 3, 15),
        "z": (3, 17, 3, 25),
        "row": (4, 4, 4, 16),
        "total": (5, 8, 5, 25),
        "return": (6, 4, 6, 16),
    }
    assert {hint.name: hint.role for hint in cell.record.hints()}["x"] == "argument"


def test_a_function_called_with_two_shapes_has_two_calls():
    cell = run_cell(
        """
        @jax.jit
        def double(x):
            y = x + x
            return y
        for n in (2, 3, 3):
            double(jnp.ones(n))
        """,
        JAX,
    )
    first, second = cell.calls("double")
    assert (first.times, second.times) == (1, 1)
    assert [(hint.call, str(hint)) for hint in cell.of("double", "y")] == [
        (first.id, "y: f32[2]"),
        (second.id, "y: f32[3]"),
    ]


def test_equal_calls_are_counted_together():
    cell = run_cell("def f(x):\n    y = x * 2\n    return y\nfor _ in range(3):\n    f(jnp.ones(2))", JAX)
    (call,) = cell.calls("f")
    (hint,) = cell.of("f", "y")
    assert (call.times, hint.times) == (3, 3)


def test_a_last_smaller_batch_is_seen_after_many_equal_ones():
    cell = run_cell(
        """
        def eager(batch):
            mean = batch.mean(axis=1)
            return mean
        for batch in [jnp.ones((8, 2))] * 50 + [jnp.ones((3, 2))]:
            loss = eager(batch)
        """,
        JAX,
    )
    assert [str(hint) for hint in cell.of("eager", "mean")] == ["mean: f32[8]", "mean: f32[3]"]
    assert [str(hint) for hint in cell.of("<module>", "loss")] == ["loss: f32[8]", "loss: f32[3]"]


def test_transformations_are_named_innermost_first():
    cell = run_cell(
        """
        def loss(w, x):
            h = w * x
            return h.sum()
        step = jax.jit(lambda w, xs: jax.vmap(jax.grad(loss), (None, 0))(w, xs))
        out = step(jnp.ones(3), jnp.ones((32, 3)))
        """,
        JAX,
    )
    (call,) = cell.calls("loss")
    assert call.transforms == ("grad", "vmap ×32", "jit <lambda>")
    assert cell.hints("loss")[:3] == [
        "1 w: f32[3]",
        "1 x: f32[3] ×32 (vmap)",
        "2 h: f32[3] ×32 (vmap)",
    ]


def test_bodies_of_loops_and_branches_are_shown():
    cell = run_cell(
        """
        @jax.jit
        def run(xs):
            def body(carry, x):
                new = carry + x.sum()
                return new, new
            total, sums = jax.lax.scan(body, 0.0, xs)
            def bigger(v):
                w = v * 2
                return w
            grown = jax.lax.while_loop(lambda v: v < 100, bigger, total)
            chosen = jax.lax.cond(grown > 3, lambda a: a[0], lambda a: a[1], sums)
            @jax.checkpoint
            def again(s):
                t = jnp.sin(s)
                return t
            return chosen + again(sums).sum()
        run(jnp.ones((5, 3)))
        """,
        JAX,
    )
    assert "5 return: {[0]: f32[], [1]: f32[]}" in cell.hints("run.<locals>.body")
    assert "3 x: f32[3]" in cell.hints("run.<locals>.body")
    transforms = {call.function: call.transforms for call in cell.record.calls()}
    assert transforms["run.<locals>.body"] == ("scan body", "jit run")
    assert transforms["run.<locals>.bigger"] == ("while body", "jit run")
    assert transforms["run.<locals>.again"] == ("remat", "jit run")
    assert cell.hints("run.<locals>.bigger") == ["7 v: f32[]", "8 w: f32[]", "9 return: f32[]"]
    words = {call.transforms[0] for call in cell.calls("run.<locals>.<lambda>")}
    assert words == {"while condition", "cond branch"}
    assert "11 chosen: f32[]" in cell.hints("run")
    assert "6 sums: f32[5]" in cell.hints("run")


def test_a_custom_gradient_is_shown_forward_and_backward():
    cell = run_cell(
        """
        @jax.custom_vjp
        def clip(x):
            return x
        def forward(x):
            kept = x.sum()
            return x, kept
        def backward(kept, tangent):
            scaled = tangent * kept
            return (scaled,)
        clip.defvjp(forward, backward)
        jax.grad(lambda x: clip(x).sum())(jnp.ones(3))
        """,
        JAX,
    )
    assert cell.hints("forward")[1] == "5 kept: f32[]"
    assert "8 scaled: f32[3]" in cell.hints("backward")


FAILING = """
def model(params, x):
    h = x @ params["w1"]
    h = jnp.tanh(h)
    try:
        h = h + jnp.ones(999)
    except (TypeError, ValueError):
        pass
    out = h @ params["w2"]
    return out
params = {"w1": jnp.ones((3, 8)), "w2": jnp.ones((4, 1))}
jax.jit(model)(params, jnp.ones((5, 3)))
"""


def test_a_failing_trace_shows_everything_up_to_the_failing_line():
    cell = run_cell(FAILING, JAX)
    assert isinstance(cell.error, TypeError | ValueError)
    assert cell.hints("model") == [
        "1 params: {['w1']: f32[3,8], ['w2']: f32[4,1]}",
        "1 x: f32[5,3]",
        "2 h: f32[5,8]",
        "3 h: f32[5,8]",
    ]


def test_the_last_line_that_wrote_a_variable_is_known_after_the_frame_is_gone():
    cell = run_cell(FAILING, JAX)
    written = cell.record.written(cell.file, "model", "h", 8)
    assert written is not None
    assert (written.span.line, str(written)) == (3, "h: f32[5,8]")
    argument = cell.record.written(cell.file, "model", "x", 2)
    assert argument is not None
    assert (argument.role, str(argument)) == ("argument", "x: f32[5,3]")
    assert cell.record.written(cell.file, "model", "out", 9) is None
    assert cell.record.written("elsewhere.py", "model", "h", 8) is None


def test_in_a_loop_the_latest_writing_counts():
    cell = run_cell("x = jnp.ones(8)\nfor n in (4, 2):\n    y = x\n    x = x[:n]", JAX)
    written = cell.record.written(cell.file, "<module>", "x", 5)
    assert str(written) == "x: f32[2]"
    carried = cell.record.written(cell.file, "<module>", "y", 1)
    assert str(carried) == "y: f32[4]"


def test_the_jitted_name_is_taken_from_the_capture_where_jax_does_not_tell(monkeypatch):
    cell = run_cell("pass", JAX)
    monkeypatch.setitem(
        jax_internals.PIECES, "current_trace", jax_internals.Piece(object(), "trace_ctx", "transformations", ())
    )
    record: Any = cell.record
    with record.tracing("outer"), record.tracing("inner"):
        record.entered(sys._getframe())
    assert cell.record.calls()[-1].transforms == ("jit inner", "jit outer")
