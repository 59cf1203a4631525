"""Rules look in the newest version of each cell, and in what variables lead to of older ones; in nothing else."""

import pytest
from failing_cells import Notebook, failed
from observed_cells import Watched, watched

from jaxmagic.core.cells import Cells
from jaxmagic.core.source.living import bound, living
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.source.spans import text_of

IMPORTS = "import jax, jax.numpy as jnp\nfrom functools import partial\n"
LEAK = "kept = []\n@jax.jit\ndef f(x):\n    kept.append(x)\n    return x * 2\nout = f(1.0)"
CORRECTED = "kept = []\n@jax.jit\ndef f(x):\n    return x * 2\nout = f(1.0)"
STEP = "@partial(jax.jit, donate_argnums=0)\ndef step(p):\n    return p * 2\np = jnp.ones(3)"


def matters(*cells: str, identities: str = "") -> list[str]:
    """Definitions and variables that still matter after the cells have run, and the cell of each: `f@1`."""
    notebook = Notebook()
    for cell in cells:
        notebook.run(IMPORTS + cell)
    files = list(notebook.cells)
    given = dict(zip(files, identities, strict=False))
    told = Cells(number=notebook.number, identity=given.get, namespace=notebook.namespace)
    return [
        f"{name}@{files.index(each.file) + 1}"
        for each in living(told, Policy())
        for statement in each.tree.body
        for name in sorted(bound(statement))
    ]


F = "def f(x):\n    return x"


@pytest.mark.parametrize(
    ("cells", "identities", "expected"),
    [
        ((F, "def g(x):\n    return f(x)"), "", ["f@1", "g@2"]),
        ((F, F + " + 1"), "", ["f@2"]),
        ((F + "\nheld = jax.jit(f)", F + " + 1"), "", ["f@1", "held@1", "f@2"]),
        ((F + "\nheld = {'a': [partial(f, 1)]}", F + " + 1"), "", ["f@1", "held@1", "f@2"]),
        (
            (f"def make():\n    {F.replace(chr(10), chr(10) + '    ')}\n    return f\nheld = make()", "del make"),
            "",
            ["make@1", "held@1"],
        ),
        (
            ("class A:\n    def m(self): return 1\na = A()", "class A:\n    def m(self): return 2"),
            "",
            ["A@1", "a@1", "A@2"],
        ),
        (("class A:\n    def m(self): return 1", "class A:\n    def m(self): return 2"), "", ["A@2"]),
        ((F, "del f"), "", []),
        ((F + "\ndef g(x):\n    return x", "def g(x):\n    return 2 * x"), "", ["f@1", "g@2"]),
        ((F + "\nw = 1", "v = 2"), "aa", ["f@1", "v@2"]),
        (("w = f = 1", "w = f = 2"), "", ["f@2", "w@2"]),
        (("w = f = 1", "w = f = 2"), "ab", ["f@1", "w@1", "f@2", "w@2"]),
    ],
)
def test_a_function_matters_while_a_variable_leads_to_it(cells: tuple[str, ...], identities: str, expected: list[str]):
    assert matters(*cells, identities=identities) == expected


@pytest.mark.parametrize("between", [(CORRECTED,), (CORRECTED, "other = 1")])
def test_a_corrected_leak_is_not_found_again(between: tuple[str, ...]):
    notebook = failed(IMPORTS + LEAK, *between, "y = jnp.ones(3) @ jnp.ones(4)")
    assert notebook.finding.rule == "matmul-shapes"
    assert watched(IMPORTS + LEAK, *between, "f(2.0)").rules == []


def test_what_another_notebook_did_is_not_told_of_this_one():
    failed(IMPORTS + STEP, "new = step(p)", "p + 1")
    alone = failed(IMPORTS + "p = jnp.ones(3)\np.delete()", "p + 1")
    assert alone.finding.rule == "donated-buffer"
    assert alone.finding.evidence == ()


def test_the_cell_that_gave_an_array_away_is_named():
    program = failed(IMPORTS + STEP, "new = step(p)", "p + 1")
    assert [text_of(each.span) for each in program.finding.evidence if each.span] == ["step(p)"]
    assert program.fixed().namespace["p"].tolist() == [2, 2, 2]


def test_an_older_function_that_is_still_held_is_shown_with_its_own_text():
    cells = ("def act(x):\n    return x * 3\nheld = jax.jit(act)", "def act(x):\n    return x + 1", "out = held(1.0)")
    cell = watched(IMPORTS + cells[0], *cells[1:])
    (compiled,) = cell.report.compiled
    assert compiled.span is not None
    assert text_of(compiled.span) == "def act(x):\n    return x * 3"


def test_a_draw_of_a_corrected_cell_does_not_count():
    def drawn(second: str) -> Watched:
        key = IMPORTS + "key = jax.random.key(0)"
        return watched(key, "w = jax.random.normal(key, (3,))", second)

    assert drawn("w = jax.random.normal(key, (4,))").rules == []
    assert drawn("noise = jax.random.uniform(key, (3,))").rules == ["key-reused"]
