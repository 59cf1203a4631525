"""P5: large programs in the panel, in a real Chromium, from the payload to something a person can use."""

import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import msgspec
from playwright.sync_api import Page, sync_playwright
from rounds import Row

from jaxmagic.records import (
    Aval,
    Compiled,
    Equation,
    Frame,
    Program,
    Reason,
    Region,
    Report,
    Source,
    Span,
    Trace,
    Variable,
    Versions,
)

ROOT = Path(__file__).parent.parent
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")

SIZES = {10_000: 1.0, 100_000: 3.0}
"""Equations, and the seconds within which the panel has to be usable."""

REGION_MS = 150
FRAME_MS = 1000 / 60
BODY = 60
"""Equations in each of the scans that a program holds."""

ROUNDS = 5

AVAL = Aval((32, 256), "float32")

MEASURE = """async () => {
  const root = document.getElementById("panel").shadowRoot;
  const painted = () => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));
  const timed = async (act, isDone) => {
    const began = performance.now();
    act();
    while (!isDone()) await painted();
    await painted();
    return performance.now() - began;
  };
  const [payload] = performance.getEntriesByName("payload");
  const [usable] = performance.getEntriesByName("usable");
  const first = usable.startTime - payload.startTime;
  const transform = root.querySelector("#tab-transform");
  const isThere = () => root.querySelector(".row.equation") && root.querySelector(".node");
  const list = await timed(() => transform.click(), isThere);
  const scan = [...root.querySelectorAll(".row.region")].at(-1);
  const before = root.querySelector(".crumbs").textContent;
  const region = await timed(() => scan.click(), () =>
    root.querySelector(".crumbs").textContent !== before && root.querySelector(".node"));
  const frames = [];
  for (let last = performance.now(), at = 0; at < 120; at++) {
    root.querySelector(".list").scrollTop += 137;
    await new Promise(requestAnimationFrame);
    frames.push(performance.now() - last);
    last = performance.now();
  }
  return { usable: first + list, region, frame: frames.sort((a, b) => a - b)[60] };
}"""


def rows(only: set[str]) -> list[Row]:
    if only and "P5" not in only:
        return []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        executable = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=list(FLAGS))
        try:
            return [_row(browser.new_page(), size, Path(folder)) for size in SIZES]
        finally:
            browser.close()


def _row(page: Page, size: int, folder: Path) -> Row:
    address = _written(size, folder)
    rounds = [_measured(page, address) for _ in range(ROUNDS)]
    usable, region, frame = (statistics.median(each[name] for each in rounds) for name in ("usable", "region", "frame"))
    return Row(
        "P5",
        f"a program of {size:,} equations in the panel",
        f"usable in {SIZES[size]:g} s, a region opened in {REGION_MS} ms, scrolling at 60 frames a second",
        f"{usable / 1000:.2f} s, {region:.0f} ms, {1000 / frame:.0f} frames a second",
        usable <= 1000 * SIZES[size] and region <= REGION_MS and frame <= 1.1 * FRAME_MS,
    )


def _measured(page: Page, address: str) -> dict[str, float]:
    page.goto(address)
    page.wait_for_function("performance.getEntriesByName('usable').length")
    return page.evaluate(MEASURE)


def _written(size: int, folder: Path) -> str:
    """Address of a page that holds the panel on a report of that size."""
    record = folder / f"{size}.json"
    record.write_bytes(msgspec.json.encode(_report(size)))
    subprocess.run(["node", "js/dev.mjs", record, folder], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return record.with_suffix(".html").as_uri()


def _report(size: int) -> Report:
    spans = [Span("cell", line, 4, line, 13) for line in range(1, 21)]
    frames = tuple(Frame(span, "step") for span in spans)
    program = Program(_region(size), frames, size)
    step = Compiled(0, "step", "jit", spans[0], traces=(Trace(Reason("first call"), calls=1, program=program),))
    source = Source("cell", "cell [1]", 1, "    y = x @ w\n" * len(spans))
    versions = Versions("0.1.0", "0", "0", "0")
    return Report("jaxtrace", "finished", "%%jaxtrace", versions, sources=(source,), compiled=(step,))


def _region(size: int) -> Region:
    """A long chain with a scan now and then."""
    scans = max(1, size // 1000)
    own = size - scans * BODY
    equations = [
        _equation(at, (_scan(size + at * BODY),) if at % (own // scans) == 8 else ()) for at in range(1, own + 1)
    ]
    return Region("jit", "step", (Variable(0, AVAL, "x"),), (), (own,), tuple(equations))


def _scan(first: int) -> Region:
    body = tuple(_equation(first + at, (), first) for at in range(1, BODY + 1))
    return Region("scan body", "body", (Variable(first, AVAL),), (), (first + BODY,), body)


def _equation(at: int, regions: tuple[Region, ...] = (), lowest: int = 0) -> Equation:
    ins = (at - 1, max(lowest, at - 7))
    primitive = "scan" if regions else ("add", "mul", "dot_general", "tanh")[at % 4]
    return Equation(primitive, ins, (Variable(at, AVAL),), frame=at % 20, name_stack="jvp(mlp)", regions=regions)
