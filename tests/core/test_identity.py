"""Taps change nothing: bitwise, or up to rounding where XLA fuses otherwise because a value is looked at."""

import pytest

from tests.core.identity_corpus import TOLERANCE, Case, cases, compare, transports_of


def test_there_are_at_least_a_hundred_programs():
    assert len(set(map(str, cases()))) == len(cases()) >= 100


@pytest.mark.parametrize("case", cases(), ids=str)
def test_results_are_the_same_with_taps(case: Case):
    _are_the_same(case, [_in_turn(case)])


@pytest.mark.one_pair
@pytest.mark.parametrize("case", cases(), ids=str)
def test_results_are_the_same_under_each_transport(case: Case):
    _are_the_same(case, [name for name in transports_of(case) if name != _in_turn(case)])


def _in_turn(case: Case) -> str:
    """One of the transports, so that all have their turn over the corpus."""
    transports = transports_of(case)
    return transports[cases().index(case) % len(transports)]


def _are_the_same(case: Case, transports: list[str]) -> None:
    for transport, difference in compare(case, transports).items():
        assert difference.identical or difference.relative <= TOLERANCE[case.dtype], transport
