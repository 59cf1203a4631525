"""Every control of the Transfer tab, in a real JupyterLab."""

import re
from pathlib import Path

import pytest
from driver import Lab
from playwright.sync_api import Locator, expect

SETUP = """\
%load_ext jaxmagic
import time, jax, jax.numpy as jnp
@jax.jit
def train(w, xs):
    def epoch(w, _):
        def step(w, x):
            hidden = jnp.tanh(w * x)
            loss = (hidden ** 2).sum()
            return w - 0.1 * hidden, loss
        return jax.lax.scan(step, w, xs)
    return jax.lax.scan(epoch, w, None, length=4)
@jax.jit
def lanes(start):
    def step(s, x):
        reward = jnp.log(s - x)
        return s, reward
    return jax.lax.scan(step, start, jnp.arange(5.0))
w, xs = jnp.linspace(-2.0, 2.0, 30).reshape(5, 6), jnp.ones((6, 5, 6))
train(w, xs), lanes(1.0);
"""
LANES = "%%jaxtap reward\n_ = jax.vmap(lanes)(jnp.array([3.5, 9.0, 20.0]))"
LIVE = "%%jaxtap loss\nfor _ in range(40):\n    train(w, xs); time.sleep(0.1)"


def transfer(panel: Locator) -> Locator:
    panel.get_by_role("tab", name="Transfer").click()
    return panel.locator(".transfer")


def choose(panel: Locator, name: str) -> Locator:
    panel.get_by_role("button", name=name, exact=True).click()
    return panel.get_by_role("region", name=f"Series {name}")


def test_a_series_is_looked_at_from_all_sides(lab: Lab, tmp_path: Path):
    notebook = lab.open(SETUP, '%%jaxtap loss hidden --alert "jnp.any(x > 16)"\n_ = train(w, xs)')
    notebook.run(0)
    notebook.run(1)
    panel = transfer(notebook.panel(1))
    expect(panel.get_by_text("48 events · ")).to_contain_text("µs an event")
    expect(panel.get_by_role("row")).to_have_count(3)

    hidden = choose(panel, "hidden")
    expect(hidden.get_by_role("img", name="Mean of hidden")).to_be_visible()
    expect(hidden.locator("canvas")).to_be_visible()
    expect(hidden.get_by_role("img", name="Histogram from")).to_be_visible()
    expect(hidden.locator(".event")).to_contain_text("event 23 · iteration 3, 5")

    hidden.get_by_role("slider", name="Event").fill("7")
    expect(hidden.locator(".event")).to_contain_text("event 7 · iteration 1, 1")
    expect(hidden.get_by_role("slider", name="Outer loop")).to_have_value("1")
    hidden.get_by_role("slider", name="Outer loop").fill("2")
    expect(hidden.locator(".event")).to_contain_text("event 12 · iteration 2, 0")
    hidden.get_by_role("button", name="Max").click()
    expect(hidden.get_by_role("img", name="Max of hidden")).to_be_visible()
    hidden.get_by_role("img", name="Max of hidden").click(position={"x": 3, "y": 20})
    expect(hidden.locator(".event")).to_contain_text("event 0 ")
    hidden.get_by_role("button", name="Last").click()
    expect(hidden.locator(".event")).to_contain_text("event 23 ")

    with lab.page.expect_download() as download:
        hidden.get_by_role("button", name="CSV").click()
    download.value.save_as(tmp_path / "series.csv")
    assert len((tmp_path / "series.csv").read_text().splitlines()) == 25

    panel.get_by_role("searchbox", name="Filter names").fill("los")
    expect(panel.get_by_role("row")).to_have_count(2)
    panel.get_by_role("searchbox", name="Filter names").fill("nothing")
    expect(panel.get_by_text("No name contains “nothing”.")).to_be_visible()

    notebook.panel(1).get_by_role("tab", name="Overview").click()
    line = notebook.panel(1).locator(".line", has_text="loss = (hidden ** 2).sum()")
    expect(line.locator("svg.spark")).to_be_visible()


def test_lanes_have_a_curve_each_and_a_nan_is_led_to(lab: Lab):
    notebook = lab.open(SETUP, LANES)
    notebook.run(0)
    notebook.run(1)
    panel = transfer(notebook.panel(1))
    reward = panel.get_by_role("region", name="Series reward")
    expect(reward.locator("path.lane")).to_have_count(3)
    expect(panel.get_by_text("1 event with NaN or ∞")).to_be_visible()
    expect(reward.locator(".event")).to_contain_text("3 lanes (vmap)")
    reward.get_by_role("slider", name="Event").fill("1")
    reward.get_by_role("button", name="First NaN or ∞").click()
    expect(reward.locator(".event")).to_contain_text("NaN 1")
    expect(reward.get_by_role("button", name="NaN and ∞", exact=True)).to_be_visible()


def test_the_view_is_held_still_and_follows_again(lab: Lab):
    notebook = lab.open(SETUP, LIVE)
    notebook.run(0)
    notebook.start(1)
    panel = transfer(notebook.panel(1))
    slider = panel.get_by_role("slider", name="Event")
    expect(slider).to_have_attribute("max", re.compile(r"\d\d"))
    panel.get_by_role("button", name="Hold the view").click()
    held = slider.get_attribute("max")
    lab.page.wait_for_timeout(700)
    assert slider.get_attribute("max") == held
    panel.get_by_role("button", name="Follow again").click()
    expect(slider).not_to_have_attribute("max", held or "")
    notebook.wait_until_run(1)
    expect(panel.get_by_role("button", name="Hold the view")).to_have_count(0)
    expect(slider).to_have_attribute("max", "959")


@pytest.mark.parametrize("width", [1400, 600])
def test_nothing_is_wider_than_the_page(lab: Lab, width: int):
    lab.page.set_viewport_size({"width": width, "height": 900})
    notebook = lab.open(SETUP, LANES)
    notebook.run(0)
    notebook.run(1)
    transfer(notebook.panel(1))
    assert notebook.overflow(1) <= 0
