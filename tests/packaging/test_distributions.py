"""What an sdist and a wheel carry, and what building them needs."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTENSION = "share/jupyter/labextensions/jaxmagic"


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command as a person's shell would, without what `make` sets for us."""
    own = {key: value for key, value in os.environ.items() if key != "JAXMAGIC_SKIP_JS"}
    return subprocess.run(command, env={**own, **environment}, text=True, capture_output=True, check=False)


def wheel_from(source: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, source, **environment)


@pytest.fixture(scope="module")
def no_node(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with nothing on it."""
    return str(tmp_path_factory.mktemp("empty"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the working tree as git sees it: nothing built, nothing ignored."""
    copy = tmp_path_factory.mktemp("checkout")
    listed = subprocess.check_output(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, text=True)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def sdist(checkout: Path) -> Path:
    done = run(sys.executable, "-m", "build", "--sdist", checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    return next((checkout / "dist").glob("*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, no_node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made from the sdist where there is no Node.js."""
    folder = tmp_path_factory.mktemp("wheel")
    done = wheel_from(sdist, folder, PATH=no_node)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


def test_the_sdist_carries_the_built_front_end_and_its_sources(sdist: Path):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "jaxmagic/static/widget.js",
        "jaxmagic/labextension/package.json",
        "js/src/protocol.ts",
        "js/hatch_build.py",
        "package-lock.json",
        "tests/conftest.py",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
    } <= names


def test_a_wheel_made_from_the_sdist_without_node_carries_the_panel(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        panel = archive.read("jaxmagic/static/widget.js").decode()
    assert "export" in panel
    assert "jaxmagic" in panel


def test_the_wheel_puts_the_extension_where_jupyterlab_looks(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        files = {name.partition(".data/data/")[2]: name for name in archive.namelist()}
        about = json.loads(archive.read(files[f"{EXTENSION}/package.json"]))
        entry = archive.read(files[f"{EXTENSION}/{about['jupyterlab']['_build']['load']}"])
    assert b"jaxmagic" in entry
    assert f"{EXTENSION}/install.json" in files


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0].partition("-")[0] for name in names}
    assert tops == {"jaxmagic"}
    assert not [name for name in names if name.startswith("jaxmagic/labextension")]


def test_building_a_checkout_without_npm_says_what_is_missing(checkout: Path, no_node: str, tmp_path: Path):
    done = wheel_from(checkout, tmp_path, PATH=no_node)
    assert done.returncode != 0
    assert "npm was not found on PATH" in done.stdout + done.stderr
    assert "Node.js 20 or newer" in done.stdout + done.stderr


def test_the_front_end_can_be_left_out_for_a_lint_job(checkout: Path, no_node: str, tmp_path: Path):
    done = wheel_from(checkout, tmp_path, PATH=no_node, JAXMAGIC_SKIP_JS="1")
    assert done.returncode == 0, done.stdout + done.stderr
