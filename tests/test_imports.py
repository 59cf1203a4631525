"""Who may import whom: records ← core ← views ← magics, and nothing heavy on `import jaxmagic`."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "jaxmagic"
HEAVY = ("IPython", "anywidget", "ipywidgets", "jax", "jaxlib", "numpy", "traitlets")


class Area(NamedTuple):
    """A part of the package, and what it may import beside itself and the standard library."""

    ours: frozenset[str]
    others: frozenset[str]


def area(ours: str = "", others: str = "") -> Area:
    return Area(frozenset(ours.split()), frozenset(others.split()))


AREAS = {
    "records": area(others="msgspec"),
    "core": area("records", "executing jax jaxlib msgspec numpy pandas"),
    "outline": area("records"),
    "fit": area("records core", "msgspec"),
    "text": area("records outline"),
    "elements": area("outline"),
    "html": area("records outline elements"),
    "widget": area(others="anywidget traitlets"),
    "show": area("records fit html text widget", "IPython msgspec"),
    "api": area("records core text"),
    "hooks": area("core magics", "IPython"),
    "magics": area("records core show", "IPython msgspec traitlets"),
    "__init__": area("api hooks records", "IPython"),
}


def imported(file: Path) -> Iterator[str]:
    """Full names of all that a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} line {node.lineno}: a relative import"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def modules() -> list[str]:
    return sorted(str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_what_is_below_it(module: str):
    home = module.partition("/")[0].removesuffix(".py")
    allowed = AREAS[home]
    for name in imported(PACKAGE / module):
        top, *rest = name.split(".")
        if top == "jaxmagic":
            part = rest[0] if (PACKAGE / rest[0]).exists() or (PACKAGE / f"{rest[0]}.py").exists() else "__init__"
            assert part in {home, "__init__"} | allowed.ours, f"{module} imports {name}"
        elif top not in sys.stdlib_module_names:
            assert top in allowed.others, f"{module} imports {name}"


def test_only_one_file_touches_private_parts_of_jax():
    touching = {module for module in modules() for name in imported(PACKAGE / module) if "jax._src" in name}
    assert touching == {"core/jax_internals.py"}


@pytest.mark.parametrize("statement", ["import jaxmagic", "import jaxmagic.records", "jaxmagic.__version__"])
def test_importing_jaxmagic_imports_nothing_heavy(statement: str):
    script = f"import sys, jaxmagic; {statement}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_engine_imports_neither_ipython_nor_the_widget():
    script = (
        "import sys, jaxmagic; jaxmagic.trace\n"
        "print([name for name in ('IPython', 'anywidget', 'ipywidgets', 'traitlets') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
