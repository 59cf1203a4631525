"""Retakes every picture in docs/screenshots in a real JupyterLab: `make screenshots`."""

import os
import tempfile
from pathlib import Path

from driver import CHROMIUM_FLAGS, Lab, Notebook
from playwright.sync_api import Browser, FloatRect, Page, expect, sync_playwright
from server import serving

PICTURES = Path(__file__).with_name("screenshots")
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
WIDTHS = (1400, 600)
HEIGHT = 1700
"""Of the page, in pixels: the tallest cell and its panel fit without scrolling."""

SETUP = """%load_ext jaxmagic
import jax, jax.numpy as jnp
k1, k2, k3 = jax.random.split(jax.random.key(0), 3)
params = {
    "w1": 0.05 * jax.random.normal(k1, (784, 256)), "b1": jnp.zeros(256),
    "w2": 0.05 * jax.random.normal(k2, (256, 10)), "b2": jnp.zeros(10),
}
x, y = jax.random.normal(k3, (32, 784)), jnp.zeros((32, 10))"""
FINISHED = """%%jaxtrace
def mlp(params, x):
    hidden = jax.nn.relu(x @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]

@jax.jit
def step(params, x, y):
    loss = lambda p: jnp.mean((mlp(p, x) - y) ** 2)
    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

for i in range(5):
    params, value = step(params, x, y)
    print(i, value)"""
FAILED = """%%jaxtrace
def predict(params, x):
    hidden = jnp.tanh(x @ params["w1"])
    return x @ params["w2"]

jax.jit(predict)(params, x)"""
EMPTY = "%%jaxtrace\n"
WITHOUT_JAX = "%%jaxtrace\ntotal = sum(range(10))\ntotal"
TAPPED = """%%jaxtap value hidden grads['w2'] --alert "jnp.all(x < 0.02)"
for i in range(60):
    params, value = step(params, x, y)"""
WAITING = """%%jaxtrace
import threading
params, value = step(params, x, y)
threading.Event().wait()"""


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder) / "lab") as (address, notebooks),
        sync_playwright() as playwright,
    ):
        executable = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=list(CHROMIUM_FLAGS))
        lab = Lab(new_page(browser), address, notebooks)
        picture_tabs(lab)
        picture_taps(lab)
        picture_states(lab)
        browser.close()


def new_page(browser: Browser) -> Page:
    return browser.new_context(viewport={"width": WIDTHS[0], "height": HEIGHT}).new_page()


def picture_tabs(lab: Lab) -> None:
    """Each tab of a finished cell, in both themes and both widths."""
    notebook = lab.open(SETUP, FINISHED, name="tabs")
    for index in range(2):
        notebook.run(index)
    for theme, name in THEMES.items():
        lab.theme(name)
        for width in WIDTHS:
            lab.page.set_viewport_size({"width": width, "height": HEIGHT})
            for tab in ("Overview", "Transform", "Output"):
                notebook.panel(1).get_by_role("tab", name=tab).click()
                take(notebook, 1, f"{tab.lower()}-{theme}-{width}")
    notebook.save()
    lab.page.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})
    lab.theme(THEMES["light"])
    lab.shut_down_kernels()
    again = lab.reopen(notebook.file)
    take(again, 1, "reopened")


def picture_taps(lab: Lab) -> None:
    """What came ashore, in both themes and both widths."""
    notebook = lab.open(SETUP, FINISHED, TAPPED, name="taps")
    for index in range(3):
        notebook.run(index)
    panel = notebook.panel(2)
    panel.get_by_role("tab", name="Transfer").click()
    panel.get_by_role("button", name="grads['w2']", exact=True).click()
    for theme, name in THEMES.items():
        lab.theme(name)
        for width in WIDTHS:
            lab.page.set_viewport_size({"width": width, "height": HEIGHT})
            take(notebook, 2, f"transfer-{theme}-{width}")
    lab.page.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})
    lab.theme(THEMES["light"])


def picture_states(lab: Lab) -> None:
    """One cell for each other way it can stand."""
    notebook = lab.open(SETUP, FINISHED, FAILED, EMPTY, WITHOUT_JAX, WAITING, name="states")
    for index in range(5):
        notebook.run(index)
    for index, name in {2: "failed", 3: "empty", 4: "without-jax"}.items():
        take(notebook, index, name)
    notebook.start(5)
    expect(notebook.panel(5).get_by_role("status").first).to_contain_text("running")
    take(notebook, 5, "running")
    lab.command("notebook:interrupt-kernel")
    notebook.wait_until_run(5)
    take(notebook, 5, "interrupted")


def take(notebook: Notebook, index: int, name: str) -> None:
    """A picture of a cell and its panel, without what stands below: a long traceback, say."""
    cell, panel = notebook.cell(index), notebook.panel(index)
    expect(panel).to_be_visible()
    cell.evaluate("cell => cell.scrollIntoView()")
    notebook.page.mouse.move(0, 0)
    top, bottom = cell.bounding_box(), panel.bounding_box()
    assert top is not None
    assert bottom is not None
    height = bottom["y"] + bottom["height"] - top["y"]
    clip: FloatRect = {"x": top["x"], "y": top["y"], "width": top["width"], "height": height}
    notebook.page.screenshot(path=PICTURES / f"{name}.png", clip=clip, animations="disabled")


if __name__ == "__main__":
    main()
