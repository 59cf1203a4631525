"""P10: what `%%jaxtrace` costs a cell that is pure Python."""

from collections.abc import Iterable

from IPython.core.interactiveshell import InteractiveShell
from rounds import Row, ratio

CELL = "total = 0\nfor i in range(10_000_000):\n    total += i\n"


def rows(only: set[str]) -> Iterable[Row]:
    if only and "P10" not in only:
        return
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jaxmagic")
    found = ratio(lambda: _run(shell, "%%jaxtrace -q\n" + CELL), lambda: _run(shell, CELL))
    yield Row("P10", "10 million iterations of plain Python", "≤ 1.05 × plain", f"{found:.3f} ×", found <= 1.05)


def _run(shell: InteractiveShell, cell: str) -> None:
    shell.run_cell(cell, store_history=False).raise_error()
