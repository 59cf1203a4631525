"""A saved report is shown from the notebook alone: no kernel, no trust, another version."""

from driver import Lab, code
from playwright.sync_api import expect
from saved import bundle

STATES = {
    "mlp": "finished",
    "failed": "failed",
    "interrupted": "interrupted",
    "empty": "finished",
    "running": "was running when saved",
}


def test_an_untrusted_notebook_without_a_kernel_shows_every_saved_panel(lab: Lab):
    notebook = lab.open(*(code("f(x)", bundle(name)) for name in STATES), kernel=False)
    for index, state in enumerate(STATES.values()):
        notebook.cell(index).scroll_into_view_if_needed()
        expect(notebook.panel(index).get_by_role("status").first).to_contain_text(state)
        expect(notebook.output(index)).not_to_contain_text("the static page")


def test_in_a_trusted_notebook_the_saved_panel_goes_before_the_lost_widget(lab: Lab):
    notebook = lab.open(f"display({bundle('mlp')!r}, raw=True)")
    notebook.run(0)
    expect(notebook.panel(0).get_by_role("tab", name="Overview")).to_be_visible()
    expect(notebook.output(0)).not_to_contain_text("Error displaying widget")


def test_a_report_of_another_version_says_so(lab: Lab):
    notebook = lab.open(code("f(x)", bundle("mlp", protocol=999)), kernel=False)
    expect(notebook.output(0)).to_contain_text("protocol 999")


def test_hostile_names_run_no_script_and_stay_in_their_cell(lab: Lab, alerts: list[str]):
    notebook = lab.open(code("f(x)", bundle("hostile")), kernel=False)
    for tab in ("Transform", "Output", "Overview"):
        notebook.panel(0).get_by_role("tab", name=tab).click()
        expect(notebook.panel(0).get_by_role("tabpanel")).to_be_visible()
    assert alerts == []
    assert notebook.overflow(0) <= 0
