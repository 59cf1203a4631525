"""Shapes beside lines do no harm: no leak, no user code run, no result changed, no end to what is kept."""

import gc
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cells import run_cell

JAX = {"jax": jax, "jnp": jnp, "np": np}


def test_leaves_beyond_the_cap_are_counted():
    cell = run_cell("params = {f'w{n}': jnp.ones(3) for n in range(40)}", JAX)
    (hint,) = cell.of("<module>", "params")
    assert (len(hint.leaves), hint.hidden) == (24, 16)


def test_a_function_that_grows_without_end_is_capped_and_the_limits_say_so():
    cell = run_cell(
        """
        def grow(x):
            y = x
        def collect():
            z = np.ones(0)
            for _ in range(100):
                z = np.append(z, 1.0)
        for n in range(100):
            grow(np.ones(n))
        collect()
        """,
        JAX,
    )
    assert len(cell.calls("grow")) == 64
    assert len(cell.of("collect", "z")) == 33
    assert cell.limits.lines()[0] == "grow: called in over 64 ways; the rest are shown as one"
    assert cell.limits.lines()[-1].startswith("collect: z had over 32 shapes in a line; the rest are left out")


def test_code_without_source_is_shown_by_the_lines_of_its_bytecode():
    cell = run_cell("def f(x):\n    y = x[0]\n    return y\nz = f(jnp.ones((2, 3)))", JAX, known=False)
    assert cell.hints("f") == ["1 x: f32[2,3]", "2 y: f32[3]", "3 return: f32[3]"]
    assert cell.hints("<module>") == ["4 z: f32[3]"]


def test_two_cells_with_the_same_text_are_two():
    text = "def f(x):\n    y = x + 1\n    return y"
    first, second = run_cell(text, JAX), run_cell(text, JAX)
    both = run_cell("f(jnp.ones(2)); g(jnp.ones(3))", {**JAX, "f": first.names["f"], "g": second.names["f"]})
    files = {hint.span.file: str(hint) for hint in both.of("f", "y")}
    assert files == {first.file: "y: f32[2]", second.file: "y: f32[3]"}


def test_the_leak_checker_accuses_nobody():
    with jax.checking_leaks():
        cell = run_cell(
            """
            @jax.jit
            def step(w, xs):
                def body(c, x):
                    d = c * x
                    return d, d
                last, all = jax.lax.scan(body, w.sum(), xs)
                g = jax.grad(lambda v: (v * last).sum())(w)
                return jax.vmap(lambda r: r * g)(jnp.ones((3, 2)))
            step(jnp.ones(2), jnp.ones(4))
            """,
            JAX,
        )
    assert cell.error is None
    assert "4 d: f32[]" in cell.hints("step.<locals>.body")


def test_no_tracer_and_no_array_is_kept():
    cell = run_cell(
        "alive = []\ndef f(x):\n    y = x + 1\n    alive.append(weakref.ref(y))\n    return 0\njax.jit(f)(1.0)\n"
        "def g():\n    z = jnp.ones(3)\n    alive.append(weakref.ref(z))\ng()",
        {**JAX, "weakref": weakref},
    )
    gc.collect()
    assert cell.error is None
    assert len(cell.names["alive"]) == 2
    assert [reference() for reference in cell.names["alive"]] == [None, None]


HOSTILE = """
class Hostile:
    def refuse(self, *args):
        touched.append(1)
        raise RuntimeError("do not touch")
    __getattr__ = __eq__ = __bool__ = __repr__ = __len__ = __iter__ = __hash__ = __array__ = refuse
    __class__ = property(refuse)
    @property
    def weight(self):
        touched.append(1)
        raise RuntimeError("do not touch")
def use(value):
    copy = value
    pair = [value, jnp.ones(2)]
    value.held = pair
    return copy
result = use(Hostile())
"""


def test_hostile_objects_are_not_touched():
    cell = run_cell(HOSTILE, {**JAX, "touched": []})
    assert cell.error is None
    assert cell.names["touched"] == []
    assert cell.limits.lines() == ()
    assert "13 pair: {[1]: f32[2]}" in cell.hints("use")


def test_names_given_in_a_mapping_of_the_users_are_left_alone():
    class Space(dict):
        def get(self, key, default=None):
            raise RuntimeError("do not touch")

    cell = run_cell(
        """
        class Meta(type):
            @classmethod
            def __prepare__(cls, name, bases):
                return Space()
        class Config(metaclass=Meta):
            weight = jnp.ones(3)
        x = Config.weight
        """,
        {**JAX, "Space": Space},
    )
    assert cell.error is None
    assert cell.hints("<module>") == ["7 x: f32[3]"]
    assert cell.limits.lines() == ()


@pytest.mark.parametrize("piece", ["leaves", "transforms"])
def test_a_hook_that_raises_leaves_a_line_in_the_limits_and_the_users_result(piece, monkeypatch):
    def fail(*args):
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(f"jaxmagic.core.lines.record.{piece}", fail)
    cell = run_cell("def f(x):\n    y = x + 1\n    return y\nout = float(jax.jit(f)(1.0))", JAX)
    assert cell.error is None
    assert cell.names["out"] == 2.0
    (line,) = cell.limits.lines()
    assert line.startswith("shapes beside lines: not observed (RuntimeError: a bug of ours)")


def test_results_are_what_they_are_without_a_record():
    text = "key = jax.random.key(0)\nx = jax.random.normal(key, (4, 4))\nfor _ in range(5):\n    x = jnp.tanh(x @ x)"
    plain: dict[str, Any] = dict(JAX)
    exec(text, plain)
    cell = run_cell(text, JAX)
    assert np.array_equal(plain["x"], cell.names["x"])
