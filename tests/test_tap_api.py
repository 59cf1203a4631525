"""`jaxmagic.tap` in scripts, where there is no IPython."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
import sys
import jax, jax.numpy as jnp
import jaxmagic
def loss_fn(w, x):
    loss = ((w * x) ** 2).sum()
    return loss
@jax.jit
def train(w, xs):
    def step(w, x):
        return w - 0.1 * jax.grad(loss_fn)(w, x), None
    return jax.lax.scan(step, w, xs)[0]
w, xs = jnp.ones(3), jnp.ones((5, 3))
plain = train(w, xs)
"""


def script(tmp_path: Path, body: str) -> list[str]:
    file = tmp_path / "script.py"
    file.write_text(PROGRAM + body)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_values_and_gradients_of_a_block_in_a_script(tmp_path: Path):
    body = """\
with jaxmagic.tap("loss", grad=True) as t:
    tapped = train(w, xs)
print(t["loss"].values.shape, t["grad loss"].values.tolist(), bool((plain == tapped).all()))
print(t.report.mode, t.report.state, [one.name for one in t.report.taps], list(t.tapped))
print("IPython" in sys.modules)
"""
    assert script(tmp_path, body) == [
        "(5,) [1.0, 1.0, 1.0, 1.0, 1.0] True",
        "jaxtap finished ['loss', 'loss'] ['loss', 'grad loss']",
        "False",
    ]


def test_a_decorated_function_is_tapped_each_time_it_is_called(tmp_path: Path):
    body = """\
t = jaxmagic.tap("loss")
@t
def experiment(steps):
    return train(w, xs[:steps])
experiment(2); first = t["loss"]
experiment(4)
print(len(first), len(t["loss"]))
"""
    assert script(tmp_path, body) == ["2 4"]


def test_the_circuit_breaker_raises_an_error_that_can_be_caught(tmp_path: Path):
    body = """\
try:
    with jaxmagic.tap("loss", stop_when="x < 1.4") as t:
        train(w, xs)
except jaxmagic.TapStopped as error:
    print(error)
print(t.report.state, len(t["loss"]), bool((train(w, xs) == plain).all()))
"""
    message, state = script(tmp_path, body)
    assert "'x < 1.4' holds for loss f32[] at line 5 of loss_fn(), step 2, loop iteration 2" in message
    assert state == "interrupted 3 True"


def test_values_are_set_and_handed_to_the_host(tmp_path: Path):
    body = """\
seen = []
with jaxmagic.tap("loss", replace={"loss": lambda x: x * 0}, call=lambda x: seen.append(float(x))):
    stopped = train(w, xs)
print(bool((stopped == w).all()), seen)
"""
    assert script(tmp_path, body) == ["True [0.0, 0.0, 0.0, 0.0, 0.0]"]


@pytest.mark.one_pair
def test_the_report_reads_as_text(tmp_path: Path):
    lines = script(tmp_path, "with jaxmagic.tap('loss') as t:\n    train(w, xs)\nprint(t)")
    assert any("Values that came ashore" in line for line in lines)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.settrace has room for one: the inner block says so")
def test_of_two_blocks_one_inside_the_other_each_has_its_own_values(tmp_path: Path):
    body = """\
with jaxmagic.tap("loss", grad=True, replace={"w": lambda x: x * 1}) as outer:
    train(w, xs[:2])
    with jaxmagic.tap("loss", grad=True) as inner:
        train(w, xs)
    train(w, xs[:1])
print(outer["loss"].total, outer["grad loss"].total, inner["loss"].total, inner["grad loss"].total)
"""
    assert script(tmp_path, body) == ["3 3 5 5"]


@pytest.mark.one_pair
def test_the_series_as_a_table(tmp_path: Path):
    body = """\
with jaxmagic.tap("loss", every=2) as t:
    train(w, xs)
table = t["loss"].to_dataframe()
print(list(table.columns), table["step"].tolist(), table["loop"].tolist())
print(table["value"].tolist() == t["loss"].values.tolist())
print(t["loss"].summary.count, t["loss"].total, len(t["loss"]), t["loss"].steps.tolist())
"""
    pytest.importorskip("pandas")
    assert script(tmp_path, body) == [
        "['step', 'loop', 'time', 'device', 'value'] [0, 2, 4] [(0,), (2,), (4,)]",
        "True",
        "3 5 3 [0, 2, 4]",
    ]


def test_what_is_asked_wrongly_is_said(tmp_path: Path):
    wrong = [
        ("jaxmagic.tap('loss', gradient=True)", "gradient"),
        ("jaxmagic.tap('loss')['loss']", "the block has not ended"),
        ("with jaxmagic.tap('lss') as t:\n    train(w, xs)\nt['loss']", "nothing named 'loss' was tapped"),
    ]
    tried = "".join(
        "try:\n" + "".join(f"    {line}\n" for line in body.splitlines()) + "except (TypeError, KeyError) as error:\n"
        "    print(error)\n"
        for body, _ in wrong
    )
    for line, (_, said) in zip(script(tmp_path, tried), wrong, strict=True):
        assert said in line
