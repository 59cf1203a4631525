"""The static page where no panel can be: in a notebook that nobody trusted, JupyterLab's sanitizer included."""

import re

import msgspec
from driver import Lab, Notebook, code
from playwright.sync_api import expect
from saved import RECORDS

from jaxmagic import html
from jaxmagic.records import Report


def opened(lab: Lab, *names: str) -> Notebook:
    """An untrusted notebook without a kernel, each cell with nothing but the page of one report."""
    reports = (msgspec.json.decode((RECORDS / f"{name}.json").read_bytes(), type=Report) for name in names)
    return lab.open(*(code("f(x)", {"text/html": html.render(report)}) for report in reports), kernel=False)


def test_an_untrusted_notebook_shows_source_ledger_and_failure(lab: Lab):
    output = opened(lab, "failed").output(0)
    expect(output).to_contain_text("dot_general requires contracting dimensions")
    expect(output.locator("mark").first).to_have_text("x @ w")
    expect(output.locator("th", has_text="Came from")).to_be_visible()
    expect(output.locator("pre", has_text="# x: f32[5,16] ← failed here")).to_be_visible()
    expect(output).not_to_contain_text("--jm-text")


def test_an_untrusted_notebook_unfolds_programs_without_script(lab: Lab):
    output = opened(lab, "mlp").output(0)
    program = output.get_by_text(re.compile(r"dot_general\["))
    expect(program.first).to_be_hidden()
    output.get_by_text("Programs: jaxpr of 40 equations").click()
    output.get_by_text("jaxpr, 40 equations").click()
    expect(program.first).to_be_visible()


def test_hostile_names_are_text_in_a_page(lab: Lab, alerts: list[str]):
    output = opened(lab, "hostile").output(0)
    expect(output).to_contain_text("<img src=x onerror=alert(1)>")
    expect(output.locator("img, script")).to_have_count(0)
    assert alerts == []
