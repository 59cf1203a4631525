"""Measuring: medians of several rounds in one process, ratios between them, one printed table."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    number: str
    """As in the performance contract: `P4`."""
    what: str
    target: str
    measured: str
    met: bool


def seconds(run: Callable[[], object], rounds: int = 5) -> float:
    """Median wall seconds of `rounds` runs."""
    return statistics.median(_once(run) for _ in range(rounds))


def ratio(ours: Callable[[], object], plain: Callable[[], object], rounds: int = 5) -> float:
    """Median of `ours / plain`, the two measured in turn so that a slow minute hits both."""
    return statistics.median(_once(ours) / _once(plain) for _ in range(rounds))


def print_table(rows: list[Row]) -> None:
    for row in rows:
        print(f"{row.number:4} {'met ' if row.met else 'MISS'} {row.what}")
        print(f"     target {row.target}; measured {row.measured}")


def _once(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
