"""`%%jaxnojit` in a real JupyterLab: real values stand beside the lines, and what ran in Python is listed."""

from driver import Lab
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
