"""Reports packed for the notebook: whole where they fit, cut and said so where not."""

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from jaxmagic.fit import MOST_BYTES, payload, unpack
from jaxmagic.records import Aval, Hint, Report, Span, Summary, TapEvent, TapSeries, Versions

Sample = Callable[[str], Report]


@pytest.mark.parametrize("name", ["mlp", "failed", "empty", "hostile", "taps", "comparison", "nojit"])
def test_what_fits_comes_back_as_it_was(sample: Sample, name: str):
    report = sample(name)
    assert unpack(payload(report)) == report


@pytest.mark.parametrize("most", [10_000, 8_000, 6_000, 4_000])
def test_what_does_not_fit_is_cut_and_says_so(sample: Sample, most: int):
    report = sample("mlp")
    packed = payload(report, most)
    assert len(packed.report) <= most
    cut = unpack(packed)
    assert [line for line in cut.limits if line.startswith("To keep the notebook small")]
    assert (cut.state, cut.hints, cut.seconds) == (report.state, report.hints, report.seconds)


def test_the_listings_go_before_the_jaxpr(sample: Sample):
    report = sample("mlp")
    sizes = {most: unpack(payload(report, most)) for most in (10_000, 8_000)}
    for cut in sizes.values():
        (step,) = (one for one in cut.compiled if not one.library)
        assert step.traces[0].program is not None


def test_a_flood_of_hints_still_fits(sample: Sample):
    hints = tuple(
        Hint(Span(f"file {n}", n, 0, n, 9), f"function_{n}", 0, f"name_{n * 7919}", "assigned", ())
        for n in range(20_000)
    )
    packed = payload(msgspec.structs.replace(sample("empty"), hints=hints), 200_000)
    assert len(packed.report) <= 200_000
    assert len(unpack(packed).hints) == 2_000


def test_a_flood_of_real_values_and_of_names_compared_still_fits(sample: Sample):
    nojit, comparison = sample("nojit").nojit, sample("comparison").comparison
    assert nojit is not None
    assert comparison is not None
    values = tuple(
        msgspec.structs.replace(nojit.values[0], name=f"name_{n * 7919}", run=n, text=str(n**7)) for n in range(20_000)
    )
    last = msgspec.structs.replace(comparison.differences[0], name="the gravest", verdict="different")
    names = tuple(msgspec.structs.replace(last, name=f"name_{n * 7919}", verdict="equal") for n in range(20_000))
    flood = msgspec.structs.replace(
        sample("empty"),
        nojit=msgspec.structs.replace(nojit, values=values),
        comparison=msgspec.structs.replace(comparison, differences=(*names, last)),
    )
    packed = payload(flood, 100_000)
    assert len(packed.report) <= 100_000
    kept = unpack(packed)
    assert kept.nojit is not None
    assert len(kept.nojit.values) == 1_000
    assert kept.comparison is not None
    assert kept.comparison.differences[0].name == "the gravest"
    assert "values of lines past 1,000" in kept.limits[-1]


def test_another_protocol_is_an_error_that_names_both_versions(sample: Sample):
    saved = msgspec.structs.replace(payload(sample("empty")), protocol=99, version="9.9")
    with pytest.raises(ValueError, match=r"jaxmagic 9\.9 \(protocol 99\); this jaxmagic reads protocol 1"):
        unpack(saved)


def many_taps(series: int, events: int, size: int) -> Report:
    random = np.random.default_rng(0)

    def event(step: int) -> TapEvent:
        value = random.normal(size=size)
        summary = Summary(size, float(value.min()), float(value.max()), float(value.mean()), float(value.std()))
        return TapEvent(number=step, step=step, loop=(step,), summary=summary, value=value.tolist())

    taps = tuple(
        TapSeries(f"y{n}", "f", None, Aval((size,), "float32"), False, tuple(map(event, range(events))), events)
        for n in range(series)
    )
    return Report("jaxtap", "finished", "%%jaxtap", Versions("0", "0", "0", "0"), taps=taps)


@pytest.mark.one_pair
@pytest.mark.parametrize(("series", "events", "size"), [(4, 60, 768), (1, 4_000, 16), (100, 300, 50), (600, 30, 4)])
def test_of_many_tapped_values_every_series_keeps_its_curve_and_its_last_value(series: int, events: int, size: int):
    packed = payload(many_taps(series, events, size))
    assert len(packed.report) <= MOST_BYTES
    saved = unpack(packed)
    assert len(saved.taps) >= min(series, 200)
    for one in saved.taps:
        assert one.events[-1].step == events - 1
        assert len(one.events) >= min(events, 8)
        assert (one.total, one.dropped) == (events, events - len(one.events))
    assert saved.taps[0].events[-1].value is not None
    assert "tapped" in saved.limits[-1]
