"""The explanation of an exception: where, with which operands, from where, and never at the cost of the cell."""

import gc
import weakref

import jax
import pytest
from cells import run_cell
from failing_cells import failed

from jaxmagic.core.failures.explain import MOST_CHARACTERS, explain
from jaxmagic.core.limits import Limits
from jaxmagic.core.rules import rules
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.source.spans import text_of
from jaxmagic.records import Failure, Hint

IMPORTS = "import jax, jax.numpy as jnp\n"

MODEL = (
    IMPORTS
    + """
def project(h, w):
    z = h.T
    return z @ w

@jax.jit
def model(params, x):
    y = x * 2
    return project(y, params["w"])
"""
)


def test_the_failing_expression_is_the_innermost_of_the_users():
    program = failed(MODEL, 'params = {"w": jnp.ones((4, 2))}\nmodel(params, jnp.ones((5, 3)))')
    assert program.failure.type == "TypeError"
    assert program.text == "z @ w"
    frames = program.failure.frames
    assert [frame.function for frame in frames][:3] == ["project", "model", "<module>"]
    assert [frame.parent for frame in frames] == [*range(1, len(frames)), -1]
    assert program.operands == {"z": "f32[3,5]", "w": "f32[4,2]"}


def test_provenance_goes_on_into_the_callers():
    program = failed(MODEL, 'params = {"w": jnp.ones((4, 2))}\nmodel(params, jnp.ones((5, 3)))')
    z, w = program.failure.operands
    assert [(hint.function, hint.name, hint.role, hint.span.line) for hint in z.provenance] == [
        ("project", "z", "assigned", 4),
        ("project", "h", "argument", 3),
        ("model", "y", "assigned", 9),
        ("model", "x", "argument", 8),
    ]
    assert [(hint.function, hint.name) for hint in w.provenance][:2] == [("project", "w"), ("model", "params")]


def test_with_a_line_record_the_shapes_are_those_at_the_lines():
    cell = run_cell(
        IMPORTS + "@jax.jit\ndef f(x):\n    y = x.reshape(6)\n    y = y[:4]\n    return y + x\nf(jnp.ones((2, 3)))"
    )
    assert cell.error is not None
    failure = explain(cell.error, lines=cell.record, policy=Policy(), limits=cell.limits)
    y = failure.operands[0]
    assert str(y.aval) == "f32[4]"
    assert (y.provenance[0].span.line, str(y.provenance[0])) == (5, "y: f32[4]")
    assert all(isinstance(hint, Hint) for operand in failure.operands for hint in operand.provenance)


PLACES = [
    ("f = lambda c, x: (c @ x, None)\njax.lax.scan(f, jnp.ones(3), jnp.ones((2, 4)))", "c @ x"),
    ("jax.vmap(lambda a, b: a + b)(jnp.ones((2, 3)), jnp.ones((2, 4)))", "a + b"),
    ("jax.grad(lambda w: (w + jnp.ones(4)).sum())(jnp.ones(3))", "w + jnp.ones(4)"),
    ("jax.jit(jax.checkpoint(lambda w: w @ w))(jnp.ones((2, 3)))", "w @ w"),
    ("class A:\n    def __call__(self, x):\n        return [v @ v for v in x]\nA()([jnp.ones((2, 3))])", "v @ v"),
    ("def g():\n    yield jnp.ones(3) + jnp.ones(4)\nlist(g())", "jnp.ones(3) + jnp.ones(4)"),
    ("def f(x):\n    x += jnp.ones(4)\n    return x\njax.jit(f)(jnp.ones(3))", "x += jnp.ones(4)"),
    ("x = jnp.ones(3)\ny = (x +\n     jnp.ones(4))", "x +\n     jnp.ones(4)"),
]


@pytest.mark.parametrize(("body", "text"), PLACES)
def test_the_expression_is_found_through_transformations_and_kinds_of_code(body: str, text: str):
    program = failed(IMPORTS + body)
    assert program.text == text
    assert [operand.aval is not None for operand in program.failure.operands] == [True, True]


def test_the_transformations_are_known_from_the_frames_even_when_jax_cut_them_out():
    def outer(x: jax.Array) -> jax.Array:
        return jax.vmap(lambda v: v if v > 0 else -v)(x)

    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        jax.jit(outer)(jax.numpy.ones(3))
    failure = explain(caught.value)
    assert failure.phase == "tracing"
    assert "batch" in failure.findings[0].explanation


def test_a_long_message_is_capped():
    class LoudError(Exception):
        pass

    error = LoudError("x" * (MOST_CHARACTERS + 5000))
    assert len(explain(error).message) < MOST_CHARACTERS + 50
    assert explain(error).message.endswith("(5,000 characters more)")


def test_an_exception_without_user_frames_is_still_a_failure():
    assert explain(ValueError("no")) == Failure("ValueError", "no", None)


def test_plain_python_errors_are_shown_without_a_finding():
    program = failed("x = {}\nx['missing']")
    assert program.failure.type == "KeyError"
    assert program.failure.phase == "python"
    assert program.text == "x['missing']"
    assert program.failure.findings == ()


def test_nothing_of_the_cell_is_kept():
    program = failed(IMPORTS + "class Box: pass\nbox = Box()\nbox.a = jnp.ones(3)\nbox.a + jnp.ones(4)")
    box = weakref.ref(program.notebook.namespace["box"])
    program.error.__traceback__ = None
    program.notebook.namespace.clear()
    gc.collect()
    assert box() is None
    assert program.operands == {"box.a": "f32[3]", "jnp.ones(4)": "f32[4]"}


def test_no_code_of_the_user_runs_while_operands_are_looked_at():
    program = failed(
        IMPORTS + "log = []\nclass Loud:\n    @property\n    def w(self):\n        log.append('w')\n"
        "        return jnp.ones(4)\n"
        "    def __getattr__(self, name):\n        log.append(name)\n        raise AttributeError(name)\n"
        "    def __repr__(self):\n        log.append('repr')\n        return ''\n    def __eq__(self, other):\n"
        "        log.append('eq')\n        return True\n    __hash__ = None\nloud = Loud()",
        "jnp.ones(3) + loud.w",
    )
    assert program.notebook.namespace["log"] == ["w"]
    assert program.operands["jnp.ones(3)"] == "f32[3]"


def test_a_rule_that_fails_is_one_line_in_limits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("jaxmagic.core.rules.shapes._clash", lambda shapes: 1 / 0)
    program = failed(IMPORTS + "jnp.ones((2, 3)) + jnp.ones((2, 4))")
    assert [line for line in program.limits if "broadcast-shapes" in line]
    assert program.failure.operands


def test_no_leak_is_reported_by_jax_while_explaining():
    program = failed(
        IMPORTS + "with jax.checking_leaks():\n    jax.jit(lambda x: x @ jnp.ones((4, 2)))(jnp.ones((2, 3)))"
    )
    assert program.finding.rule == "matmul-shapes"


def test_records_hold_no_escape_codes_and_survive_hostile_text():
    program = failed(IMPORTS + "class Odd(Exception): pass\nraise Odd('\\x1b[31m<img src=x onerror=alert(1)>\\u202e')")
    assert program.failure.message == "\x1b[31m<img src=x onerror=alert(1)>\u202e"
    assert text_of(program.failure.span) if program.failure.span else False


def test_every_rule_has_an_id_a_summary_and_documentation():
    known = rules()
    assert len({rule.id for rule in known}) == len(known) > 30
    for rule in known:
        assert rule.id == rule.id.lower().replace("_", "-")
        assert rule.summary
        assert rule.documentation
        assert "ure: " in rule.documentation or "Not sure" in rule.documentation, rule.id


def test_explaining_takes_milliseconds():
    program = failed(MODEL, 'params = {"w": jnp.ones((4, 2))}\nmodel(params, jnp.ones((5, 3)))')
    limits = Limits()
    assert explain(program.error, limits=limits).findings
    assert limits.lines() == ()
