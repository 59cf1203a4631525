"""Run as a script: prints, as JSON, what is found in each of the programs in `reported/`, cell by cell.

With `--write` it becomes what `test_reported.py` expects: look at the difference before you keep it.

Each program has a process of its own, forked before JAX has started: it may choose its devices, and ends without
having done anything to the others.
"""

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

FOLDER = Path(__file__).parent / "reported"
EXPECTED = Path(__file__).parent / "reported.json"


def found_in(program: Path) -> list[dict[str, Any]]:
    """What a program's cells end with and what is found in each, in a shell of this process."""
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jaxmagic")
    return [_found(shell, cell) for cell in re.split(r"^# %%.*\n", program.read_text(), flags=re.MULTILINE)]


def _found(shell: InteractiveShell, cell: str) -> dict[str, Any]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        shell.run_cell(f"%%jaxtrace -q -o _report\n{cell}", store_history=True)
    report = shell.user_ns["_report"]
    findings = [*report.findings, *(report.failure.findings if report.failure else ())]
    return {
        "state": report.state,
        "findings": [[each.severity, each.rule, each.span.line, each.fix] for each in findings],
    }


def in_a_process_of_its_own(program: Path) -> Any:
    with tempfile.TemporaryFile("w+") as answer:
        child = os.fork()
        if child == 0:
            json.dump(found_in(program), answer)
            answer.flush()
            os._exit(0)
        os.waitpid(child, 0)
        answer.seek(0)
        text = answer.read()
        return json.loads(text) if text else "the process died"


def in_lines(found: dict[str, Any]) -> str:
    """JSON with a line for each cell."""
    programs = []
    for program, cells in found.items():
        lines = ",\n".join(f"  {json.dumps(cell, ensure_ascii=False)}" for cell in cells)
        programs.append(f" {json.dumps(program)}: [\n{lines}\n ]")
    return "{\n" + ",\n".join(programs) + "\n}"


if __name__ == "__main__":
    import jax.random  # noqa: F401 - loaded once for all, as the next ones

    import jaxmagic.core.recording
    import jaxmagic.magics.trace
    import jaxmagic.show  # noqa: F401

    warnings.simplefilter("ignore")
    found = {program.stem: in_a_process_of_its_own(program) for program in sorted(FOLDER.glob("*.py"))}
    text = in_lines(found)
    if "--write" in sys.argv:
        EXPECTED.write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
