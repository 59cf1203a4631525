"""The JupyterLab extension: a saved report is shown from the notebook alone."""

from driver import Lab, code
from playwright.sync_api import expect

REPORT = "application/vnd.jaxmagic.report+json"
VIEW = "application/vnd.jupyter.widget-view+json"


def test_a_widget_of_anywidget_shows_below_its_cell(lab: Lab):
    source = """
import anywidget, traitlets
class Hello(anywidget.AnyWidget):
    _esm = "export default { render({ model, el }) { el.textContent = `hello ${model.get('name')}` } }"
    name = traitlets.Unicode("Ada").tag(sync=True)
Hello()
"""
    notebook = lab.open(source)
    expect(notebook.run(0)).to_contain_text("hello Ada")


def test_a_saved_report_shows_without_a_kernel_and_goes_before_its_lost_widget(lab: Lab):
    bundle = {
        "text/plain": "the text",
        "text/html": "<b>the static HTML</b>",
        VIEW: {"version_major": 2, "version_minor": 0, "model_id": "gone"},
        REPORT: {"protocol": 1, "version": "0.1.0", "report": ""},
    }
    notebook = lab.open(code("1", bundle), kernel=False)
    expect(notebook.output(0)).to_contain_text("jaxmagic 0.1.0")
    expect(notebook.output(0)).not_to_contain_text("the static HTML")
