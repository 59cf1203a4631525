"""The parts that text and pages share: units, harmless characters, and the examples in their docstrings."""

import doctest
from importlib import import_module

import pytest

from jaxmagic.outline import units
from jaxmagic.outline.characters import columns, cropped, visible
from jaxmagic.outline.sparks import sparkline


@pytest.mark.parametrize("name", ["characters", "form", "notes", "places", "sparks", "units"])
def test_the_examples_in_docstrings_print_what_they_say(name: str):
    assert doctest.testmod(import_module(f"jaxmagic.outline.{name}")).failed == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0 s"),
        (5e-10, "0.5 ns"),
        (0.00085, "850 µs"),
        (0.9999, "1 s"),
        (125.0, "2 min 5 s"),
        (float("nan"), "–"),
        (1e300, "1e+300 s"),
    ],
)
def test_seconds_have_three_digits_and_a_unit(value: float | None, text: str):
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (3_400_000, "3.4 MB"),
        (999_999, "1 MB"),
        (1e30, "1e+30 B"),
    ],
)
def test_amounts_have_an_si_prefix(value: float | None, text: str):
    assert units.amount(value, "B") == text


def test_letters_of_other_scripts_stay_as_they_are():
    assert visible("名前 é שלום") == "名前 é שלום"


def test_zero_width_and_direction_characters_are_spelled_out():
    assert visible("a\u200bb\u2067c\u00add") == "a⟨U+200B⟩b⟨U+2067⟩c⟨U+00AD⟩d"


def test_making_a_text_visible_twice_changes_nothing_more():
    once = visible("\x1b[0m\n\u202e")
    assert visible(once) == once


def test_cropping_never_splits_a_wide_character():
    assert cropped("名前名前", 6) == "名前…"
    assert columns(cropped("名前名前", 6)) == 5


def test_a_sparkline_has_a_cross_where_there_is_no_number():
    assert sparkline([0.0, float("nan"), 1.0]) == "▁×█"
    assert sparkline([]) == ""
    assert len(sparkline([float(i) for i in range(1000)])) == 12
