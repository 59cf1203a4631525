"""Output with its origin: the line that asked for it, how often it had printed, and in which lane."""

import pytest
from observed_cells import watched

from jaxmagic.core.source.spans import text_of
from jaxmagic.records import Printed

IMPORTS = "import jax, jax.numpy as jnp, numpy as np\n"


def printed(cell: str, *before: str) -> tuple[Printed, ...]:
    return watched(*before, IMPORTS + cell).report.printed


def code(one: Printed) -> str:
    return text_of(one.span) if one.span is not None else ""


def test_a_print_has_its_line_and_its_step():
    lines = printed("for i in range(3):\n    print('a', i)\nprint('b')")
    assert [(one.text, code(one), one.step) for one in lines] == [
        ("a 0", "print('a', i)", 0),
        ("a 1", "print('a', i)", 1),
        ("a 2", "print('a', i)", 2),
        ("b", "print('b')", 0),
    ]


def test_the_lines_of_one_print_are_of_the_same_step():
    lines = printed("for i in range(2):\n    print('a\\nb')")
    assert [(one.text, one.step) for one in lines] == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]


LOOP = """
@jax.jit
def count(xs):
    def step(total, x):
        jax.debug.print("total {t}", t=total, ordered=True)
        return total + x, x
    return jax.lax.scan(step, 0.0, xs)
"""


@pytest.mark.parametrize("before", [[], [IMPORTS + LOOP + "count(jnp.ones(3))"]], ids=["here", "compiled earlier"])
def test_a_print_of_compiled_code_has_the_line_that_asked_for_it(before: list[str]):
    lines = printed(("" if before else LOOP) + "count(jnp.ones(3));", *before)
    assert [(one.text, one.source, one.step) for one in lines] == [
        ("total 0.0", "jax.debug.print", 0),
        ("total 1.0", "jax.debug.print", 1),
        ("total 2.0", "jax.debug.print", 2),
    ]
    assert {code(one) for one in lines} == {'jax.debug.print("total {t}", t=total, ordered=True)'}


def test_a_format_that_was_made_while_tracing_is_found_by_its_pattern():
    (line,) = printed("jax.jit(lambda x: jax.debug.print(f'shape {x.shape}'))(jnp.ones(3))")
    assert (line.text, code(line)) == ("shape (3,)", "jax.debug.print(f'shape {x.shape}')")


def test_two_prints_that_read_the_same_are_not_told_apart():
    lines = printed("@jax.jit\ndef f(x):\n    jax.debug.print('x')\n    jax.debug.print('x')\nf(1.0)")
    assert [one.span for one in lines] == [None, None]


def test_without_jit_the_line_is_on_the_stack():
    lines = printed("jax.debug.print('{}', 1.0)\njax.debug.print('{}', 1.0)")
    assert [one.span.line for one in lines if one.span] == [2, 3]


@pytest.mark.parametrize("wrap", ["{}", "jax.jit({})"])
@pytest.mark.parametrize("call", ["jax.debug.print('{}', x)", "jax.debug.callback(show, x)"])
def test_the_lanes_of_a_vmap_are_known(wrap: str, call: str):
    show = "def show(x):\n    print(x)\n"
    function = wrap.format("jax.vmap(jax.vmap(f))")
    cell = f"{show}def f(x):\n    {call}\n{function}(jnp.arange(6).reshape(2, 3))"
    lines = printed(cell)
    assert sorted((one.text, one.lane) for one in lines) == [
        (str(3 * i + j), (i, j)) for i in range(2) for j in range(3)
    ]
    assert {one.step for one in lines} == {0}


def test_each_lane_counts_its_own_steps_in_a_loop():
    cell = """
def step(c, x):
    jax.vmap(lambda x: jax.debug.print('{}', x))(x)
    return c, None
jax.jit(lambda xs: jax.lax.scan(step, 0, xs))(jnp.arange(4).reshape(2, 2))"""
    lines = printed(cell)
    assert sorted((one.step, one.lane, one.text) for one in lines) == [
        (0, (0,), "0"),
        (0, (1,), "1"),
        (1, (0,), "2"),
        (1, (1,), "3"),
    ]


def test_marking_lanes_leaves_nothing_behind_in_jax():
    from jax.interpreters import batching

    before = dict(batching.fancy_primitive_batchers)
    printed("jax.vmap(lambda x: jax.debug.print('{}', x))(jnp.arange(2))")
    assert batching.fancy_primitive_batchers == before


def test_a_program_compiled_with_lanes_prints_the_same_later(capsys: pytest.CaptureFixture[str]):
    watch = watched(IMPORTS + "f = jax.jit(jax.vmap(lambda x: jax.debug.print('{}', x)))\nf(jnp.arange(3))")
    watch.notebook.run("f(jnp.arange(3)); jax.effects_barrier()")
    assert sorted(capsys.readouterr().out.split()) == ["0", "0", "1", "1", "2", "2"]


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("for i in range(3):\n    print(f'\\r{i}/2', end='')", ["2/2"]),
        ("print('abc\\rX')", ["Xbc"]),
        ("print('abc', end='\\r')\nprint('X')", ["Xbc"]),
        ("print('a\\r\\nb')", ["a", "b"]),
        ("print('\\x1b[1;31mred\\x1b[0m', '\\x1b]8;;http://x\\x1b\\\\link')", ["red link"]),
    ],
)
def test_a_line_is_kept_as_a_terminal_shows_it_in_the_end(cell: str, shown: list[str]):
    assert [one.text for one in printed(f"import sys\n{cell}")] == shown


@pytest.mark.one_pair
def test_a_bar_of_a_million_updates_takes_no_memory():
    (line,) = printed("for i in range(100_000):\n    print(end=f'\\r{i:>60}')")
    assert line.text.strip() == "99999"


def test_what_goes_to_stderr_is_told_apart_and_has_its_line():
    lines = printed("import sys\nprint('half', file=sys.stderr, end='')\nprint('b')\nprint(' whole', file=sys.stderr)")
    assert [(one.text, one.source, code(one)) for one in lines] == [
        ("b", "print", "print('b')"),
        ("half whole", "stderr", "print(' whole', file=sys.stderr)"),
    ]


@pytest.mark.parametrize(
    ("call", "asked"),
    [
        ("jax.debug.callback(show, x)", "print('saw', float(v))"),
        ("jax.pure_callback(show, x, x)", "print('saw', float(v))"),
        ("jax.debug.callback(print, 'saw', x)", "jax.debug.callback(print, 'saw', x)"),
    ],
)
@pytest.mark.parametrize("wrap", ["f", "jax.jit(f)"])
def test_the_output_of_a_callback_is_told_from_a_print(call: str, asked: str, wrap: str):
    show = "def show(v):\n    print('saw', float(v))\n    return v\n"
    (line,) = printed(f"{show}def f(x):\n    return {call}\n{wrap}(jnp.float32(1))")
    assert (line.text, line.source, code(line)) == ("saw 1.0", "callback", asked)


def test_a_print_while_tracing_is_marked():
    (line,) = printed("jax.jit(lambda x: print('traced') or x)(1.0)")
    assert (line.source, line.traced, line.step) == ("print", True, 0)


def test_what_was_printed_before_an_error_is_kept():
    from failing_cells import Notebook

    from jaxmagic.core.recording import Options, Recording

    notebook, recording = Notebook(), Recording(Options(hlo=False))
    recording.start()
    cell = IMPORTS + "jax.jit(lambda x: jax.debug.print('printed {}', x))(1.0)\nraise ValueError"
    with pytest.raises(ValueError):  # noqa: PT011 - any
        notebook.run(cell)
    recording.stop(ValueError())
    assert [one.text for one in recording.report().printed] == ["printed 1.0"]
