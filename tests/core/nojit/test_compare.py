"""Two runs of the same cell: from equal inputs, with a verdict in words."""

import random
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

from jaxmagic.core.nojit.announcement import effects
from jaxmagic.core.nojit.inputs import Inputs, names_read
from jaxmagic.core.nojit.numbers import Tolerance, distance
from jaxmagic.core.source.spans import text_of
from jaxmagic.records import Comparison, Report


@pytest.fixture
def shell():
    shell = InteractiveShell.instance()
    shell.reset()
    shell.run_line_magic("load_ext", "jaxmagic")
    shell.run_cell("import functools, random, jax, jax.numpy as jnp, numpy as np").raise_error()
    yield shell
    shell.run_line_magic("unload_ext", "jaxmagic")


def compare(shell: InteractiveShell, cell: str, flags: str = "") -> Comparison:
    comparison = compared(shell, cell, flags).comparison
    assert comparison is not None
    return comparison


def compared(shell: InteractiveShell, cell: str, flags: str = "") -> Report:
    shell.run_cell(f"%%jaxnojit -q --compare {flags} -o report\n{cell}")
    report = shell.user_ns.pop("report")
    assert isinstance(report, Report)
    assert report.comparison is not None, report.limits
    return report


def verdicts(comparison: Comparison) -> dict[str, str]:
    return {each.name: each.verdict for each in comparison.differences}


# ------------------------------------------------------------------------------------------- verdicts


def test_equal_results_are_equal_to_the_last_bit(shell: InteractiveShell):
    found = compare(shell, "y = jax.jit(lambda x: x + 1)(jnp.ones(3))")
    assert found.verdict == "Equal to the last bit: 1 array compared."
    assert verdicts(found) == {"y": "equal"}
    assert (found.left, found.right) == ("with jit", "without jit (everywhere)")
    assert found.first is None


def test_rounding_says_how_many_ulps(shell: InteractiveShell):
    """What XLA rounds in another way depends on its version, so here the code itself differs by an ulp while traced."""
    cell = "f = jax.jit(lambda x: x + 1.2e-7 * isinstance(x, jax.core.Tracer))\nb = f(jnp.ones(1000))"
    found = compare(shell, cell)
    assert found.verdict.startswith("Equal to rounding: `b` differs by at most 1 ulp")
    assert found.differences[-1].max_ulp == 1


def test_another_order_of_operations_says_in_which_step_of_the_loop_it_shows(shell: InteractiveShell):
    cell = (
        "def body(c, t):\n    c = jnp.sin(c) * 1.1 + t\n    return c, c\n"
        "c, cs = jax.jit(lambda: jax.lax.scan(body, 0.5, jnp.cos(jnp.arange(64.0))))()"
    )
    found = compare(shell, cell)
    if found.verdict.startswith("Equal to the last bit"):
        pytest.skip("this XLA rounds the loop's body as the single operations do")
    assert found.verdict.startswith(("Equal to re-association: ", "Equal to rounding: "))
    assert found.first is not None
    assert found.first.line == 3
    assert ", step " in found.verdict


def test_fused_evaluation_names_the_value_that_is_never_made(shell: InteractiveShell):
    cell = "@jax.jit\ndef f(x):\n    h = jnp.exp(x)\n    y = jnp.log(h)\n    return y\nz = f(100.0)"
    found = compare(shell, cell)
    fused = jax.jit(lambda x: jnp.log(jnp.exp(x)))(100.0)
    if np.isinf(fused):
        assert found.verdict.startswith("Equal to the last bit")
    else:
        assert found.verdict.startswith("Fused evaluation: `h` on line 4 of f is infinite without jit")
        assert verdicts(found)["z"] == "infinite without jit"
        assert found.first is not None
        assert found.first.line == 5


def test_a_nan_that_is_masked_is_told(shell: InteractiveShell):
    cell = (
        "def masked(x):\n    bad = jnp.log(x)\n    return jnp.where(x > 0, bad, 0.0).sum()\n"
        "total = jax.jit(masked)(jnp.array([-1.0, 1.0]))"
    )
    found = compare(shell, cell)
    assert found.verdict.endswith("A NaN is in `bad` on line 3 of masked and in no result: it is masked on the way.")


def test_a_python_side_effect_shows_how_often_it_happened(shell: InteractiveShell):
    shell.run_cell("calls = []")
    found = compare(shell, "@jax.jit\ndef f(x):\n    calls.append(1)\n    return x\nfor i in range(3):\n    y = f(i)")
    assert found.verdict.startswith("A Python side effect: ")
    assert verdicts(found)["len(calls)"] == "1 with jit, 3 without"
    assert shell.user_ns["calls"] == [1, 1, 1]


def test_a_frozen_random_number_is_a_python_side_effect(shell: InteractiveShell):
    cell = "@jax.jit\ndef f(x):\n    return x + np.random.normal()\na = [f(1.0) for _ in range(3)]"
    found = compare(shell, cell)
    assert found.verdict.startswith("A Python side effect: `np.random.normal()` draws once")
    assert verdicts(found)["a[0]"] in ("type differs", "rounding")  # the same draw in both runs


def test_a_stale_program_is_told_from_a_real_difference(shell: InteractiveShell):
    shell.run_cell("scale = 2.0\n@jax.jit\ndef f(x):\n    return x * scale\nf(3.0)\nscale = 5.0")
    found = compare(shell, "y = f(3.0)")
    assert found.verdict.startswith("A stale program: traced afresh, the code gives with jit what it gives without.")


def test_a_real_difference_is_one(shell: InteractiveShell):
    cell = (
        "@jax.jit\ndef f(x):\n    y = x * (3 if isinstance(x, jax.core.Tracer) else 2)\n    return y\n"
        "z = f(jnp.ones(2))"
    )
    found = compare(shell, cell)
    assert found.verdict.startswith("A real difference: `z` differs")
    assert "They part at `y` on line 4 of f." in found.verdict
    assert found.differences[-1].max_abs == 1.0


def test_a_clock_is_not_a_difference(shell: InteractiveShell):
    cell = "import time\nbegan = time.perf_counter()\ny = jax.jit(lambda x: x)(1)\nspent = time.perf_counter() - began"
    found = compare(shell, cell)
    assert verdicts(found) == {"began": "never the same twice", "spent": "never the same twice", "y": "type differs"}
    assert found.verdict.startswith("Equal values")


@pytest.mark.parametrize("generator", ["np.random.default_rng()", "random.Random()", "random.SystemRandom()"])
def test_a_generator_without_a_seed_is_not_a_difference(shell: InteractiveShell, generator: str):
    found = compare(shell, f"s = {generator}.random()\ny = jax.jit(lambda x: x)(jnp.ones(2))")
    assert verdicts(found)["s"] == "never the same twice"
    assert found.verdict.startswith("Equal")
    found = compare(shell, "s = np.random.default_rng(3).random()")
    assert verdicts(found) == {"s": "equal"}


def test_rounding_that_the_code_amplifies_is_not_a_bug(shell: InteractiveShell):
    cell = (
        "@jax.jit\ndef f(x):\n    a = jnp.sin(x) * 3.3 + 0.1\n    s = a.sum()\n"
        "    noise = s - (a * 1.1).sum() / 1.1\n    out = noise * 1e8\n    return out\nz = f(jnp.linspace(0, 1, 1000))"
    )
    found = compare(shell, cell)
    if not found.verdict.startswith("Equal"):
        assert found.verdict.startswith("Rounding that the code amplifies: `noise` on line 6 of f differs by ")


ONLY_WITHOUT_JIT = {
    "a condition": (
        "@jax.jit\ndef f(x):\n    return x if x > 0 else -x\ny = f(-1.0)",
        "TracerBoolConversionError",
        "x > 0",
    ),
    "a range": ("@jax.jit\ndef f(n):\n    return sum(range(n))\ny = f(3)", "TracerIntegerConversionError", "range(n)"),
    "NumPy": (
        "f = jax.jit(lambda x: np.stack([x, x]))\ny = f(jnp.ones(2))",
        "TracerArrayConversionError",
        "np.stack([x, x])",
    ),
    "a mask": ("f = jax.jit(lambda x: x[x > 0])\ny = f(jnp.arange(3))", "NonConcreteBooleanIndexError", "x[x > 0]"),
    "a method": (
        "class M:\n    @functools.partial(jax.jit, static_argnums=0)\n    def f(self, x):\n        return x.item()\n"
        "y = M().f(jnp.ones(()))",
        "ConcretizationTypeError",
        "x.item()",
    ),
    "a loop's body": (
        "def body(c, t):\n    return (c + t if t > 1 else c), None\ny = jax.lax.scan(body, 0.0, jnp.arange(3.0))",
        "TracerBoolConversionError",
        "t > 1",
    ),
}


@pytest.mark.parametrize("dress", ONLY_WITHOUT_JIT)
def test_code_that_only_works_without_jit_is_told_so_and_why(shell: InteractiveShell, dress: str):
    cell, error, marked = ONLY_WITHOUT_JIT[dress]
    report = compared(shell, cell)
    assert report.comparison is not None
    said = f"This code only works without jit; with jit it raises {error}: "
    assert report.comparison.verdict.startswith(said)
    (finding,) = report.findings
    assert finding.span is not None
    assert (text_of(finding.span), finding.severity, report.failure) == (marked, "error", None)


def test_code_that_only_works_with_jit_is_told_so(shell: InteractiveShell):
    found = compare(shell, "y = jax.jit(lambda x: x if isinstance(x, jax.core.Tracer) else 1 / 0)(1.0)")
    assert found.verdict == "This code only works with jit; without jit it raises ZeroDivisionError: division by zero"


def test_code_that_fails_both_ways_is_told_so(shell: InteractiveShell):
    found = compare(shell, "1 / 0")
    assert found.verdict == "Both runs raise: ZeroDivisionError: division by zero"


def test_a_scan_over_nothing_is_equal_both_ways(shell: InteractiveShell):
    cell = "f = lambda xs: jax.lax.scan(lambda c, x: (c + x, x), 0.0, xs)\nout = jax.jit(f)(jnp.zeros(0))"
    assert compare(shell, cell).verdict == "Equal to the last bit: 2 arrays compared."


LONG = "def body(c, t):\n    c = {}\n    return c, None\nc, _ = jax.jit(jax.lax.scan, static_argnums=0)(body, 0.5, xs)"


def test_a_run_that_the_budget_ends_is_compared_as_far_as_it_went(shell: InteractiveShell):
    shell.run_cell("xs = jnp.arange(2e4)")
    found = compare(shell, LONG.format("c * 0.5 + t"), "--budget 0.5")
    assert found.verdict == (
        "Not compared to the end: the budget ended the run without jit. "
        "Up to there, no value that both runs show differs."
    )
    traced = "c + t * (3 if isinstance(t, jax.core.Tracer) else 2)"
    found = compare(shell, LONG.format(traced), "--budget 0.5")
    assert found.differences == ()
    assert found.verdict.endswith("They part at `c` on line 3 of body, step 2 of the loop. By 1 there: different.")
    assert found.first is not None


def test_an_interrupted_run_is_not_compared(shell: InteractiveShell):
    shell.run_cell("def stop(): raise KeyboardInterrupt")
    found = compare(shell, "y = jax.jit(lambda x: x if isinstance(x, jax.core.Tracer) else stop())(1)")
    assert found.verdict.startswith("Not compared to the end: an interrupt ended the run without jit.")


def test_a_tolerance_that_is_given_counts(shell: InteractiveShell):
    cell = "@jax.jit\ndef f(x):\n    return x + (0.1 if isinstance(x, jax.core.Tracer) else 0.0)\nz = f(jnp.ones(2))"
    assert compare(shell, cell).verdict.startswith("A real difference")
    assert compare(shell, cell, "--atol 0.2").verdict.startswith("Equal within the tolerance given")
    assert compare(shell, cell, "--rtol 0.2").verdict.startswith("Equal within the tolerance given")


# --------------------------------------------------------------------------------------- equal inputs


def test_both_runs_start_from_equal_inputs_and_the_user_keeps_the_run_without_jit(shell: InteractiveShell):
    shell.run_cell("counts = {'n': 0}\nx = jnp.arange(3.0)\nbefore = x")
    found = compare(shell, "counts['n'] += 1\nx = jax.jit(lambda x: x + 1)(x)\ntotal = counts['n']")
    assert set(verdicts(found).values()) == {"equal"}
    assert shell.user_ns["counts"] == {"n": 1}
    assert shell.user_ns["x"].tolist() == [1.0, 2.0, 3.0]


def test_random_states_of_python_and_numpy_are_restored(shell: InteractiveShell):
    random.seed(7)
    np.random.seed(7)
    expected = random.Random(7).random(), np.random.RandomState(7).rand()
    found = compare(shell, "drawn = random.random(), np.random.rand()")
    assert set(verdicts(found).values()) == {"equal"}
    assert shell.user_ns["drawn"] == expected


def test_donated_buffers_are_safe(shell: InteractiveShell):
    shell.run_cell("x = jnp.ones(3)\ny = x")
    cell = "update = functools.partial(jax.jit, donate_argnums=0)(lambda p: p + 1)\nx = update(x)"
    assert compare(shell, cell).verdict.startswith("Equal")
    assert shell.user_ns["y"].tolist() == [1.0, 1.0, 1.0]


def test_names_that_the_cell_makes_are_gone_before_the_second_run(shell: InteractiveShell):
    compare(shell, "seen = 'made' in globals()\nmade = 1")
    assert shell.user_ns["seen"] is False


def test_inputs_of_functions_that_the_cell_calls_are_copied_too():
    space: dict[str, Any] = {}
    exec("state, other = [0], [0]\ndef f():\n    return g()\ndef g():\n    state.append(1)", space)
    assert names_read(compile("f()", "<cell>", "exec"), space) == ("state",)


def test_variables_that_share_an_object_share_its_copy():
    shared = [1]
    space: dict[str, Any] = {"a": shared, "b": {"inside": shared}, "f": jax.jit(lambda x: x)}
    inputs = Inputs(compile("a, b, f", "<cell>", "exec"), space)
    copies = inputs.copied()
    assert copies["a"] is copies["b"]["inside"] is not shared
    assert "f" not in copies


FUNCTIONS = {
    "nnx.jit": "from flax import nnx\nf = nnx.jit(lambda x: x * 2)",
    "eqx.filter_jit": "import equinox as eqx\nf = eqx.filter_jit(lambda x: x * 2)",
    "a partial of nnx.jit": "from flax import nnx\nf = functools.partial(nnx.jit(lambda k, x: x * k), 2)",
    "one in a list": "from flax import nnx\ng = [nnx.jit(lambda x: x * 2)]\nf = lambda x: g[0](x)",
    "custom_vjp": "f = jax.custom_vjp(lambda x: x * 2)\nf.defvjp(lambda x: (x * 2, None), lambda r, g: (g * 2,))",
    "custom_jvp": "f = jax.custom_jvp(lambda x: x * 2)\nf.defjvps(lambda t, ans, x: t * 2)",
    "an lru_cache": "f = functools.lru_cache(lambda x: x * 2)",
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_what_a_library_made_of_a_function_is_not_copied(shell: InteractiveShell, kind: str):
    shell.run_cell(FUNCTIONS[kind]).raise_error()
    found = compare(shell, "y = f(3.0)")
    assert found.verdict.startswith("Equal")
    assert "y" in verdicts(found)


def test_what_can_not_be_copied_is_named(tmp_path: Any):
    with (tmp_path / "file").open("w") as file:
        inputs = Inputs(compile("file, x", "<cell>", "exec"), {"file": file, "x": [1]})
        copies = inputs.copied()
    assert inputs.uncopied == ("file",)
    assert copies["file"] is file


def test_side_effects_are_announced_before_they_happen(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]):
    shell.run_cell("%%jaxnojit --compare\nprint('in the cell')")
    said = capsys.readouterr().out
    assert said.startswith("This cell runs twice, with jit")
    before_the_report = said.partition("%%jaxnojit --compare: ")[0]
    assert before_the_report.count("in the cell\n") == 1


def test_calls_that_reach_out_are_found():
    import ast

    tree = ast.parse("x = f(1)\nopen('a')\npath.write_text('b')\nos.remove('c')\nnp.save('d', x)")
    assert effects(tree) == [
        "`open` on line 2",
        "`path.write_text` on line 3",
        "`os.remove` on line 4",
        "`np.save` on line 5",
    ]


# ------------------------------------------------------------------------------------------- distances


def cases() -> dict[str, SimpleNamespace]:
    one = np.float32(1.0)
    after = np.nextafter(one, np.float32(2.0))
    nan, inf = np.float32("nan"), np.float32("inf")

    def case(left: Any, right: Any, verdict: str, ulp: float | None = None) -> SimpleNamespace:
        return SimpleNamespace(left=np.asarray(left), right=np.asarray(right), verdict=verdict, ulp=ulp)

    return {
        "the same": case([one], [one], "equal", 0),
        "the same NaN": case([nan, one], [nan, one], "equal", 0),
        "the same infinity": case([inf, one], [inf, one], "equal", 0),
        "neighbours": case([one], [after], "rounding", 1),
        "the two zeros": case([np.float32(0.0)], [np.float32(-0.0)], "equal"),
        "around zero": case([np.float32(1e-45)], [np.float32(-1e-45)], "rounding", 2),
        "far apart": case([one], [np.float32(1.5)], "different"),
        "many roundings": case([np.float32(100.0)], [np.float32(100.001)], "re-association"),
        "a NaN on the left": case([nan], [one], "NaN with jit"),
        "a NaN on the right": case([one], [nan], "NaN without jit"),
        "an infinity on the right": case([one], [inf], "infinite without jit"),
        "an infinity on the left": case([inf], [one], "infinite with jit"),
        "integers": case([1, 2], [1, 3], "different"),
        "bfloat16": case(
            np.asarray(jnp.array(1.0, jnp.bfloat16)), np.asarray(jnp.array(1.0078125, jnp.bfloat16)), "rounding", 1
        ),
        "complex": case([1 + 1j], [1 + 1j], "equal"),
        "empty": case(np.zeros(0, np.float32), np.zeros(0, np.float32), "equal"),
    }


@pytest.mark.parametrize("name", cases())
def test_a_distance_has_a_verdict(name: str):
    case = cases()[name]
    found = distance(case.left, case.right)
    assert found.verdict == case.verdict
    if case.ulp is not None:
        assert found.max_ulp == case.ulp


def test_a_tolerance_replaces_what_depends_on_the_type():
    left, right = np.array([1.0], np.float32), np.array([1.1], np.float32)
    assert distance(left, right, Tolerance(rtol=0.2)).verdict == "within tolerance"
    assert distance(left, right, Tolerance(atol=0.01)).verdict == "different"
