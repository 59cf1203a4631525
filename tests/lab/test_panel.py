"""The panel below a traced cell, from a real kernel in a real JupyterLab."""

import re

from driver import Lab, Notebook
from playwright.sync_api import Locator, expect

LOAD = "%load_ext jaxmagic\nimport jax, jax.numpy as jnp"
TRACED = """%%jaxtrace
@jax.jit
def gram(x):
    h = jnp.tanh(x)
    return h @ h.T

print("before")
gram(jnp.ones((3, 4)))"""
FAILING = """%%jaxtrace
@jax.jit
def bad(x, w):
    return x @ w

bad(jnp.ones((3, 4)), jnp.ones((5, 6)))"""
WAITING = """%%jaxtrace
import threading
gram(jnp.ones((2, 2)))
threading.Event().wait()"""


def state(notebook: Notebook, index: int) -> Locator:
    return notebook.panel(index).get_by_role("status").first


def run_all(notebook: Notebook, count: int) -> None:
    for index in range(count):
        notebook.run(index)


def test_every_way_a_cell_can_end_has_its_panel(lab: Lab):
    notebook = lab.open(LOAD, TRACED, FAILING, "%%jaxtrace\n1 + 1", "%%jaxtrace\n")
    run_all(notebook, 5)
    for index, word in {1: "finished", 2: "failed", 3: "finished", 4: "finished"}.items():
        notebook.cell(index).scroll_into_view_if_needed()
        expect(state(notebook, index)).to_contain_text(word)
    expect(notebook.panel(1)).to_contain_text(re.compile(r"h:?\s*f32\[3,4\]"))
    expect(notebook.panel(2).locator(".mark.failing").first).to_have_text("x @ w")


def test_a_running_cell_shows_its_panel_and_an_interrupt_ends_it(lab: Lab):
    notebook = lab.open(LOAD, TRACED, WAITING)
    run_all(notebook, 2)
    notebook.start(2)
    expect(state(notebook, 2)).to_contain_text("running")
    lab.command("notebook:interrupt-kernel")
    notebook.wait_until_run(2)
    expect(state(notebook, 2)).to_contain_text("interrupted")


def test_arrow_keys_move_between_the_tabs_and_not_between_cells(lab: Lab):
    notebook = lab.open(LOAD, TRACED)
    run_all(notebook, 2)
    panel = notebook.panel(1)
    panel.get_by_role("tab", name="Overview").focus()
    for name in ("Transform", "Output"):
        while_on = panel.get_by_role("tab", name=name)
        lab.page.keyboard.press("ArrowRight")
        expect(while_on).to_be_focused()
        expect(while_on).to_have_attribute("aria-selected", "true")
    expect(panel.get_by_role("tabpanel")).to_contain_text("before")


def test_a_line_selects_its_equations_and_an_equation_its_line(lab: Lab):
    notebook = lab.open(LOAD, TRACED)
    run_all(notebook, 2)
    panel = notebook.panel(1)
    panel.get_by_role("tab", name="Transform").click()
    source, program = panel.get_by_role("region", name="Source"), panel.get_by_role("region", name="Program")
    source.get_by_role("button", name="line 4").click()
    expect(program.locator(".lit", has_text="tanh").first).to_be_visible()
    program.get_by_text("dot_general").first.click()
    expect(source.locator(".line.lit")).to_contain_text("h @ h.T")


def test_the_panel_follows_the_theme(lab: Lab):
    notebook = lab.open(LOAD, TRACED)
    run_all(notebook, 2)
    lab.theme("JupyterLab Light")
    light = brightness(notebook.panel(1))
    lab.theme("JupyterLab Dark")
    assert light > 200
    assert brightness(notebook.panel(1)) < 60


def brightness(panel: Locator) -> float:
    """Mean of red, green and blue of the panel's background, 0 to 255."""
    colour = panel.evaluate("panel => getComputedStyle(panel).backgroundColor")
    red, green, blue = (float(part) for part in re.findall(r"[\d.]+", colour)[:3])
    return (red + green + blue) / 3


def test_the_panel_fits_narrow_and_wide_pages(lab: Lab):
    notebook = lab.open(LOAD, TRACED)
    run_all(notebook, 2)
    for width in (600, 1400):
        lab.page.set_viewport_size({"width": width, "height": 900})
        for tab in ("Overview", "Transform", "Output"):
            notebook.panel(1).get_by_role("tab", name=tab).click()
            assert notebook.overflow(1) <= 0, f"{tab} at {width} px"


def test_a_saved_notebook_shows_the_same_once_its_kernel_is_gone(lab: Lab):
    notebook = lab.open(LOAD, TRACED)
    run_all(notebook, 2)
    before = notebook.panel(1).inner_text()
    notebook.save()
    lab.shut_down_kernels()
    again = lab.reopen(notebook.file)
    assert again.panel(1).inner_text() == before


def test_two_panels_keep_their_own_tabs(lab: Lab):
    notebook = lab.open(LOAD, TRACED, "%%jaxtrace\ngram(jnp.ones((2, 5)))")
    run_all(notebook, 3)
    first, second = notebook.panel(1), notebook.panel(2)
    second.get_by_role("tab", name="Transform").click()
    expect(first.get_by_role("tab", name="Overview")).to_have_attribute("aria-selected", "true")
    expect(second.get_by_role("tab", name="Transform")).to_have_attribute("aria-selected", "true")
