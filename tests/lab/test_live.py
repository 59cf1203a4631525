"""`%%jaxtap` in a real JupyterLab: the Transfer tab fills while the kernel is still running the cell."""

from driver import Lab
from playwright.sync_api import expect

SETUP = """\
%load_ext jaxmagic
import time, jax, jax.numpy as jnp
@jax.jit
def step(w):
    loss = (w ** 2).sum()
    return w * 0.9, loss
step(jnp.ones(3));
"""

LOOP = """\
%%jaxtap loss
w = jnp.ones(3)
for _ in range(50):
    w, loss = step(w)
    time.sleep(0.1)
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
    expect(panel.get_by_text("50").first).to_be_visible()


def test_two_panels_stream_side_by_side_and_a_cell_run_again_starts_anew(lab: Lab):
    notebook = lab.open(SETUP, LOOP.replace("50", "10"), LOOP.replace("50", "20"))
    for cell in (0, 1, 2, 1):
        notebook.run(cell)
    for cell, events in ((1, "10"), (2, "20")):
        panel = notebook.panel(cell)
        panel.get_by_role("tab", name="Transfer").click()
        expect(panel.get_by_text(events, exact=True).first).to_be_visible()
