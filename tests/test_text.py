"""The report as plain text: what a person reads, and that nothing in it can harm a terminal."""

import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterable

import msgspec
import pytest
from msgspec.structs import replace

from jaxmagic import text
from jaxmagic.outline.characters import columns
from jaxmagic.records import (
    Aval,
    Call,
    Compiled,
    Equation,
    Finding,
    Hint,
    Leaf,
    Program,
    Reason,
    Region,
    Report,
    Source,
    Span,
    Trace,
    Variable,
    Versions,
)

SAMPLES = (
    "comparison",
    "empty",
    "failed",
    "findings",
    "hostile",
    "interrupted",
    "mlp",
    "nojit",
    "plain_python",
    "retraces",
    "running",
    "taps",
)
Sample = Callable[[str], Report]


def report_of(code: str, hints: Iterable[tuple[int, str, Leaf]] = (), **fields) -> Report:
    """A report on one cell; a hint is a line, a variable's name and its array."""
    cell = Source(file="cell", label="cell [1]", cell=1, text=code)
    call = Call(id=0, function="<module>", span=Span("cell", 1, 0, code.count("\n") + 1, 0), traced=False)
    made = tuple(Hint(Span("cell", n, 0, n, 0), "<module>", 0, name, "assigned", (leaf,)) for n, name, leaf in hints)
    versions = Versions(jaxmagic="0", jax="0", jaxlib="0", python="0")
    known = {"sources": (cell,), "calls": (call,), "hints": made}
    return Report(mode="jaxtrace", state="finished", title="%%jaxtrace", versions=versions, **{**known, **fields})


def array(*shape: int) -> Leaf:
    return Leaf(path="", aval=Aval(shape=shape, dtype="float32"), kind="array")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_report_reads_as_in_the_golden_file(name: str, sample: Sample, golden: Callable[[str, str], None]):
    golden(f"{name}.txt", text.render(sample(name)))


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(name: str, width: int, sample: Sample):
    lines = text.render(sample(name), width=width).split("\n")
    assert [line for line in lines if columns(line) > width] == []


@pytest.mark.parametrize("name", SAMPLES)
def test_no_control_or_direction_character_reaches_the_terminal(name: str, sample: Sample):
    rendered = text.render(sample(name)).replace("\n", "")
    assert {c for c in rendered if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")} == set()


def test_a_direction_override_is_spelled_out(sample: Sample):
    assert "⟨U+202E⟩evil" in text.render(sample("hostile"))


def test_a_name_of_ten_thousand_characters_is_cut(sample: Sample):
    rendered = text.render(sample("hostile"))
    assert "nnn…" in rendered
    assert len(rendered) < 20_000


def test_colours_are_only_there_when_asked_for(sample: Sample):
    report = sample("failed")
    plain, coloured = text.render(report), text.render(report, color=True)
    assert "\x1b[" not in plain
    assert "\x1b[1;31mx @ w\x1b[0m" in coloured


def test_the_failure_comes_before_everything_but_the_header(sample: Sample):
    rendered = text.render(sample("failed"))
    titles = [line.split()[1] for line in rendered.split("\n") if line.startswith("──")]
    assert titles == ["TypeError", "cell", "Compiled"]


def test_carets_stand_under_the_failing_expression(sample: Sample):
    lines = text.render(sample("failed")).split("\n")
    at = next(i for i, line in enumerate(lines) if "^" in line)
    start, end = lines[at].index("^"), len(lines[at])
    assert lines[at - 1][start:end] == "x @ w"


def test_carets_count_wide_characters_twice():
    span = Span("cell", 1, len("名前 = ".encode()), 1, len("名前 = 値 @ x".encode()))
    finding = Finding(rule="r", severity="error", span=span, title="t", explanation="")
    lines = text.render(report_of("名前 = 値 @ x", findings=(finding,))).split("\n")
    code = next(line for line in lines if "値" in line)
    carets = next(line for line in lines if "^" in line)
    assert columns(code[: code.index("値")]) == carets.index("^")
    assert carets.count("^") == columns("値 @ x")


def test_a_mark_far_to_the_right_stays_in_sight():
    code = "y = f(" + "a, " * 60 + "wrong)"
    start = code.index("wrong")
    finding = Finding(rule="r", severity="error", span=Span("cell", 1, start, 1, start + 5), title="t", explanation="")
    lines = text.render(report_of(code, findings=(finding,))).split("\n")
    at = next(i for i, line in enumerate(lines) if "^^^^^" in line)
    assert lines[at - 1][lines[at].index("^") :].startswith("wrong")


def test_findings_are_worst_first(sample: Sample):
    lines = text.render(sample("findings")).split("\n")
    ranks = [match[1] for line in lines if (match := re.match(r"\d+\. (?:possibly )?([a-z ]+):", line))]
    assert ranks == ["error", *["wrong result"] * 4, "note", "note"]


def test_each_finding_is_named_on_its_line(sample: Sample):
    lines = text.render(sample("findings")).split("\n")
    assert any(line.startswith("   8      print(") and line.endswith("# ← finding 6") for line in lines)


def test_hints_stand_in_one_column():
    code = "a = f(1)\nlonger = f(2)"
    lines = text.render(report_of(code, [(1, "a", array(3)), (2, "longer", array(4))])).split("\n")
    first, second = (line for line in lines if "# " in line)
    assert first.index("#") == second.index("#")
    assert first.endswith("# a: f32[3]")


def test_a_function_that_ran_with_two_shapes_says_which_way_had_which(sample: Sample):
    rendered = text.render(sample("retraces"))
    assert "traced 4 ways in jit scale" in rendered
    assert "shifted: f32[8] (1), f32[9] (2–4)" in rendered


def test_a_pytree_is_spelled_out_once(sample: Sample):
    rendered = text.render(sample("mlp"))
    assert "grads: as on line 5" in rendered


def test_lines_with_nothing_to_say_are_left_out_of_a_long_cell():
    code = "\n".join(f"x{i} = {i}" for i in range(1, 201))
    rendered = text.render(report_of(code, [(100, "x100", array(3))]))
    assert [line.strip().split()[0] for line in rendered.split("\n") if " = " in line] == ["99", "100", "101"]


def test_a_report_with_a_hint_on_every_line_says_what_it_left_out():
    code = "\n".join(f"x{i} = {i}" for i in range(1, 1001))
    rendered = text.render(report_of(code, [(i, f"x{i}", array(i)) for i in range(1, 1001)]))
    assert "… 800 more lines with something to say, in the report's `hints`" in rendered
    assert rendered.count("\n") < 250


def test_traces_in_a_row_for_one_reason_are_told_once():
    trace = Trace(reason=Reason("new function object", (), "a new function object"), calls=1)
    functions = (Compiled(id=0, name="f", kind="jit", span=None, traces=(trace,) * 500),)
    assert "1–500. a new function object (500 calls" in text.render(report_of("f()", compiled=functions))


def test_library_functions_are_one_line():
    trace = Trace(reason=Reason("first call"), compile_s=0.019)
    functions = tuple(Compiled(i, f"_f{i}", "jit", None, library=True, traces=(trace,)) for i in range(200))
    rendered = text.render(report_of("f()", compiled=functions))
    assert "+ Also compiled, by libraries: 200 functions in 3.8 s (_f0, _f1" in rendered
    assert rendered.count("_f") == 4


def test_the_option_typed_is_the_name_used_to_tell_how_to_print_programs(sample: Sample):
    report = replace(sample("findings"), title="%%jaxtrace -o mine")
    assert "`print(jaxmagic.text.program(mine.compiled[0].traces[0].program))`" in text.render(report)


def test_a_program_is_written_one_equation_a_line(sample: Sample, golden: Callable[[str, str], None]):
    report = sample("taps")
    program = report.compiled[0].traces[0].program
    assert program is not None
    golden("taps.jaxpr.txt", text.program(program, report.sources))


def test_a_program_of_ten_thousand_equations_is_cut_where_asked():
    x = Variable(0, Aval((), "float32"))
    one = Equation(primitive="sin", ins=(0,), outs=(x,))
    region = Region(kind="jit", name="f", inputs=(x,), constants=(), outputs=(0,), equations=(one,) * 10_000)
    lines = text.program(Program(region, (), 10_000), most=100).split("\n")
    assert len(lines) == 101
    assert lines[-1] == "… cut after 100 lines of 10,000 equations"


def test_text_needs_neither_jax_nor_ipython():
    code = "import sys, jaxmagic.text; assert not {'jax', 'IPython', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_samples_are_what_the_records_say(name: str, sample: Sample):
    report = sample(name)
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report
