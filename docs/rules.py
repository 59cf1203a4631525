"""Writes `docs/rules/`: a page for each rule, and a table of all. With `--check`, says which are out of date.

Each page has the rule's own documentation, and its example from `docs/examples/` with the diagnosis that jaxmagic
gives of it.
"""

import argparse
import ast
import contextlib
import io
import linecache
import os
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"  # read when JAX first looks for devices

import jax

from jaxmagic.core import host_callback
from jaxmagic.core.cells import Cells
from jaxmagic.core.recording import Options, Recording
from jaxmagic.core.rules import RuleInfo, rules
from jaxmagic.core.tapping import Tapping
from jaxmagic.core.taps.taps import TapOptions
from jaxmagic.records import Finding

HERE = Path(__file__).parent
FOLDER = HERE / "rules"
EXAMPLES = HERE / "examples"
TESTS = HERE.parent / "tests"
_WATCHED = re.compile(r"# %%jaxtap --when (\w+)\n")
"""The first line of an example that is to be run under that magic instead of `%%jaxtrace`."""

_PLAIN = Options(hlo=False)
_TEST_LINK = re.compile(r", \[\w+\]\(\.\./\.\./tests/[^)]*\)")
_SECONDS = re.compile(r" \([\d.e-]+ s\)")

_KINDS = {
    "conditions": "Values asked for while tracing",
    "statics": "Values asked for while tracing",
    "unpacking": "Transformations",
    "conversions": "Values asked for while tracing",
    "indexing": "Values asked for while tracing",
    "carries": "Types of loops and branches",
    "choices": "Types of loops and branches",
    "bodies": "Types of loops and branches",
    "mapping": "Transformations",
    "custom_derivatives": "Transformations",
    "positions": "Transformations",
    "gradients": "Transformations",
    "leaks": "Leaks",
    "arguments": "Arguments and results of jit",
    "not_numbers": "Arguments and results of jit",
    "signatures": "Transformations",
    "closures": "Transformations",
    "buffers": "Memory",
    "aliasing": "Memory",
    "callbacks": "Callbacks and prints",
    "hosting": "Callbacks and prints",
    "host": "Callbacks and prints",
    "printing": "Callbacks and prints",
    "per_device": "Callbacks and prints",
    "shardings": "Several devices",
    "mesh_axes": "Several devices",
    "nonfinite": "Numbers",
    "nans": "Numbers",
    "precision": "Numbers",
    "promotion": "Numbers",
    "rounding": "Numbers",
    "linen": "Layers and their state",
    "nnx": "Layers and their state",
    "nnx_idioms": "Layers and their state",
    "train_states": "Layers and their state",
    "filtered": "Layers and their state",
    "equinox": "Layers and their state",
    "layer_keys": "Layers and their state",
    "optimizers": "Layers and their state",
    "losses": "Layers and their state",
    "solvers": "Arguments and results of jit",
    "solutions": "Arguments and results of jit",
    "numpyro": "Random keys",
    "halves": "Layers and their state",
    "annotations": "Shapes",
    "layers": "Shapes",
    "trees": "Shapes",
    "tree_arithmetic": "Shapes",
    "operands": "Shapes",
    "shapes": "Shapes",
    "broadcasting": "Shapes",
    "reductions": "Shapes",
    "bounds": "Indices and updates",
    "dropped": "Indices and updates",
    "frozen": "Programs that are older than their code",
    "stale": "Programs that are older than their code",
    "effects": "Programs that are older than their code",
    "keys": "Random keys",
    "captured_keys": "Random keys",
    "timing": "Time and size",
    "elements": "Time and size",
    "branching": "Time and size",
    "retraces": "Time and size",
    "sizes": "Time and size",
}
"""What people call the families."""


def diagnosis(rule: RuleInfo) -> Finding | None:
    """What the rule says of its example; None where it says nothing."""
    path = EXAMPLES / f"{rule.id}.py"
    text = path.read_text()
    file = f"<ipython-input-1-{rule.id}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {"__name__": "__main__"}
    jax.clear_caches()
    cells = Cells(namespace=names)
    watched = _WATCHED.match(text)
    recording = Tapping([], TapOptions(when=watched[1]), cells=cells) if watched else Recording(_PLAIN, cells)
    error = None
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), _loaded(rule):
        recording.start()
        try:
            exec(compile(ast.parse(text), file, "exec"), names)
        except Exception as raised:  # noqa: BLE001 - many examples are there to fail
            error = raised
        finally:
            recording.stop(error)
        report = recording.report()
    found = [*(report.failure.findings if report.failure is not None else ()), *report.findings]
    return next((finding for finding in found if finding.rule == rule.id), None)


@contextlib.contextmanager
def _loaded(rule: RuleInfo) -> Iterator[None]:
    """With `host_callback` back, as while the extension is loaded, for the rule that needs it."""
    if rule.id != "host-callback-used":
        yield
        return
    host_callback.install()
    try:
        yield
    finally:
        host_callback.remove()


def page(rule: RuleInfo, finding: Finding) -> str:
    seen, _, sure = rule.documentation.partition("\n\n")
    when = "an exception" if rule.looks_at == "exception" else "a finished cell"
    where = f", line {finding.span.line}" if finding.span is not None else ""
    lines = [
        f"# {rule.id}",
        "",
        f"{rule.severity} · looks at {when} · {_KINDS[rule.family].lower()}",
        "",
        f"**{rule.summary}**",
        "",
        _joined(seen),
        "",
        *(_joined(each) + "\n" for each in sure.split("\n\n") if each.strip()),
        "## Example",
        "",
        "```python",
        (EXAMPLES / f"{rule.id}.py").read_text().rstrip(),
        "```",
        "",
        f"> **{_told(finding.title)}**{where}",
        ">",
        f"> {_told(finding.explanation)}",
        *(("", "Fix:", "", "```python", finding.fix, "```") if finding.fix else ()),
        "",
        "## Silence",
        "",
        f'`# jaxmagic: ignore[{rule.id}]` on the line, or `%config JaxMagic.ignore = ["{rule.id}"]` for the notebook.',
        "",
    ]
    return "\n".join(lines)


def _joined(paragraph: str) -> str:
    return " ".join(paragraph.split())


def _told(text: str) -> str:
    return _SECONDS.sub("", " ".join(text.split()))


def table(known: tuple[RuleInfo, ...]) -> str:
    lines = [
        "# Rules",
        "",
        "What jaxmagic recognises, by kind of fault. `jaxmagic.rules()` gives the same list. An *error* explains an "
        "exception; a *wrong-result* and a *slow* are found in cells that end well; a *note* may be just as you want "
        "it. *Programs* are the example on the rule's page, and the tests with programs in other dress: those "
        "that have the fault, with the fix applied and run, and those that come close and must stay silent. Written by "
        "`docs/rules.py`.",
        "",
        "| kind | rule | severity | what it reports | programs |",
        "|---|---|---|---|---|",
    ]
    kinds = list(dict.fromkeys(_KINDS.values()))
    ordered = sorted(known, key=lambda rule: kinds.index(_KINDS[rule.family]))
    lines += [
        f"| {_KINDS[rule.family]} | [{rule.id}]({rule.id}.md) | {rule.severity} | {rule.summary} | {_programs(rule)} |"
        for rule in ordered
    ]
    return "\n".join([*lines, ""])


def _programs(rule: RuleInfo) -> str:
    """Links to the example of a rule and to the tests that run programs with and without the fault."""
    told = re.compile(rf"[\"']{rule.id}[\"']")
    found = [path for path in sorted(TESTS.rglob("test_*.py")) if told.search(path.read_text(encoding="utf-8"))]
    tests = [f"[{path.stem.removeprefix('test_')}](../../{path.relative_to(HERE.parent).as_posix()})" for path in found]
    return ", ".join([f"[example](../examples/{rule.id}.py)", *tests])


def pages() -> Iterator[tuple[str, str]]:
    """The name and text of every file.

    Raises:
        SystemExit: An example does not show its rule.
    """
    known = rules()
    yield "README.md", table(known)
    for rule in known:
        finding = diagnosis(rule)
        if finding is None:
            raise SystemExit(f"docs/examples/{rule.id}.py gives no finding of {rule.id}")
        yield f"{rule.id}.md", page(rule, finding)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page is out of date")
    check = parser.parse_args().check
    warnings.simplefilter("ignore")
    written = dict(pages())
    stale = [name for name, text in written.items() if not _is_current(FOLDER / name, text)]
    stale += [path.name for path in FOLDER.glob("*.md") if path.name not in written]
    if check:
        sys.exit(f"out of date: {', '.join(sorted(stale))}; run docs/rules.py" if stale else 0)
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        if path.name not in written:
            path.unlink()
    for name, text in written.items():
        (FOLDER / name).write_text(text)


def _is_current(path: Path, text: str) -> bool:
    """Links to tests come and go with the tests: they don't make the table out of date."""
    return path.exists() and _TEST_LINK.sub("", path.read_text()) == _TEST_LINK.sub("", text)


if __name__ == "__main__":
    main()
