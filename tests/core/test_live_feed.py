"""News of a tapped cell while it runs."""

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from jaxmagic.core import live
from jaxmagic.core.live import LiveFeed
from jaxmagic.core.tapping import Tapping
from jaxmagic.core.taps.taps import TapOptions
from jaxmagic.records import Live


@jax.jit
def step(w):
    loss = (w**2).sum()
    return w * 0.9, loss


@pytest.fixture
def told() -> Callable[[], list[Live]]:
    """What the feed tells of a loop that takes half a second."""

    def run() -> list[Live]:
        news: list[Live] = []
        session = Tapping(["loss"], TapOptions())
        feed = LiveFeed(session, news.append, session.limits)
        session.start()
        feed.start()
        w = jnp.ones(3)
        for _ in range(10):
            w, _ = step(w)
            time.sleep(0.05)
        feed.stop()
        session.stop()
        return news

    return run


def test_values_are_told_while_the_cell_runs_and_each_only_once(told):
    steps = [event.step for news in told() for series in news.taps for event in series.events]
    assert steps == sorted(set(steps))
    assert steps


def test_the_text_of_a_file_is_sent_once(told):
    assert [len(news.sources) for news in told()][:3] == [1, 0, 0]


def test_the_text_is_sent_again_to_a_panel_that_was_late(told, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "SOURCES_AGAIN", 0.0)
    assert {len(news.sources) for news in told()} == {1}
