"""`%%jaxtap` in a real JupyterLab: the Transfer tab fills while the kernel is still running the cell."""

import re

from driver import Lab
from playwright.sync_api import expect

SETUP = """\
%load_ext jaxmagic
import time, jax, jax.numpy as jnp
@jax.jit
def step(w):
    loss = (w ** 2).sum()
    smaller = w * 0.9
    return smaller, loss
step(jnp.ones(3));
"""

LOOP = """\
%%jaxtap loss
w = jnp.ones(3)
for _ in range(100):
    w, loss = step(w)
    time.sleep(0.1)
"""


FLOOD = """\
%%jaxtap new
began = time.time()
total = jax.block_until_ready(count(1_000_000))
seconds = time.time() - began
"""

COUNT = """\
@jax.jit
def count(n):
    def body(i, total):
        new = total + 1.0
        return new
    return jax.lax.fori_loop(0, n, body, jnp.zeros(16))
count(3);
"""


def test_points_are_on_screen_before_the_cell_ends(lab: Lab):
    notebook = lab.open(SETUP, LOOP, "print('next')")
    notebook.run(0)
    notebook.start(1)
    panel = notebook.panel(1)
    panel.get_by_role("tab", name="Transfer").click()
    expect(panel.get_by_text("loss").first).to_be_visible()
    assert "running" in (panel.get_attribute("aria-label") or "")
    notebook.wait_until_run(1)
    expect(panel).to_have_attribute("aria-label", "jaxtap, finished")
    expect(panel.get_by_text("100").first).to_be_visible()


def test_a_person_stays_in_the_tab_and_at_the_event_when_the_cell_ends(lab: Lab):
    notebook = lab.open(SETUP, LOOP.replace("%%jaxtap loss", "%%jaxtap loss smaller").replace("100", "30"))
    notebook.run(0)
    notebook.start(1)
    panel = notebook.panel(1)
    panel.get_by_role("tab", name="Transfer").click()
    panel.get_by_role("button", name="smaller", exact=True).click()
    slider = panel.get_by_role("slider", name="Event")
    expect(slider).to_have_attribute("max", re.compile(r"[4-9]|\d\d"))
    slider.fill("3")
    notebook.wait_until_run(1)
    expect(panel).to_have_attribute("aria-label", "jaxtap, finished")
    expect(panel.get_by_role("tab", name="Transfer")).to_have_attribute("aria-selected", "true")
    expect(panel.get_by_role("button", name="smaller", exact=True)).to_have_attribute("aria-pressed", "true")
    expect(panel.locator(".event")).to_contain_text("event 3")


def test_what_came_while_the_panel_was_out_of_sight_is_there_when_it_is_back(lab: Lab):
    filler = ["\n".join(f"x = {n}" for n in range(40))] * 12
    notebook = lab.open(SETUP, LOOP.replace("0.1)", "0.3)"), *filler)
    notebook.run(0)
    notebook.start(1)
    panel = notebook.panel(1)
    panel.get_by_role("tab", name="Transfer").click()
    expect(panel.get_by_text("loss").first).to_be_visible()
    lab.command("notebook:move-cursor-down")
    for _ in range(12):
        lab.command("notebook:move-cursor-down")
    expect(panel).not_to_be_in_viewport()
    lab.page.wait_for_timeout(2000)
    for _ in range(13):
        lab.command("notebook:move-cursor-up")
    expect(panel).to_be_in_viewport()
    expect(panel).to_have_attribute("aria-label", "jaxtap, running")
    expect(panel.get_by_role("tab", name="Transfer")).to_have_attribute("aria-selected", "true")
    assert int(panel.get_by_role("slider", name="Event").get_attribute("max") or 0) > 6


def test_an_alert_is_said_aloud_and_leads_to_its_line(lab: Lab):
    notebook = lab.open(SETUP, LOOP.replace("loss\n", 'loss --alert "x < 1.0"\n', 1).replace("100", "20"))
    notebook.run(0)
    notebook.start(1)
    panel = notebook.panel(1)
    expect(panel.get_by_text("Alert: loss")).to_be_attached()
    panel.get_by_role("region", name="Alerts").locator(".where").first.click()
    expect(panel.locator(".line.selected")).to_contain_text("loss = (w ** 2).sum()")
    notebook.wait_until_run(1)
    expect(panel.get_by_role("region", name="Alerts")).to_be_visible()


def test_two_panels_stream_side_by_side_and_a_cell_run_again_starts_anew(lab: Lab):
    notebook = lab.open(SETUP, LOOP.replace("100", "10"), LOOP.replace("100", "20"))
    for cell in (0, 1, 2, 1):
        notebook.run(cell)
    for cell, events in ((1, "10"), (2, "20")):
        panel = notebook.panel(cell)
        panel.get_by_role("tab", name="Transfer").click()
        expect(panel.get_by_text(events, exact=True).first).to_be_visible()


def test_a_million_events_reach_the_page_in_few_small_messages_and_leave_it_responsive(lab: Lab):
    sizes: list[int] = []

    def note(message: str | bytes) -> None:
        text = message if isinstance(message, bytes) else message.encode()
        if b'"kind": "live"' in text:
            sizes.append(len(text))

    lab.page.on("websocket", lambda socket: socket.on("framereceived", note))
    notebook = lab.open(SETUP + COUNT, FLOOD, "print(seconds)")
    notebook.run(0)
    notebook.start(1)
    panel = notebook.panel(1)
    panel.get_by_role("tab", name="Transfer").click()
    expect(panel.get_by_role("cell", name=re.compile(r"^\d{2,3},\d{3}$"))).to_be_visible()
    panel.get_by_role("tab", name="Overview").click()
    expect(panel.get_by_role("tab", name="Overview")).to_have_attribute("aria-selected", "true")
    panel.get_by_role("tab", name="Transfer").click()
    assert int(panel.get_by_role("slider", name="Event").get_attribute("max") or 0) < 4_200
    assert "running" in (panel.get_attribute("aria-label") or "")
    notebook.wait_until_run(1)
    expect(panel.get_by_role("cell", name="1,000,000")).to_be_visible()
    seconds = float(notebook.run(2).inner_text())
    assert 1 < len(sizes) <= 20 * seconds + 2
    assert sum(sizes) <= 1_000_000 * (seconds + 1)
