"""Whole programs of Flax, Equinox, NumPyro and Diffrax, an RNN and the article's, without jit in a real ipykernel."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from kernels import Kernel, Outputs, running_kernel

from jaxmagic.fit import unpack
from jaxmagic.records import NoJit, Payload, Report
from jaxmagic.show import REPORT_MIME

PROGRAMS = Path(__file__).parent / "programs"


class Program(NamedTuple):
    """One of the programs, made short, and what is true of it without jit."""

    shorter: tuple[tuple[str, str], ...]
    function: str
    """That is to run in Python alone."""
    carriers: tuple[str, ...]
    """Jitted functions that must then run in Python as well."""
    seen: str
    """A variable in that function, whose real values are shown; empty where the function can't be reached."""
    left: tuple[tuple[str, tuple[str, ...]], ...]
    """What stays traced with jit off everywhere."""
    result: str
    """A variable that is compared."""


CASES = {
    "flax_transformer": Program(
        (("layers=2", "layers=1"), ("range(3)", "range(2)")),
        "Block.__call__",
        ("train_step",),
        "hidden",
        (("loss_fn", ("grad",)),),
        "losses[1]",
    ),
    "equinox_cnn": Program(
        (),
        "CNN.__call__",
        ("step",),
        "pooled",
        (("loss_fn", ("grad",)), ("CNN.__call__", ("vmap ×8",))),
        "loss",
    ),
    "numpyro_nuts": Program(
        (("num_warmup=20, num_samples=20", "num_warmup=2, num_samples=2"),),
        "regression",
        ("_fori_collect_loop", "_body_fn"),
        "mean",
        (("regression", ("grad",)),),
        "samples['slope']",
    ),
    "diffrax_solve": Program(
        (),
        "field",
        ("solve", "diffeqsolve"),
        "",
        (("field", ("eval_shape, make_jaxpr or lower",)),),
        "ys",
    ),
    "plain_rnn": Program((("(12, 4)", "(4, 4)"),), "cell", ("update",), "gate", (("loss_fn", ("grad",)),), "loss"),
}


DEMOS = ("1_disable_jit", "2_debug_print", "3_host_callback", "4_random_key", "5_three_modes")


def _but_for(everywhere: str, programs: Collection[str] = tuple(CASES)) -> list[Any]:
    """The programs; all but one are tried with one pair of Python and JAX."""
    return [name if name == everywhere else pytest.param(name, marks=pytest.mark.one_pair) for name in programs]


@pytest.fixture(scope="module")
def loaded() -> Iterator[Kernel]:
    with running_kernel() as kernel:
        kernel.run("%load_ext jaxmagic")
        yield kernel


def text_of(name: str) -> str:
    text = (PROGRAMS / f"{name}.py").read_text()
    for long, short in CASES[name].shorter if name in CASES else ():
        assert long in text
        text = text.replace(long, short)
    return text


def shown(outputs: Outputs) -> dict[str, str]:
    assert outputs.error is None, outputs.traceback
    (bundle,) = (one for one in outputs.displays if REPORT_MIME in one)
    return bundle


def report_of(outputs: Outputs) -> Report:
    return unpack(msgspec.convert(shown(outputs)[REPORT_MIME], Payload))


def nojit_of(outputs: Outputs) -> NoJit:
    report = report_of(outputs)
    assert report.state == "finished"
    assert report.nojit is not None
    return report.nojit


@pytest.mark.parametrize("name", _but_for("flax_transformer"))
def test_one_function_of_a_program_runs_in_python(loaded: Kernel, name: str):
    program = CASES[name]
    outputs = loaded.run(f"%%jaxnojit --only {program.function}\n{text_of(name)}")
    record = nojit_of(outputs)
    assert tuple(each.name for each in record.functions) == program.carriers
    assert all(each.carrier for each in record.functions)
    if not program.seen:
        (why,) = record.unreached
        assert why.startswith("field was only traced, in eval_shape, make_jaxpr or lower")
        assert "%%jaxtap field.*" in why
        return
    assert record.unreached == ()
    values = [each for each in record.values if each.name == program.seen]
    assert values, {each.name for each in record.values}
    assert all(each.summary is not None and each.summary.nan == 0 for each in values)
    assert f"{program.seen} = " in " ".join(shown(outputs)["text/plain"].split())


@pytest.mark.parametrize("name", _but_for("plain_rnn"))
def test_a_program_compared_says_that_its_results_are_equal_but_for_rounding(loaded: Kernel, name: str):
    program = CASES[name]
    outputs = loaded.run(f"%%jaxnojit --compare\n{text_of(name)}")
    record = nojit_of(outputs)
    assert tuple((each.function, each.transforms) for each in record.traced) == program.left
    comparison = report_of(outputs).comparison
    assert comparison is not None
    # A gradient that is zero but for rounding is divided by its own size in Adam.
    assert comparison.verdict.startswith(("Equal ", "Rounding that the code amplifies: "))
    assert comparison.right_operations > comparison.left_operations > 0
    assert comparison.right_s > comparison.left_s > 0
    (result,) = (each for each in comparison.differences if each.name == program.result)
    assert result.verdict in ("equal", "rounding", "re-association")
    for text in (shown(outputs)["text/plain"], shown(outputs)["text/html"]):
        assert program.result.replace("'", "&#x27;") in text or program.result in text


def test_what_the_report_advises_for_a_function_that_was_only_traced_shows_its_values(loaded: Kernel):
    outputs = loaded.run(f"%%jaxtap field.*\n{text_of('diffrax_solve')}")
    assert {series.name for series in report_of(outputs).taps} >= {"slope"}


@pytest.mark.parametrize("demo", _but_for("5_three_modes", DEMOS))
def test_the_articles_programs_run_as_they_stand_and_are_compared(loaded: Kernel, demo: str):
    with_jit = loaded.run((PROGRAMS / "seed" / f"{demo}.py").read_text()).stdout
    outputs = loaded.run(f"%%jaxnojit --compare\n{text_of(f'seed/{demo}')}")
    comparison = report_of(outputs).comparison
    assert comparison is not None
    assert comparison.verdict.startswith("Equal "), comparison.verdict
    assert len(outputs.stdout.splitlines()) > len(with_jit.splitlines())
