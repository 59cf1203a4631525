"""What every test shares: JAX on the CPU, whatever the machine has, and golden files."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from jaxmagic.records import Report

os.environ.setdefault("JAX_PLATFORMS", "cpu")

RECORDS = Path(__file__).parent / "records"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write the golden files instead of comparing with them")
    parser.addoption("--half", choices=["first", "second"], help="of a test with several cases every second only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--half` every test runs, but of the cases of one that has several the first, third, … or the others."""
    half = config.getoption("--half")
    if half is None:
        return
    name_of = {item: item.nodeid.partition("[")[0] for item in items}
    cases, numbers = Counter(name_of.values()), Counter[str]()
    left = set()
    for item, name in name_of.items():
        numbers[name] += 1
        if cases[name] > 1 and (numbers[name] % 2 == 1) != (half == "first"):
            left.add(item)
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("mlp.txt", text)`: the text is what `tests/records/mlp.txt` holds."""

    def compare(name: str, text: str) -> None:
        path = RECORDS / name
        if request.config.getoption("--regenerate"):
            path.write_text(text + "\n", encoding="utf-8", newline="\n")
        assert text + "\n" == path.read_bytes().decode(), f"{name} differs; look at it, then pytest --regenerate"

    return compare


@pytest.fixture
def sample() -> Callable[[str], Report]:
    """`sample("mlp")`: the report in `tests/records/mlp.json`."""
    return lambda name: msgspec.json.decode((RECORDS / f"{name}.json").read_bytes(), type=Report)
