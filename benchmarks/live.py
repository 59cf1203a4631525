"""P7: tapped values on their way to the screen, in a real JupyterLab in a real Chromium."""

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, WebSocket, sync_playwright
from rounds import Row

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "lab"))
from driver import CHROMIUM_FLAGS, Lab, Notebook
from server import serving

LATENCY_MS = 150
MOST_MESSAGES = 20
MOST_BYTES = 1_000_000
FRAME_MS = 50
"""Nineteen of twenty frames take no longer where a page is fluid."""

GROWTH_MB = 64
"""Of the kernel from the first quarter of the events on, and of the page over the whole cell."""

EVENTS = 300
FLOOD = 1_000_000

SETUP = """\
%load_ext jaxmagic
import json, os, threading, time, jax, jax.numpy as jnp

@jax.jit
def step(x):
    loss = x * 2
    return loss

@jax.jit
def count(n):
    def body(i, total):
        new = total + 1.0
        return new
    return jax.lax.fori_loop(0, n, body, jnp.zeros(16))

def memory():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

def watch():
    while not done.wait(0.2):
        sizes.append(memory())

made, sizes, done = [], [], threading.Event()
step(jnp.float32(0)), count(3);
"""

STEPS = f"""\
%%jaxtap loss
for i in range({EVENTS}):
    made.append(1000 * time.time())
    step(jnp.float32(i)).block_until_ready()
    time.sleep(0.02)
time.sleep(1)
"""

PRINTS = f"""\
made.clear()
print(0)
time.sleep(1)
for i in range({EVENTS}):
    made.append(1000 * time.time())
    print(i)
    time.sleep(0.02)
time.sleep(1)
"""

ALL_AT_ONCE = f"""\
%%jaxtap new
threading.Thread(target=watch).start()
began = time.time()
count({FLOOD}).block_until_ready()
seconds = time.time() - began
done.set()
"""

IN_PANEL = 'element.querySelector("table.series td.num")?.textContent.replaceAll(",", "") ?? 0'
IN_OUTPUT = 'element.textContent.trim().split("\\n").length - 1'
"""How many events an element shows."""

WATCH = """element => {
  const seen = [], frames = [];
  let shown = 0, last = performance.now();
  window.watched = { seen, frames, since: Date.now() };
  const look = () => {
    frames.push(performance.now() - last);
    last = performance.now();
    const events = Number(EVENTS);
    // What changed before this frame has been painted when the timer fires.
    if (events !== shown) setTimeout(() => seen.push([Date.now(), events]));
    shown = events;
    if (element.isConnected) requestAnimationFrame(look);
  };
  look();
}"""


class Messages:
    """The live messages that the page received."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def listen(self, socket: WebSocket) -> None:
        socket.on("framereceived", self._note)

    def _note(self, message: str | bytes) -> None:
        text = message if isinstance(message, bytes) else message.encode()
        if b'"kind": "live"' in text or b'"kind":"live"' in text:
            self.sizes.append(len(text))


def rows(only: set[str]) -> list[Row]:
    if only and "P7" not in only:
        return []
    with _lab() as (lab, messages):
        made, rest = "print(json.dumps(made))", "print(json.dumps([seconds, sizes]))"
        notebook = lab.open(SETUP, STEPS, made, ALL_AT_ONCE, rest, PRINTS, made)
        notebook.run(0)
        return [_latency(notebook), _flood(notebook, messages)]


@contextmanager
def _lab() -> Iterator[tuple[Lab, Messages]]:
    messages = Messages()
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as (address, notebooks):  # noqa: SIM117
        with sync_playwright() as playwright:
            executable = os.environ.get("CHROMIUM", "/usr/bin/chromium")
            browser = playwright.chromium.launch(executable_path=executable, args=list(CHROMIUM_FLAGS))
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.on("websocket", messages.listen)
            lab = Lab(page, address, notebooks)
            yield lab, messages
            lab.shut_down_kernels()
            browser.close()


def _latency(notebook: Notebook) -> Row:
    middle, most = _late(_watched(notebook, 1), _printed(notebook, 2))
    # A printed line goes the same way, without us: what this machine makes of it now.
    notebook.start(5)
    lines = notebook.output(5).locator(".jp-OutputArea-output").first
    lines.evaluate(WATCH.replace("EVENTS", IN_OUTPUT))
    notebook.wait_until_run(5)
    bare = _late(notebook.page.evaluate("window.watched"), _printed(notebook, 6))
    measured = f"median {middle:.0f} ms, p95 {most:.0f} ms (a printed line: {bare[0]:.0f} and {bare[1]:.0f} ms)"
    what = "a value on the device, on screen while the cell runs"
    return Row("P7", what, f"p95 ≤ {LATENCY_MS} ms", measured, most <= LATENCY_MS)


def _late(watched: dict[str, Any], made: list[float]) -> tuple[float, float]:
    """Median and 95th percentile of the milliseconds from an event to the screen."""
    # The first of them come before anybody has opened the panel.
    late = sorted(_first(watched["seen"], at) - began for at, began in enumerate(made) if began > watched["since"])
    return statistics.median(late), late[int(0.95 * len(late))]


def _first(seen: list[tuple[float, int]], step: int) -> float:
    """When a step was on screen, in milliseconds."""
    return next(at for at, events in seen if events > step)


def _flood(notebook: Notebook, messages: Messages) -> Row:
    before = _page_mb(notebook)
    messages.sizes.clear()
    watched = _watched(notebook, 3)
    sizes, page = list(messages.sizes), _page_mb(notebook) - before
    seconds, memory = _printed(notebook, 4)
    frame = sorted(watched["frames"])[int(0.95 * len(watched["frames"]))]
    often, much = len(sizes) / seconds, sum(sizes) / seconds
    growth = max(memory) - memory[len(memory) // 4]
    return Row(
        "P7",
        f"{FLOOD:,} events in a cell",
        f"≤ {MOST_MESSAGES} messages and 1 MB a second, 95 % of frames within {FRAME_MS} ms, memory flat",
        f"{often:.1f} messages and {much / 1e6:.2f} MB a second, {frame:.0f} ms, "
        f"in {seconds:.0f} s the kernel's memory grew by {growth:.0f} MB and the page's by {page:.0f} MB",
        often <= MOST_MESSAGES and much <= MOST_BYTES and frame <= FRAME_MS and max(growth, page) <= GROWTH_MB,
    )


def _page_mb(notebook: Notebook) -> float:
    """What scripts hold in the page, after a garbage collection."""
    session = notebook.page.context.new_cdp_session(notebook.page)
    session.send("HeapProfiler.collectGarbage")
    return notebook.page.evaluate("performance.memory.usedJSHeapSize") / 1e6


def _watched(notebook: Notebook, cell: int) -> dict[str, Any]:
    """Runs a cell and gives what was seen of its panel."""
    notebook.start(cell)
    panel: Locator = notebook.panel(cell)
    panel.get_by_role("tab", name="Transfer").click()
    panel.evaluate(WATCH.replace("EVENTS", IN_PANEL))
    notebook.wait_until_run(cell)
    return notebook.page.evaluate("window.watched")


def _printed(notebook: Notebook, cell: int) -> Any:
    return json.loads(notebook.run(cell).inner_text())
