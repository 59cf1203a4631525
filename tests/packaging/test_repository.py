"""What holds for every file of the repository."""

import json
import re
import subprocess
from pathlib import Path

import jaxmagic

ROOT = Path(__file__).parents[2]

# Written in pieces, so that this file passes its own test.
REGISTRIES = re.compile(
    "|".join(
        (
            r"registry\." + r"(npmjs|yarnpkg)",
            r"pypi\." + r"(org|python)",
            "python" + "hosted",
            r"deb\." + "debian",
            "index" + "-url",
            '"resolved"' + ': *"http',
        )
    )
)


def tracked() -> list[Path]:
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def test_no_file_says_where_packages_are_fetched_from():
    found = {
        str(file.relative_to(ROOT)): match.group()
        for file in tracked()
        if (match := REGISTRIES.search(file.read_bytes().decode(errors="replace")))
    }
    assert found == {}


def test_nothing_that_is_built_is_tracked():
    built = ("jaxmagic/static/", "jaxmagic/labextension/", "node_modules/", "build/", "dist/")
    assert [file for file in tracked() if str(file.relative_to(ROOT)).startswith(built)] == []


def test_python_and_npm_name_the_same_version():
    for name in ("package.json", "package-lock.json"):
        assert json.loads((ROOT / name).read_text())["version"] == jaxmagic.__version__


def test_a_python_that_is_not_there_is_a_failure_that_names_it():
    done = subprocess.run([ROOT / ".ci" / "python", "9.9"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no Python 9.9 found" in done.stderr


def test_a_python_that_is_there_is_found_by_its_series():
    found = subprocess.check_output([ROOT / ".ci" / "python", "3.11"], text=True).strip()
    assert subprocess.check_output([found, "--version"], text=True).startswith("Python 3.11.")
