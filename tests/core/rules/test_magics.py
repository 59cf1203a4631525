"""The same program under each of the magics: what one finds, the others find as well, or don't look for."""

from collections.abc import Callable
from pathlib import Path

import pytest
from failing_cells import Notebook

from jaxmagic.core.cells import Cells
from jaxmagic.core.nojit.scope import NoJitOptions
from jaxmagic.core.recording import Options, Recording
from jaxmagic.core.rules import OF_PROGRAMS, rules
from jaxmagic.core.session import Session
from jaxmagic.core.tapping import Tapping
from jaxmagic.core.taps.taps import TapOptions
from jaxmagic.records import Finding, Report

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
ELSEWHERE = {"debugger-without-terminal", "host-callback-used", "callback-exception", "except-never-matches"}
ELSEWHERE |= {"solution-not-saved"}
"""Examples that need a shell or a thread of XLA's, fail for another reason without jit, or take long then."""

_NAMES = [
    rule.id
    for rule in rules()
    if rule.id not in ELSEWHERE and not (EXAMPLES / f"{rule.id}.py").read_text().startswith("# %%jaxtap")
]

MAGICS: dict[str, Callable[[Cells], Session]] = {
    "jaxtrace": lambda cells: Recording(Options(hlo=False), cells),
    "jaxtap": lambda cells: Tapping([], TapOptions(), cells=cells),
    "jaxnojit": lambda cells: Recording(Options(hlo=False, nojit=NoJitOptions()), cells),
}


def report_of(magic: str, program: str) -> Report:
    notebook = Notebook()
    session = MAGICS[magic](Cells(number=notebook.number, namespace=notebook.namespace))
    session.start()
    error = None
    try:
        notebook.run(program)
    except Exception as raised:  # noqa: BLE001 - most of the examples are there to fail
        error = raised
    finally:
        session.stop(error)
    return session.report()


def findings(report: Report) -> list[tuple]:
    found: list[Finding] = [*report.findings, *(report.failure.findings if report.failure else ())]
    return sorted((each.rule, each.span.line if each.span else 0, each.fix) for each in found)


@pytest.mark.one_pair
@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.filterwarnings("ignore")  # some are about what JAX warns of
def test_a_fault_is_found_alike_under_every_magic(name: str):
    program = (EXAMPLES / f"{name}.py").read_text()
    traced, tapped, plain = (report_of(magic, program) for magic in MAGICS)
    expected = findings(traced)
    assert findings(tapped) == [found for found in expected if found[0] not in OF_PROGRAMS]
    assert any("not looked for" in line for line in tapped.limits) or not any(
        each[0] in OF_PROGRAMS for each in expected
    )
    assert set(findings(plain)) <= set(expected)
    if plain.failure is not None:
        assert findings(plain) == expected
