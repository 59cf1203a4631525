"""Runs the tour in a real kernel, prints each cell and its report, then serves JupyterLab on the result."""

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter

TOUR = Path(__file__).with_name("tour.ipynb")
BUILD = TOUR.parents[1] / "build"
CELL_SECONDS = 600


def main() -> None:
    BUILD.mkdir(exist_ok=True)
    notebook = nbformat.read(TOUR, as_version=4)
    run(notebook)
    executed, page = BUILD / "tour.ipynb", BUILD / "tour.html"
    nbformat.write(notebook, executed)
    page.write_text(HTMLExporter().from_notebook_node(notebook)[0], encoding="utf-8")
    print(f"\nThe executed notebook: {executed}\nThe same as a page:    {page}", flush=True)
    if sys.stdout.isatty() and os.environ.get("CI") != "true":
        serve(executed)


def run(notebook: nbformat.NotebookNode) -> None:
    """Executes it in place and prints every cell as it ends; a cell that raises must be tagged `raises-exception`."""

    def print_cell(cell: nbformat.NotebookNode, cell_index: int, **_: Any) -> None:
        print(f"\n{'─' * 78}\n{cell.source}\n")
        for output in cell.get("outputs", ()):
            print(as_text(output), flush=True)

    NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(TOUR.parent)}},
        store_widget_state=False,  # the static report stands in for the panel where there is no JupyterLab
        on_cell_executed=print_cell,
    ).execute()


def as_text(output: nbformat.NotebookNode) -> str:
    if output.output_type == "stream":
        return output.text.rstrip()
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    return output.data.get("text/plain", "")


def serve(notebook: Path) -> None:
    """Becomes JupyterLab, which prints the notebook's address."""
    address = f"--LabApp.default_url=/lab/tree/{notebook.name}"
    arguments = ["-m", "jupyterlab", "--no-browser", f"--notebook-dir={notebook.parent}", address]
    if os.geteuid() == 0:
        arguments.append("--allow-root")
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main()
