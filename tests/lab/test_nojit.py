"""`%%jaxnojit` in a real JupyterLab: real values beside the lines, a comparison, a breakpoint."""

from driver import CELL_MS, Lab
from playwright.sync_api import expect

SETUP = """\
%load_ext jaxmagic
import jax, jax.numpy as jnp
"""

CELL = """\
%%jaxnojit
@jax.jit
def settle(x):
    def body(c, k):
        c = c + k * x
        return c, c.sum()
    return jax.lax.scan(body, x, jnp.arange(8.0))
settled = settle(jnp.ones(2))
"""


def test_each_line_has_its_values_in_the_first_and_the_last_iterations(lab: Lab):
    notebook = lab.open(SETUP, CELL)
    notebook.run(0)
    notebook.run(1)
    panel = notebook.panel(1)
    expect(panel).to_have_attribute("aria-label", "jaxnojit, finished")
    expect(panel.locator("header")).to_contain_text("jit off everywhere")
    expect(panel.locator(".line", has_text="def body")).to_contain_text("k = 0., 1., 2. … 5., 6., 7.")
    expect(panel.get_by_role("region", name="Without jit")).to_contain_text("settle ran in Python 1 time")
    panel.get_by_role("button", name="line 5").click()
    expect(panel.locator(".runs tbody tr")).to_have_count(6)
    assert notebook.overflow(1) == 0


COMPARED = """\
%%jaxnojit --compare
@jax.jit
def f(x):
    h = jnp.exp(x)
    y = h * (3 if isinstance(x, jax.core.Tracer) else 2)
    return y
same = jnp.zeros(3)
z = f(same)
"""


def test_a_comparison_is_in_the_output_tab_with_its_verdict_and_what_differs_first(lab: Lab):
    notebook = lab.open(SETUP, COMPARED)
    notebook.run(0)
    output = notebook.run(1)
    expect(output).to_contain_text("This cell runs twice, with jit")
    panel = notebook.panel(1)
    panel.get_by_role("tab", name="Output").click()
    comparison = panel.get_by_role("region", name="Comparison")
    expect(comparison).to_contain_text("A real difference: z differs")
    rows = comparison.locator("tbody tr")
    expect(rows.first).to_contain_text("z")
    expect(rows.first).to_contain_text("different")
    expect(rows.filter(has_text="same")).to_contain_text("equal")
    comparison.get_by_role("button", name=":5").click()
    expect(panel.get_by_role("tab", name="Overview")).to_have_attribute("aria-selected", "true")
    expect(panel.locator(".line.selected")).to_contain_text("y = h * (3 if")
    assert notebook.overflow(1) == 0


STOPS = """\
%%jaxnojit --only stops
@jax.jit
def stops(x):
    y = x * 2
    breakpoint()
    z = y + 1
    return z
out = jax.jit(lambda x: stops(x) + 1)(jnp.float32(20.0))
print("then", float(out))
"""


def test_a_breakpoint_asks_below_the_cell_and_answers_with_real_values(lab: Lab):
    notebook = lab.open(SETUP, STOPS)
    notebook.run(0)
    notebook.start(1)
    output = notebook.output(1)
    expect(output).to_contain_text("breakpoint()", timeout=CELL_MS)
    for typed, answer in (("n", "z = y + 1"), ("p float(y)", "40.0"), ("n", "return z"), ("p float(z)", "41.0")):
        notebook.answer(1, typed)
        expect(output).to_contain_text(answer, timeout=CELL_MS)
    notebook.answer(1, "c")
    notebook.wait_until_run(1)
    expect(output).to_contain_text("then 42.0")
    expect(notebook.panel(1)).to_have_attribute("aria-label", "jaxnojit, finished")
