"""Keys pressed inside the panel stay there: JupyterLab would delete cells on `dd` and edit them on Enter."""

import pytest
from driver import Lab, Notebook
from playwright.sync_api import Locator, expect

LOAD = "%load_ext jaxmagic\nimport jax, jax.numpy as jnp"
TRACED = "%%jaxtrace\njax.jit(lambda x: jnp.tanh(x) @ x.T)(jnp.ones((3, 4)))"


@pytest.fixture
def notebook(lab: Lab) -> Notebook:
    opened = lab.open(LOAD, TRACED)
    opened.run(0)
    opened.run(1)
    opened.panel(1).get_by_role("tab", name="Transform").click()
    return opened


def cells(lab: Lab) -> Locator:
    return lab.page.locator(".jp-Notebook .jp-Cell")


def test_typing_in_the_search_box_is_typing(lab: Lab, notebook: Notebook):
    box = notebook.panel(1).get_by_role("searchbox")
    box.click()
    lab.page.keyboard.type("ddaabbx")
    expect(box).to_have_value("ddaabbx")
    expect(cells(lab)).to_have_count(2)


def test_enter_presses_the_button_it_is_on(lab: Lab, notebook: Notebook):
    stage = notebook.panel(1).get_by_role("button", name="HLO", exact=True)
    stage.focus()
    lab.page.keyboard.press("Enter")
    expect(stage).to_have_attribute("aria-pressed", "true")
    expect(lab.page.locator(".jp-Notebook.jp-mod-editMode")).to_have_count(0)


def test_arrow_keys_walk_through_the_program(lab: Lab, notebook: Notebook):
    program = notebook.panel(1).get_by_role("tree")
    program.focus()
    lab.page.keyboard.press("ArrowDown")
    lab.page.keyboard.press("ArrowDown")
    expect(program).to_have_attribute("aria-activedescendant", "row-1")
    expect(program.locator("#row-1")).to_have_attribute("aria-selected", "true")


def test_shift_enter_still_runs_the_cell(lab: Lab, notebook: Notebook):
    notebook.panel(1).get_by_role("button", name="Fit").focus()
    lab.page.keyboard.press("Shift+Enter")
    expect(cells(lab)).to_have_count(3)
