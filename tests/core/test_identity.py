"""Taps change nothing: bitwise, or up to rounding where XLA fuses otherwise because a value is looked at."""

import pytest

from tests.core.identity_corpus import TOLERANCE, Case, cases, compare


def test_there_are_at_least_a_hundred_programs():
    assert len(set(map(str, cases()))) == len(cases()) >= 100


@pytest.mark.parametrize("case", cases(), ids=str)
def test_results_are_the_same_with_taps(case: Case):
    for transport, difference in compare(case).items():
        assert difference.identical or difference.relative <= TOLERANCE[case.dtype], transport
