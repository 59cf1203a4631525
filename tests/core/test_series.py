"""What is kept of many events, and how it reads: keeping, summaries, arrays, records, dataframes."""

import json
import math

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest
from jax import lax

from jaxmagic.core.taps.keeping import Keeper
from jaxmagic.core.taps.series import plain
from jaxmagic.core.taps.summaries import SAMPLE, Reduced, combine, reduce, summarize
from jaxmagic.records import Summary, TapSeries
from tests.core.tapping import tap

# --------------------------------------------------------------------------------------------- keeping


def kept(count: int, batch: int, **how: int) -> list[int]:
    keeper: Keeper[np.ndarray] = Keeper(**how)
    for begin in range(0, count, batch):
        keeper.extend(np.arange(begin, min(begin + batch, count)))
    assert keeper.total == count
    return np.sort(np.concatenate(keeper.kept())).tolist()


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_few_events_are_all_kept(batch: int):
    assert kept(100, batch) == list(range(100))


@pytest.mark.parametrize("batch", [1, 7, 100_000])
def test_the_first_the_last_and_evenly_spaced_ones_are_kept(batch: int):
    events = kept(100_000, batch, first=3, last=2, spaced=100)
    assert events[:3] == [0, 1, 2]
    assert events[-2:] == [99_998, 99_999]
    between = np.diff(events[3:-2])
    assert len(set(between.tolist())) == 1
    assert 50 <= len(events[3:-2]) <= 100


@pytest.mark.parametrize("batch", [1, 4])
def test_only_every_nth_is_looked_at(batch: int):
    assert kept(10, batch, every=4) == [0, 4, 8]


def test_only_the_ends_can_be_kept():
    assert kept(1000, 10, first=1, last=1, spaced=0) == [0, 999]


def test_the_first_that_are_marked_are_kept_wherever_they_are():
    keeper: Keeper[np.ndarray] = Keeper(first=1, last=1, spaced=0, marked=3)
    for begin in range(0, 1000, 10):
        events = np.arange(begin, begin + 10)
        keeper.extend(events, events % 333 == 0)
    assert np.sort(np.concatenate(keeper.kept())).tolist() == [0, 333, 666, 999]


def test_memory_is_bounded():
    keeper: Keeper[np.ndarray] = Keeper(first=10, last=10, spaced=100)
    keeper.extend(np.arange(1_000_000))
    assert len(keeper) <= 120


# ------------------------------------------------------------------------------------------- summaries

SAMPLES = {
    "plain": np.linspace(-1, 2, 300, dtype=np.float32).reshape(3, 100),
    "with nan and inf": np.array([1, np.nan, np.inf, -np.inf, 0, 3], np.float32),
    "all nan": np.full(5, np.nan, np.float32),
    "half precision": np.arange(10, dtype=np.float16),
    "whole numbers": np.arange(-5, 5, dtype=np.int32),
    "booleans": np.array([True, False, True]),
    "complex": np.array([3 + 4j, 0], np.complex64),
    "one": np.array([7.0], np.float32),
    "a sum that overflows": np.full(4, 3e38, np.float32),
}


def reduced(values: np.ndarray) -> Summary:
    moments, counts, sample = map(np.asarray, jax.jit(reduce)(values))
    return Reduced(moments[None], counts[None], sample[None], values.size).summaries()[0]


@pytest.mark.parametrize("name", SAMPLES)
def test_device_and_host_summarize_alike(name: str):
    values = SAMPLES[name]
    device, host = reduced(values), summarize(values)
    assert host is not None
    for field in ("count", "nan", "posinf", "neginf", "zero"):
        assert getattr(device, field) == getattr(host, field)
    for field in ("min", "max", "mean", "std"):
        left, right = getattr(device, field), getattr(host, field)
        assert left == right or left == pytest.approx(right, rel=1e-3, abs=1e-6)


def test_a_summary_counts_its_bins():
    summary = summarize(np.arange(16.0))
    assert summary is not None
    assert summary.histogram == (1,) * 16


def test_a_reduced_array_sends_a_bounded_sample():
    assert jax.eval_shape(reduce, jnp.ones((7, 300, 50)))[2].size <= SAMPLE


def test_an_empty_array_has_a_summary_without_moments():
    summary = reduced(np.zeros((0, 2), np.float32))
    assert (summary.count, summary.mean) == (0, None)


def test_summaries_combine():
    values = np.random.default_rng(0).normal(size=100)
    parts = [summary for part in np.split(values, [10, 40]) if (summary := summarize(part)) is not None]
    whole = combine(parts)
    assert (whole.count, whole.min, whole.max) == (100, values.min(), values.max())
    assert (whole.mean, whole.std) == (pytest.approx(values.mean()), pytest.approx(values.std()))


# ---------------------------------------------------------------------------------------------- records


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([1.5, 2]), [1.5, 2.0]),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array(True), True),
        (np.array([np.nan, np.inf, -np.inf, 1]), ["nan", "inf", "-inf", 1.0]),
        (np.array([1 + 2j]), [[1.0, 2.0]]),
        (np.asarray(jnp.array([1, 2], jnp.bfloat16)), [1.0, 2.0]),
    ],
)
def test_values_become_plain_lists(value: np.ndarray, expected: object):
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)


def run(count: int, **options):
    def step(c, x):
        d = c + x
        return d, None

    return tap("d", jax.jit(lambda: lax.scan(step, jnp.zeros(3), jnp.ones((count, 3)))[0]), **options)


def test_a_series_reads_as_arrays():
    series = run(4).series("d")
    assert series.values.tolist() == [[float(i)] * 3 for i in range(1, 5)]
    assert series.steps.tolist() == [0, 1, 2, 3]
    assert series.loops == [(0,), (1,), (2,), (3,)]
    assert (series.summary.count, series.summary.mean) == (12, 2.5)
    assert repr(series) == "<step.d: 4 events, 4 kept>"


def test_a_record_survives_json():
    record = run(4).series("d").record(100)
    assert msgspec.json.decode(msgspec.json.encode(record), type=TapSeries) == record


def test_a_record_holds_no_more_numbers_than_asked_for():
    record = run(1000).series("d").record(elements=60)
    held = [event.value for event in record.events if event.value is not None]
    assert len(record.events) == 1000
    assert 10 <= len(held) <= 20
    assert all(event.summary is not None for event in record.events)


def test_what_was_dropped_is_counted():
    record = run(10_000).series("d").record(100)
    assert record.total == 10_000
    assert record.dropped == record.total - len(record.events) > 0


def test_the_budget_in_bytes_is_kept():
    def step(c, x):
        d = c + x
        return d, None

    function = jax.jit(lambda: lax.scan(step, jnp.zeros(1000), jnp.ones((5000, 1)))[0])
    tapped = tap("d", function, budget=200_000)
    series = tapped.series("d")
    assert series.total == 5000
    assert len(series) * 4000 <= 220_000
    assert series.steps[0] == 0
    assert series.steps[-1] == 4999


def test_a_series_becomes_a_dataframe():
    pd = pytest.importorskip("pandas")
    frame = run(3).series("d").to_dataframe()
    assert isinstance(frame, pd.DataFrame)
    assert frame["mean"].tolist() == [1.0, 2.0, 3.0]
    assert frame["step"].tolist() == [0, 1, 2]


def test_the_cost_is_told():
    record = run(100).series("d").record(0)
    assert record.bytes == 100 * 16
    assert 0 < record.host_s < 1
    assert math.isclose(record.events[0].time, 0, abs_tol=60)
    assert record.transport == "one callback per frame, in program order"
