"""Drives a notebook in a real JupyterLab the way a person does: keys, clicks, and what the page then says."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
START_MS = 30_000
CELL_MS = 90_000
IDLE = "Python 3 (ipykernel) | Idle"
Cells = Sequence[dict[str, Any]]


def code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    """A code cell as a notebook file has it; each output is given as its mime bundle."""
    return {
        "cell_type": "code",
        "source": source,
        "execution_count": 1 if outputs else None,
        "metadata": {},
        "outputs": [{"output_type": "display_data", "metadata": {}, "data": bundle} for bundle in outputs],
    }


def write_notebook(file: Path, cells: Cells, *, kernel: bool = True) -> None:
    """Writes a notebook as another program would: JupyterLab does not trust it."""
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}}
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": spec if kernel else {},
        "cells": [{**cell, "id": f"cell-{number}"} for number, cell in enumerate(cells)],
    }
    file.write_text(json.dumps(notebook))


@dataclass
class Lab:
    """A page of JupyterLab, with no notebook open yet."""

    page: Page
    address: str
    notebooks: Path

    def open(self, *cells: str | dict[str, Any], name: str = "test", kernel: bool = True) -> "Notebook":
        """Writes a notebook and opens it in a workspace of its own; without a kernel if told so."""
        file = self.notebooks / f"{name}.ipynb"
        write_notebook(file, [code(cell) if isinstance(cell, str) else cell for cell in cells], kernel=kernel)
        if kernel:
            return self.reopen(file)
        notebook = self._visit(file)
        self.page.get_by_role("dialog").get_by_role("button", name="No Kernel").click()
        return notebook

    def reopen(self, file: Path) -> "Notebook":
        """Opens a notebook that is there, and waits for its kernel."""
        notebook = self._visit(file)
        notebook.wait_until_idle()
        return notebook

    def _visit(self, file: Path) -> "Notebook":
        self.page.goto(f"{self.address}doc/workspaces/{file.stem}/tree/{file.name}?reset")
        expect(self.page.locator(".jp-Notebook")).to_be_visible(timeout=START_MS)
        self._wait_for_splash()
        return Notebook(self.page, file)

    def _wait_for_splash(self) -> None:
        """The picture JupyterLab lays over everything while it starts or changes its theme."""
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0, timeout=START_MS)

    def shut_down_kernels(self) -> None:
        """Ends every kernel of the server, so that what a notebook shows afterwards was saved in it."""
        self.page.evaluate("() => window.jupyterapp?.serviceManager.sessions.shutdownAll()")

    def theme(self, name: str) -> None:
        """Changes to `JupyterLab Dark`, `JupyterLab Light`, …, as the Settings menu does."""
        self.command("apputils:change-theme", theme=name)
        expect(self.page.locator(f'body[data-jp-theme-name="{name}"]')).to_be_attached()
        self._wait_for_splash()

    def command(self, name: str, **arguments: Any) -> None:
        script = "([name, arguments]) => window.jupyterapp.commands.execute(name, arguments).then(() => null)"
        self.page.evaluate(script, [name, arguments])


@dataclass
class Notebook:
    """An open notebook."""

    page: Page
    file: Path

    def wait_until_idle(self) -> None:
        expect(self.page.get_by_text(IDLE)).to_be_visible(timeout=CELL_MS)

    def cell(self, index: int) -> Locator:
        return self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{index}"]')

    def output(self, index: int) -> Locator:
        return self.cell(index).locator(".jp-Cell-outputArea")

    def panel(self, index: int) -> Locator:
        """The panel of jaxmagic below a cell."""
        return self.output(index).get_by_role("region", name=re.compile("^jax"))

    def overflow(self, index: int) -> int:
        """By how many pixels the panel is wider than the room it has."""
        return self.panel(index).evaluate("panel => panel.scrollWidth - panel.clientWidth")

    def start(self, index: int) -> None:
        """Runs a cell by its keyboard shortcut, without waiting for it."""
        self.cell(index).locator(".jp-InputArea-editor").click()
        self.page.keyboard.press("Control+Enter")

    def run(self, index: int) -> Locator:
        """Runs a cell, waits until it has ended and gives its output area."""
        self.start(index)
        self.wait_until_run(index)
        return self.output(index)

    def answer(self, index: int, text: str) -> None:
        """Types a line where a running cell asks for one: `input`, a debugger."""
        box = self.output(index).locator("input.jp-Stdin-input").last  # the one before may still be there, answered
        expect(box).to_have_value("", timeout=CELL_MS)
        box.fill(text)
        box.press("Enter")

    def wait_until_run(self, index: int) -> None:
        prompt = self.cell(index).locator(".jp-InputPrompt")
        expect(prompt).to_have_text(re.compile(r"\[\d+\]:"), timeout=CELL_MS)
        self.wait_until_idle()

    def save(self) -> dict[str, Any]:
        """Saves by the keyboard and gives the notebook as it is on disk."""
        before = self.file.stat().st_mtime_ns
        with self.page.expect_response(lambda answer: "api/contents" in answer.url and answer.request.method == "PUT"):
            self.page.keyboard.press("Control+s")
        assert self.file.stat().st_mtime_ns != before
        return json.loads(self.file.read_text())
