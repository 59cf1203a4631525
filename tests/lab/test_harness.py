"""The browser harness itself: a kernel runs, a widget shows, a theme changes."""

from driver import Lab
from playwright.sync_api import expect


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
